"""A local HTTP server between an agent and its provider: passes on, records, and may send less."""
