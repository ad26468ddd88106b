"""Verifies PNG images: every chunk's CRC, and all pixels inflated to the size in the header."""

from __future__ import annotations

import os
from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import png as walker


class Backend(Loader):
    """Loads one .png file."""

    kind: ClassVar[str] = "png"
    suffixes: ClassVar[tuple[str, ...]] = (".png",)
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """The magic suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Walk and inflate it. Raises: Unloadable, OSError."""
        with open(path, "rb") as f:
            found = walker.walk(f, os.fstat(f.fileno()).st_size)
        facts = {"width": found.width, "height": found.height, "bits": found.depth, "chunks": found.chunks}
        return Loaded(("structure", "load"), {**facts, "by": "sojourn"})
