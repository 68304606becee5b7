"""A local HTTP server between an agent that nobody can change and its provider: it passes on what it
gets, keeps a record, and where it may, sends less.
"""
