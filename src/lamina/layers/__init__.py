"""The seven layers, each a module of its own; they know the state, not each other."""
