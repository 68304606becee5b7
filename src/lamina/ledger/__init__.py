"""The append-only record of a session and the view that is made of it."""
