"""Verifies JPEG images: markers by our own walker, and decoded whole by Pillow if installed.

JPEG has no checksum: only the sha256 shows damage inside the compressed data that still decodes.
"""

from __future__ import annotations

import os
import warnings
from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import jpeg as walker
from sojourn.formats.damage import Unloadable

_PIXELS_LIMIT = 64 << 20  # three bytes each, decoded


class Backend(Loader):
    """Loads one .jpg or .jpeg file."""

    kind: ClassVar[str] = "jpeg"
    suffixes: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg")
    magic: ClassVar[tuple[bytes, ...]] = (walker.MAGIC,)

    def owns(self, path: str, head: bytes) -> bool:
        """The magic suffices."""
        return True

    def load(self, path: str) -> Loaded:
        """Walk and decode it. Raises: Unloadable, OSError."""
        if os.path.getsize(path) > walker.LIMIT_BYTES:
            raise Unloadable("unsupported", f"a JPEG of more than {walker.LIMIT_BYTES >> 20} MiB")
        with open(path, "rb") as f:
            found = walker.walk(f.read())
        facts = {"width": found.width, "height": found.height, "channels": found.components}
        remarks = []
        if found.zero_run_bytes:
            remarks.append(f"a run of {found.zero_run_bytes} zero bytes in its compressed data")
        if found.width * found.height > _PIXELS_LIMIT:
            by, why = "", f"not loaded: more than {_PIXELS_LIMIT} pixels"
        else:
            by, why = _decode(path), "not loaded: Pillow is not installed here; its markers are proven without it"
        if not by:
            remarks.append(why)
        return Loaded(("structure", "load") if by else ("structure",), {**facts, "by": by}, tuple(remarks))


def _decode(path: str) -> str:
    """Pillow's name and version, "" if not installed. Raises: Unloadable if it cannot decode the file."""
    try:
        import PIL
        from PIL import Image
    except ImportError:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with Image.open(path, formats=("JPEG", "MPO")) as image:
                image.load()
        except (OSError, ValueError, SyntaxError, IndexError, KeyError, TypeError, Warning) as error:
            raise Unloadable("corrupt", f"Pillow refuses it: {str(error)[:200]}") from None
    return f"Pillow {PIL.__version__}"
