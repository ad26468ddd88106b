"""A first look into packed files, to tell their content."""

from __future__ import annotations

from sojourn.formats import packed, tar
from sojourn.formats.damage import Unloadable


def is_tar(path: str, head: bytes) -> bool:
    """The packed file, which starts with `head`, starts with a tar header inside. Raises: OSError."""
    with open(path, "rb") as f:
        stream, block = packed.stream(f, head), b""
        try:
            while len(block) < tar.BLOCK:
                part = stream.read(tar.BLOCK - len(block))
                if not part:
                    return False
                block += part
        except Unloadable:
            return False
    return tar.is_header(block)
