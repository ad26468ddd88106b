"""A checkpoint on its way to the disk: copied, written aside by another process, committed whole."""
