"""Verifies tar archives, plain or packed: headers, names, links, sizes, and the end, which is missing after a cut at a
member's boundary. Artifacts inside are judged too. Tar has no checksum over data: only the sha256 (or the packer's
checksum) shows a flipped bit inside a member without its own."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import packed
from sojourn.formats import tar as walker

# Its two end blocks, and the padding of the last record of 20 blocks.   Source: GNU tar manual, 9.4, 2026-11.
_PADDING_BYTES = 2 * walker.BLOCK + 20 * walker.BLOCK


class Backend(Loader):
    """Loads one .tar file, or one packed by gzip, bzip2 or xz."""

    kind: ClassVar[str] = "tar"
    suffixes: ClassVar[tuple[str, ...]] = (
        *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz"),
    )
    also: ClassVar[tuple[str, ...]] = (".gz", ".bz2", ".xz")
    magic: ClassVar[tuple[bytes, ...]] = ()  # a header has its checksum; most have "ustar" at byte 257

    def owns(self, path: str, head: bytes) -> bool:
        """Its first block is a header, or inflates to one."""
        from sojourn.backends.proof import inflated

        return walker.is_header(head[: walker.BLOCK]) or (packed.is_packed(head) and inflated.is_tar(path, head))

    def load(self, path: str) -> Loaded:
        """Walk it to its end. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import nested, reading

        inside = nested.Inside()
        with reading.of(path) as shared:
            f = shared.open()
            found = walker.walk(packed.stream(f, head) if packed.is_packed(head := f.peek(6)) else f, inside.sink)
        files = [member for member in found.members if member.kind in "07\x00S"]
        facts = {
            "members": len(found.members),
            "files": len(files),
            "file_bytes": sum(member.bytes for member in files),
            "first": [{"name": _shown(member.name), "bytes": member.bytes} for member in files[:32]],
            "by": "sojourn",
        }
        names = Counter(member.name for member in files)
        doubled = [name for name, count in names.items() if count > 1]
        remarks = [f"duplicate names in it: {', '.join(map(_shown, doubled[:5]))[:300]}"] if doubled else []
        if found.padding_bytes > _PADDING_BYTES:
            remarks.append(f"{found.padding_bytes} bytes of zeros after its last member: a hole there may hide others")
        remarks += [] if found.members else ["an archive without members"]
        holes = [_shown(member.name)[:80] for member in files if member.has_hole]
        if holes:
            remarks.append(f"a long run of zeros in {len(holes)} of {len(files)} files: {', '.join(holes[:5])}")
        return Loaded(("structure", "load"), facts, (*remarks, *inside.remarks))


def _shown(name: str) -> str:
    """A name with bytes that are not UTF-8 escaped."""
    return name[:200].encode("utf-8", "backslashreplace").decode("utf-8")
