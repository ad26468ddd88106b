"""A run's folder on the box: its files, records, locks, and the manifest of what it owes."""
