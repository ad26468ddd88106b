"""Bringing results home and proving them: `pull`, `verify`, `seal`, `accept`."""
