"""A checkpoint on its way to disk: copied, written aside by another process, committed whole."""
