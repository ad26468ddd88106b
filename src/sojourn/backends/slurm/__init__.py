"""Slurm: its batch scripts, what its programs print, and what that means."""
