"""sojourn: runs your training job on another machine and brings back results it has verified.

Imports: all (lazily)
Outside: none
"""

from __future__ import annotations

__version__ = "0.1.0"
