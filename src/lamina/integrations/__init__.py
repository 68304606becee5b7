"""Lamina inside other people's programs: a memory to call, MCP, hooks, wrapped clients."""
