"""Other tools' recordings: read, put through policies, costed on paper, and reported."""
