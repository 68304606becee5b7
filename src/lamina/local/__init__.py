"""What works with no model: pure functions that find, word and tidy memories."""
