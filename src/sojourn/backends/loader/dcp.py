"""Verifies that a torch.distributed.checkpoint folder is complete: its `.metadata` read without running it, every part
of every tensor accounted for, every file with a part present and large enough. The files' content: `dcp_shard`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import dcp as walker


class Backend(Loader):
    """Loads one .metadata file."""

    kind: ClassVar[str] = "dcp"
    suffixes: ClassVar[tuple[str, ...]] = ("/" + walker.NAME,)
    magic: ClassVar[tuple[bytes, ...]] = ()  # a pickle, like many other things
    among: ClassVar[str] = r"^\.metadata$"

    def owns(self, path: str, head: bytes) -> bool:
        """A pickle that starts by naming the class."""
        return head[:1] == b"\x80" and b"torch.distributed.checkpoint.metadata" in head[:128]

    def load(self, path: str) -> Loaded:
        """Refused: it says nothing without its files. Raises: Unloadable."""
        raise Unloadable("mismatch", f"metadata of torch.distributed.checkpoint that is not named {walker.NAME}")

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """Read it and check every file it names. Raises: Unloadable, OSError."""
        found = read_checkpoint(path)
        foreign = [file for file in found.files if "/" in file]
        if foreign:
            raise Unloadable("unsupported", f"its files are in separate folders: {foreign[0][:80]}")
        walker.check_files(found, {file: os.path.getsize(beside[file]) for file in found.files if file in beside})
        first = [{"key": key[:200], "dtype": d, "shape": list(s)} for key, (d, s) in list(found.shapes.items())[:32]]
        facts = {
            "tensors": len(found.shapes),
            "elements": sum(math.prod(shape) for _, shape in found.shapes.values()),
            "objects": len(found.others),
            "files": len(found.files),
            "first": first,
            "by": "sojourn",
        }
        return Loaded(("structure", "load", "content"), facts)


def read_checkpoint(path: str) -> walker.Checkpoint:
    """The checked `.metadata` at `path`. Raises: Unloadable, OSError."""
    if os.path.getsize(path) > walker.LIMIT_BYTES:
        raise Unloadable("unsupported", f"more than {walker.LIMIT_BYTES >> 20} MiB of metadata")
    with open(path, "rb") as f:
        return walker.read_metadata(f.read())
