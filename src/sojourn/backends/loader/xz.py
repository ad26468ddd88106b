"""Verifies xz files: every byte unpacked in pieces against the checksum of each block and the index. The content is not
judged, except a tar archive, which has its own loader."""

from __future__ import annotations

from typing import ClassVar

from sojourn.backends.loader import gz
from sojourn.core.ports import Loaded, Loader
from sojourn.formats import packed


class Backend(Loader):
    """Loads one .xz file."""

    kind: ClassVar[str] = "xz"
    suffixes: ClassVar[tuple[str, ...]] = (".xz",)
    also: ClassVar[tuple[str, ...]] = (".tar.xz", ".txz")  # damaged before the tar in it shows
    magic: ClassVar[tuple[bytes, ...]] = (packed.XZ,)

    def owns(self, path: str, head: bytes) -> bool:
        """xz, and as far as visible not of a tar archive."""
        from sojourn.backends.proof import inflated

        return not inflated.is_tar(path, head)

    def load(self, path: str) -> Loaded:
        """Unpack it. Raises: Unloadable, OSError."""
        return gz.load(path, lambda f: packed.pieces(f, packed.XZ), self.also)
