"""Proving an artifact by loading it: what a file is, what lies in it, and processes that load it within limits."""
