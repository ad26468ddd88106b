"""The queue of a box: its requests, its progress, and what runs beside it. `supervise` keeps it."""
