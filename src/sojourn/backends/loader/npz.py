"""Verifies numpy archives: zip frame and CRC, the header of every array by our own walker, opened by numpy (never a
pickle), every value scanned in pieces, however large it inflates."""

from __future__ import annotations

import zipfile
from typing import BinaryIO, ClassVar, cast

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import npy as walker
from sojourn.formats.damage import Unloadable


class Backend(Loader):
    """Loads one .npz file."""

    kind: ClassVar[str] = "npz"
    suffixes: ClassVar[tuple[str, ...]] = (".npz",)
    also: ClassVar[tuple[str, ...]] = (".zip",)
    magic: ClassVar[tuple[bytes, ...]] = (b"PK\x03\x04", b"PK\x05\x06")

    def owns(self, path: str, head: bytes) -> bool:
        """All its entries are arrays; if there is none, its name decides."""
        from sojourn.backends.proof import archive

        names = archive.names(path)
        is_none = path.lower().endswith(self.suffixes) and head.startswith(b"PK\x05\x06")
        return (bool(names) or is_none) and all(name.endswith(".npy") for name in names)

    def load(self, path: str) -> Loaded:
        """Walk, open and scan it. Raises: Unloadable, OSError."""
        import numpy as np

        from sojourn.backends.proof import archive, content, reading

        data, entries = archive.open_archive(path)
        found = content.Content()
        arrays = []
        with reading.of(path) as shared:
            for entry in entries:
                if not entry.name.endswith(".npy"):
                    raise Unloadable("unsupported", f"{entry.name[:80]} in it is not an array")
                member = archive.Member(data, entry, shared.pieces)
                try:
                    header = walker.walk_open(cast(BinaryIO, member), entry.bytes)
                except Unloadable as error:
                    # A checksum describes damage better than a header that no longer adds up.
                    if error.problem != "unsafe":
                        for _ in member.pieces():
                            pass
                    raise Unloadable(error.problem, f"{entry.name[:80]}: {error.why}") from None
                dtype = content.numpy_dtype(header.descr)
                name = entry.name[: -len(".npy")]
                found.add(name, content.scan(dtype, member.pieces()))
                arrays.append((name, str(dtype), header.shape))
        try:
            with np.load(path, allow_pickle=False) as opened:
                names = sorted(opened.files)
        except (ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
            raise Unloadable("corrupt", f"numpy refuses it: {error}") from None
        if names != sorted(name for name, _, _ in arrays):
            raise Unloadable("corrupt", "numpy finds different arrays in it")
        found.settle()
        return Loaded(
            ("structure", "load", "content"), {**found.describe(arrays), "by": f"numpy {np.__version__}"}, found.remarks
        )
