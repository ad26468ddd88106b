"""A run's folder on the box: its files, its records, its locks, and the manifest of what it owes."""
