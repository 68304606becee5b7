"""The prompt cache made visible: why a prefix broke, what a cache would do, what it all costs."""
