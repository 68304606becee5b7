"""Layer 7: agents beside the main one. Today: the fork, on which background work stands."""
