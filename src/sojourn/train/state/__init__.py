"""What a checkpoint contains, and how it is restored: items, random numbers, the position in the data."""
