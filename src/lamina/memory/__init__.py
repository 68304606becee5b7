"""The memory directory: Markdown files that people read, and the one gate that guards them."""
