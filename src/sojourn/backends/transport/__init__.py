"""Backends of the transport port; see `sojourn.core.ports`."""
