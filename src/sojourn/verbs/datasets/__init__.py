"""A data set before it is trained on: `shard`, `stage`."""
