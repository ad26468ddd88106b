"""Backends of the launcher port; see `sojourn.core.ports`."""
