"""What a checkpoint holds, and how it is put back: items, random numbers, the position in the data."""
