"""What the operating system tells, and safe ways to touch it: processes, limits, files, waiting."""
