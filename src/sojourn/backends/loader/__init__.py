"""Backends of the loader port; see `sojourn.core.ports`."""
