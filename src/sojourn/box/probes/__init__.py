"""One measurement each. A probe returns None for what this machine does not tell; it raises nothing."""
