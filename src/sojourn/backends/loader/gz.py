"""Verifies gzip files: every byte inflated in pieces against the CRC and length of its member. The content is not
judged, except a tar archive, which has its own loader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import gz as walker
from sojourn.formats.damage import Unloadable


class Backend(Loader):
    """Loads one .gz file."""

    kind: ClassVar[str] = "gz"
    suffixes: ClassVar[tuple[str, ...]] = (".gz",)
    also: ClassVar[tuple[str, ...]] = (".tar.gz", ".tgz")  # damaged before the tar in it shows
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """Gzip, and as far as visible not of a tar archive."""
        from sojourn.backends.proof import inflated

        return head[2:3] in (b"\x08", b"") and not inflated.is_tar(path, head)

    def load(self, path: str) -> Loaded:
        """Inflate it. Raises: Unloadable, OSError."""
        return load(path, walker.pieces, self.also)


def load(path: str, pieces: Callable[[BinaryIO], Iterator[bytes]], of_tars: Sequence[str]) -> Loaded:
    """Read all `pieces` of a packed file without a tar archive. Raises: Unloadable, OSError."""
    from sojourn.backends.proof import nested, reading

    total, name = 0, os.path.basename(path)
    inside = nested.Inside((*nested.NAMES, *nested.TEXTS))
    with reading.of(path) as shared, inside.sink(os.path.splitext(name)[0], -1) as sink:
        for piece in pieces(shared.open()):
            total += len(piece)
            if sink:
                sink.write(piece)
    if path.lower().endswith(tuple(of_tars)):
        raise Unloadable("mismatch", "named like tar but contains no tar archive")
    return Loaded(("structure", "load"), {"inflated_bytes": total, "by": "sojourn"}, inside.remarks)
