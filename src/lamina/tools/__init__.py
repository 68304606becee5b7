"""Tools: what an agent can do to the world, and the rules that it does it by."""
