"""Backends of the provider port; see `sojourn.core.ports`."""
