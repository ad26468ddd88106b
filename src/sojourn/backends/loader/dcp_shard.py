"""Verifies one file of a torch.distributed.checkpoint folder: every part that `.metadata` places in it, checksums and
shapes compared, every value scanned."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import dcp as walker
from sojourn.formats.torch import entries as torch_entries
from sojourn.formats.torch.values import Damaged


class Backend(Loader):
    """Loads one .distcp file."""

    kind: ClassVar[str] = "dcp_shard"
    suffixes: ClassVar[tuple[str, ...]] = (".distcp",)
    magic: ClassVar[tuple[bytes, ...]] = ()
    among: ClassVar[str] = r"\.distcp$"
    may_be_empty: ClassVar[bool] = True  # written by a rank without tensors

    def owns(self, path: str, head: bytes) -> bool:
        """Only its name and its neighbour identify it: its bytes start like a PyTorch file's."""
        return path.endswith(".distcp")

    def load(self, path: str) -> Loaded:
        """Refused: it says nothing without its neighbour. Raises: Unloadable."""
        raise Unloadable("missing-shard", "the .metadata that describes its contents is not known")

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """Read every part of it. Raises: Unloadable, OSError."""
        from sojourn.backends.loader import dcp
        from sojourn.backends.proof import archive, reading, stream_scan

        if walker.NAME not in beside:
            raise Unloadable("missing-shard", "the .metadata that describes its contents is not beside it")
        try:
            found = dcp.read_checkpoint(beside[walker.NAME])
        except Unloadable as error:
            raise Unloadable("missing-shard", f"the .metadata beside it is {error.problem}: {error.why}") from None
        items = found.files.get(name, [])
        with open(path, "rb") as f:
            size_bytes = f.seek(0, 2)
            if not items:
                if size_bytes:
                    raise Unloadable(
                        "mismatch", "the .metadata beside it does not list this file: it belongs to another save"
                    )
                return Loaded(("structure", "load", "content"), {"by": "sojourn"}, ("a rank that had nothing to save",))
            if not size_bytes:
                raise Unloadable("empty", "the file has no bytes")
            data = torch_entries.sparse(memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)))
        tensors = walker.open_items(data, name, items)
        for item in (item for item in items if item.is_plain):
            part = data[item.offset : item.offset + item.bytes]
            try:
                archive.check_frame(part, torch_entries.entries(part, name))
            except Damaged as error:
                raise Unloadable("corrupt", f"{item.name[:80]}: {error.fields['detail']}") from None
        with reading.of(path) as shared:
            content = stream_scan.scan(tensors, shared.pieces)
        content.settle()
        facts: dict[str, Any] = content.describe((key, t.dtype, t.shape) for key, t in tensors)
        packed = sum(not item.is_plain for item in items)
        if packed:
            remark = f"{packed} of {len(items)} parts are compressed by an extension: only their sizes are proven"
            return Loaded(("structure",), {**facts, "by": ""}, (*content.remarks, remark))
        return Loaded(("structure", "load", "content"), {**facts, "by": "sojourn"}, content.remarks)
