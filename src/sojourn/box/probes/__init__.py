"""One measurement each. A probe returns None for what this machine does not report; it raises nothing."""
