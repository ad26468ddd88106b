"""Verifies one numpy array: header and size by our own walker, opened by numpy (no pickles), every value scanned."""

from __future__ import annotations

from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import npy as walker
from sojourn.formats.damage import Unloadable


class Backend(Loader):
    """Loads one .npy file."""

    kind: ClassVar[str] = "npy"
    suffixes: ClassVar[tuple[str, ...]] = (".npy",)
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """The magic suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Walk, open and scan it. Raises: Unloadable, OSError."""
        import numpy as np

        from sojourn.backends.proof import content, reading

        header = walker.walk(path)
        found = content.Content()
        dtype = content.numpy_dtype(header.descr)
        with reading.of(path) as shared:
            found.add("the array", content.scan(dtype, shared.pieces(header.data_begin, header.data_bytes)))
        found.settle()
        try:
            np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise Unloadable("corrupt", f"numpy refuses it: {error}") from None
        facts = {**found.describe([("", str(dtype), header.shape)]), "by": f"numpy {np.__version__}"}
        return Loaded(("structure", "load", "content"), facts, found.remarks)
