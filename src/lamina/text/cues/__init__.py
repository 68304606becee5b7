"""The words by which the local extractor knows a wish, a rule, a role, a date that matters or a place.

One list a language. They are narrow on purpose: what is missed can be said again, what is wrong
stays in memory.
"""
