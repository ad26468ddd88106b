"""Verifies bzip2 files: every byte unpacked in pieces against the CRC of each block. The content is not judged, except
a tar archive, which has its own loader."""

from __future__ import annotations

from typing import ClassVar

from sojourn.backends.loader import gz
from sojourn.core.ports import Loaded, Loader
from sojourn.formats import packed


class Backend(Loader):
    """Loads one .bz2 file."""

    kind: ClassVar[str] = "bz2"
    suffixes: ClassVar[tuple[str, ...]] = (".bz2",)
    also: ClassVar[tuple[str, ...]] = (".tar.bz2", ".tbz2", ".tbz")  # damaged before the tar in it shows
    magic: ClassVar[tuple[bytes, ...]] = (packed.BZIP2,)

    def owns(self, path: str, head: bytes) -> bool:
        """bzip2, and as far as visible not of a tar archive."""
        from sojourn.backends.proof import inflated

        return not inflated.is_tar(path, head)

    def load(self, path: str) -> Loaded:
        """Unpack it. Raises: Unloadable, OSError."""
        return gz.load(path, lambda f: packed.pieces(f, packed.BZIP2), self.also)
