"""A first look into gzip files, to tell what they are of."""

from __future__ import annotations

from sojourn.wire import gz, tar
from sojourn.wire.damage import Unloadable


def is_tar(path: str) -> bool:
    """The gzip file's first block is a tar header. Raises: OSError."""
    with open(path, "rb") as f:
        stream, block = gz.Stream(f), b""
        try:
            while len(block) < tar.BLOCK:
                part = stream.read(tar.BLOCK - len(block))
                if not part:
                    return False
                block += part
        except Unloadable:
            return False
    return tar.is_header(block)
