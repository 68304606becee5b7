"""Team memory: one server for many people, and the client that keeps `memory/team/` in step with it."""
