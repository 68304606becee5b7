"""Lamina: seven-layer memory for LLM agents."""
