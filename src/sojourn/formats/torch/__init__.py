"""PyTorch's files: zip and pickle, written, taken apart, and read without running anything."""
