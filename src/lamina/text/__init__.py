"""What words mean, without files, clocks or state: every room above asks here."""
