"""Verifies DeepSpeed's file `latest`: one line with the name of the newest checkpoint's folder, which must exist."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable

# DeepSpeed's own default tag; a file with another may be anything, as many files have that name.
# Source: DeepSpeedEngine.save_checkpoint in deepspeed/runtime/engine.py, DeepSpeed 0.19, 2026-11.
_TAG = re.compile(rb"global_step\d{1,18}\n?")


class Backend(Loader):
    """Loads one `latest` file."""

    kind: ClassVar[str] = "latest"
    suffixes: ClassVar[tuple[str, ...]] = ("/latest",)
    magic: ClassVar[tuple[bytes, ...]] = ()
    among: ClassVar[str] = r"^latest$"
    may_be_empty: ClassVar[bool] = True

    def owns(self, path: str, head: bytes) -> bool:
        """Only its name identifies it."""
        return False

    def declines(self, head: bytes) -> bool:
        """A file with that name from another program."""
        return _TAG.fullmatch(head) is None

    def load(self, path: str) -> Loaded:
        """Refused: it says nothing without its neighbours. Raises: Unloadable."""
        raise Unloadable("missing-shard", "what it names is not known")

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """Look for the folder it names. Raises: Unloadable, OSError."""
        with open(path, "rb") as f:
            tag = os.fsdecode(f.read(64).strip())
        if tag + "/" not in beside:
            raise Unloadable("missing-shard", f"it names {tag}, but there is no such folder beside it")
        return Loaded(("structure", "load", "content"), {"names": tag, "by": "sojourn"})
