"""Proves gzip files: every byte inflated in pieces against the CRC and length of its member. What is inside is not
judged, but for a tar archive, which has a loader of its own."""

from __future__ import annotations

import os
from typing import ClassVar

from sojourn.core.ports import Loaded
from sojourn.wire import gz as walker
from sojourn.wire.damage import Unloadable


class Backend:
    """Loads one .gz file."""

    kind: ClassVar[str] = "gz"
    suffixes: ClassVar[tuple[str, ...]] = (".gz",)
    also: ClassVar[tuple[str, ...]] = (".tar.gz", ".tgz")  # damaged before it can be seen that there is a tar in it
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """Gzip, and not of a tar archive as far as can be seen."""
        from sojourn.backends.client import inflated

        return head[2:3] in (b"\x08", b"") and not inflated.is_tar(path)

    def load(self, path: str) -> Loaded:
        """Inflate it. Raises: Unloadable, OSError."""
        from sojourn.backends.client import archive

        total = 0
        with open(path, "rb") as f:
            for piece in walker.pieces(f):
                total += len(piece)
        if path.lower().endswith(self.also):
            raise Unloadable("mismatch", "named like tar, and there is no tar archive in it")
        inside = os.path.basename(path)[: -len(".gz")]
        remarks = archive.not_looked_into([inside]) if path.lower().endswith(self.suffixes) else ()
        return Loaded(("structure", "load"), {"inflated_bytes": total, "by": "sojourn"}, remarks)
