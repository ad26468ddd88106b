"""Slurm: its batch scripts, the output of its programs, and what that means."""
