"""Verifies PyTorch files from before 1.6: every pickle in it read by our own machine, which runs nothing; every size
and the end; every value scanned. Loaded, weights only, by PyTorch if installed and the file is not too large for it.

The format has no checksum: only the sha256 shows a flipped bit that leaves all values finite.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from sojourn.backends.loader import torch_zip
from sojourn.core.ports import Loaded, Loader
from sojourn.formats.torch import legacy as walker

# PyTorch reads this format into memory, all of it; beyond this size our own reader, which maps the file, loads it.
_TORCH_LIMIT_BYTES = 128 << 20


class Backend(Loader):
    """Loads one file of the old format."""

    kind: ClassVar[str] = "torch_legacy"
    suffixes: ClassVar[tuple[str, ...]] = ()  # those of torch_zip
    also: ClassVar[tuple[str, ...]] = (*torch_zip.Backend.suffixes, ".pkl", ".pickle")
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """The pickled magic number suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Read and scan it. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import objects, reading, stream_scan

        found = walker.read_legacy(path, objects.more)
        by, is_read = "sojourn", bool(found.remarks)
        if not is_read and os.path.getsize(path) <= _TORCH_LIMIT_BYTES:
            by = torch_zip.load_weights(path, is_mapped=False) or by
        with reading.of(path) as shared:
            content = stream_scan.scan(((objects.plain(name), tensor) for name, tensor in found.tensors), shared.pieces)
        content.bad += torch_zip.scales_not_finite(found.tensors) + objects.check(found.tree)
        content.settle()
        facts: dict[str, Any] = content.describe((name, t.dtype, t.shape) for name, t in found.tensors)
        facts["keys"] = torch_zip.top_keys(found.tree)
        if found.classes:
            facts["classes"] = [name[:200] for name in found.classes[:256]]
        remarks = (
            *found.remarks,
            *content.remarks,
            *torch_zip.odd_numbers(found.tree),
            "PyTorch's format from before 1.6, which has no checksums",
        )
        proved = ("structure", "content") if is_read else ("structure", "load", "content")
        return Loaded(proved, {**facts, "by": by}, remarks)
