"""Loaded first by every Python of a payload if the job says `protect: saves`: PYTHONPATH names this folder."""
