"""Verifies zip archives: frame without gap or overlap, no name or link that leaves the archive, every entry inflated in
pieces against its CRC. Artifacts inside are judged too."""

from __future__ import annotations

import posixpath
from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable


class Backend(Loader):
    """Loads one zip archive that is neither PyTorch's nor numpy's (or is, but is named .zip)."""

    kind: ClassVar[str] = "zip"
    suffixes: ClassVar[tuple[str, ...]] = (".zip",)
    magic: ClassVar[tuple[bytes, ...]] = (b"PK\x03\x04", b"PK\x05\x06")

    def owns(self, path: str, head: bytes) -> bool:
        """A directory, or a first entry, that is not one of the special kinds of zip."""
        from sojourn.backends.proof import archive

        names = archive.names(path)
        is_numpy = bool(names) and all(name.endswith(".npy") for name in names)
        return (bool(names) or head.startswith(b"PK\x05\x06")) and not archive.is_torch(names) and not is_numpy

    def load(self, path: str) -> Loaded:
        """Walk and inflate it. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import archive, nested, reading

        data, entries = archive.open_archive(path)
        inside = nested.Inside()
        with reading.of(path) as shared:
            for entry in entries:
                with inside.sink(entry.name, entry.bytes) as sink:
                    for piece in archive.Member(data, entry, shared.pieces).pieces():
                        if sink:
                            sink.write(piece)
        for name, target in archive.links(data, entries).items():
            leads = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if target.startswith("/") or leads.startswith(".."):
                raise Unloadable("escapes-root", f"the link {name[:80]!r} in it leads to {target[:80]!r}")
        facts = {
            "entries": len(entries),
            "inflated_bytes": sum(entry.bytes for entry in entries),
            "first": [{"name": entry.name[:200], "bytes": entry.bytes} for entry in entries[:32]],
            "by": "sojourn",
        }
        remarks: tuple[str, ...] = () if entries else ("an archive without entries",)
        return Loaded(("structure", "load"), facts, remarks + inside.remarks)
