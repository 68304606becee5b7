"""`lamina ui`: a page on this machine for memory, sessions and money."""
