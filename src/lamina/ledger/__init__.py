"""The ledger: an append-only log, edits, and the view that is projected from them."""
