"""Verifying an artifact by loading it: its type, its content, and processes that load it within limits."""
