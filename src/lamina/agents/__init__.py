"""Layer 7: agents beside the conversation, in this process, in others and on other hosts."""
