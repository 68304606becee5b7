"""Finds the few memories that matter for a question, and says why."""
