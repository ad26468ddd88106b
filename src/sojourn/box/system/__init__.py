"""Operating system information, and safe ways to use it: processes, limits, files, waiting."""
