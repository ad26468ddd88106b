"""sojourn: take a training run to a rented GPU and bring it home, proven by loading it.

Imports: all (lazily)
Outside: none
"""

from __future__ import annotations

__version__ = "0.1.0"
