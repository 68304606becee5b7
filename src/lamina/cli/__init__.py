"""The command line: thin modules that parse, call the rest and render what comes back."""
