"""`shard`: many small files into tar shards that WebDataset reads.

All files of a sample (same path up to the first dot of its last part) stand together in one shard, in the order of
their paths. The same folder gives the same bytes; what an interrupted `shard` finished is kept.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from sojourn.core.artifact import printable
from sojourn.store import snapshot
from sojourn.verbs.moving import Progress
from sojourn.wire import atomic, manifest, names
from sojourn.wire.errors import BadResult, Misuse

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow

INDEX = "shards.json"
SCHEMA = "sojourn/shards/v1"
SHARD_BYTES = 256 << 20
_BLOCK = tarfile.BLOCKSIZE
_PIECE_BYTES = 1 << 20
# What WebDataset takes for sample and extension of a name, and what it passes over.
# Source: webdataset 1.0.2, `base_plus_ext` and `tar_file_iterator`, 2026-11.
_NAME = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)$")
_META = re.compile(r"__[^/]*__($|/)")
_LINKS = 40  # one behind the other, as the kernel follows


class NothingToShard(Misuse):
    """{folder} holds no file that WebDataset reads as part of a sample: a name needs an extension, such as 0001.jpg."""

    code = "nothing-to-shard"


class ShardsTaken(Misuse):
    """{folder} {why}. Nothing was written."""

    code = "shards-taken"
    next_step = "sojourn shard {source} --to A-NEW-FOLDER"


class SameName(Misuse):
    """{path} and {other}: WebDataset ignores case in extensions and refuses the sample. Rename one of them."""

    code = "same-name"


class ShardDamaged(BadResult):
    """{path} does not read back as it was written: this disk is losing data. It was removed."""

    code = "shard-damaged"
    retry = True


@dataclass(frozen=True)
class Shard:
    """One archive. `of`: the digest of the files in it."""

    name: str
    bytes: int
    sha256: str
    samples: int
    files: int
    of: str


@dataclass(frozen=True)
class Sharded:
    """What `shard` made. `pattern`: all shards as one name, in the notation of WebDataset. `kept`: shards that were
    there, and whole. `left_out`: (path, why) of what is in no shard.
    """

    source: str
    folder: str
    pattern: str
    shards: tuple[Shard, ...]
    kept: int
    left_out: tuple[tuple[str, str], ...]
    seconds: float
    exit_status: int = 0

    @property
    def samples(self) -> int:
        """In all shards."""
        return sum(shard.samples for shard in self.shards)

    @property
    def files(self) -> int:
        """In all shards."""
        return sum(shard.files for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Of all shards."""
        return sum(shard.bytes for shard in self.shards)

    def as_json(self) -> dict[str, Any]:
        """The `shard` document of docs/json.md."""
        return {
            "schema": "sojourn/shard/v1",
            "source": self.source,
            "folder": self.folder,
            "pattern": self.pattern,
            "shards": [vars(shard) for shard in self.shards],
            "samples": self.samples,
            "files": self.files,
            "bytes": self.bytes,
            "kept": self.kept,
            "left_out": [{"path": printable(path), "why": why} for path, why in self.left_out],
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class _Member:
    """A file in a shard: its name there, and the row with its content. `size_bytes`: with header and padding."""

    name: str
    row: FileRow
    size_bytes: int


def shard(
    source: str,
    *,
    to: str = "",
    shard_bytes: int = SHARD_BYTES,
    say: Callable[[str], None] = lambda line: None,
) -> Sharded:
    """Pack the files of the folder `source` into `to` (by default `source`-shards), about `shard_bytes` each.

    Every shard is read back before it gets its name. Repeatable: shards that are there and whole are kept.
    Raises: NothingToShard, ShardsTaken, ShardDamaged; BadTree (a link out of the folder, an unreadable file),
    TreeChanged; OSError for `to`.
    """
    began_s = time.monotonic()
    root = os.path.realpath(source)
    if not os.path.isdir(root):
        raise NothingToShard(folder=printable(source))
    folder = os.path.abspath(to or root + "-shards")
    if os.path.commonpath((os.path.realpath(folder), root)) == root:
        raise ShardsTaken(folder=printable(folder), why="lies in the folder to be packed", source=printable(source))
    say(f"reading {printable(source)}")
    tree = snapshot.take_snapshot(root, everything=True)
    members, left_out = _members(tree)
    if not members:
        raise NothingToShard(folder=printable(source))
    packs = list(_packs(members, shard_bytes))
    first = os.path.basename(root)
    called = [f"{first}-{number:06d}.tar" for number in range(len(packs))]
    old = _known(folder, tree.digest, shard_bytes, source)
    os.makedirs(folder, exist_ok=True)
    made: list[Shard] = []
    index = {"schema": SCHEMA, "tree": tree.digest, "shard_bytes": shard_bytes, "shards": []}
    if old is None:
        atomic.write_json(os.path.join(folder, INDEX), index)
    progress = Progress(say, "packing", sum(member.size_bytes for member in members))
    kept = 0
    for name, pack in zip(called, packs, strict=True):
        of = names.digest([[member.name, member.row["sha256"]] for member in pack])
        there = (old or {}).get(name)
        path = os.path.join(folder, name)
        if there is not None and there.of == of and _is_whole(path, there):
            kept += 1
            progress.add(sum(member.size_bytes for member in pack), name)
            made.append(there)
            continue
        size_bytes, sha256 = _write(tree, pack, path, progress)
        count = len({_key(member.name) for member in pack})
        made.append(Shard(name, size_bytes, sha256, count, len(pack), of))
        atomic.write_json(os.path.join(folder, INDEX), {**index, "shards": [vars(one) for one in made]})
    numbers = f"{{{0:06d}..{len(packs) - 1:06d}}}" if len(packs) > 1 else f"{0:06d}"
    pattern = os.path.join(folder, f"{first}-{numbers}.tar")
    return Sharded(root, folder, pattern, tuple(made), kept, left_out, time.monotonic() - began_s)


def _members(tree: snapshot.Snapshot) -> tuple[list[_Member], tuple[tuple[str, str], ...]]:
    """What goes into shards, samples together; and (path, why) of the rest. Raises: TreeChanged, BadTree."""
    members: list[_Member] = []
    left_out = [(path, "a socket, pipe or device has no content") for path in tree.skipped]
    by_path = {row["path"]: row for row in tree.rows}
    for row in tree.rows:
        path = row["path"]
        if posixpath.basename(path).startswith("."):
            left_out.append((path, "a hidden file"))
            continue
        if not _NAME.match(path) or _META.match(path):
            left_out.append((path, "WebDataset skips its name: it needs an extension, such as 0001.jpg"))
            continue
        to = _followed(tree, by_path, row)
        if to is None:
            left_out.append((path, "a link to a folder, or to nothing"))
            continue
        head = len(_header(path, to["bytes"]))
        members.append(_Member(path, to, head + to["bytes"] + -to["bytes"] % _BLOCK))
    _check_names(members)
    members.sort(key=lambda member: (_key(member.name), member.name))
    return members, tuple(sorted(left_out))


def _check_names(members: Sequence[_Member]) -> None:
    """Raises: SameName for two files of a sample that WebDataset cannot tell apart: it ignores case in extensions."""
    seen: dict[tuple[str, str], str] = {}
    for member in members:
        key = _key(member.name)
        other = seen.setdefault((key, member.name[len(key) :].lower()), member.name)
        if other != member.name:
            raise SameName(path=printable(member.name), other=printable(other))


def _followed(tree: snapshot.Snapshot, by_path: dict[str, FileRow], row: FileRow) -> FileRow | None:
    """The row of the file that a link leads to in the end. Raises: TreeChanged, BadTree (it leaves the folder)."""
    for _ in range(_LINKS):
        if row["role"] != "l":
            return row
        target = posixpath.normpath(posixpath.join(posixpath.dirname(row["path"]), snapshot.target(tree, row)))
        if target not in by_path:
            break
        row = by_path[target]
    real = os.path.relpath(os.path.realpath(os.path.join(tree.root, row["path"])), tree.root)
    found = by_path.get(real)  # behind a link to a folder
    return found if found is not None and found["role"] != "l" else None


def _key(name: str) -> str:
    """The sample that a file belongs to."""
    hit = _NAME.match(name)
    return hit[1] if hit else name


def _packs(members: Sequence[_Member], shard_bytes: int) -> Iterator[list[_Member]]:
    """The members of each shard; a sample is never divided."""
    pack: list[_Member] = []
    sample: list[_Member] = []
    size_bytes = sample_bytes = 0
    for member in members:
        if sample and _key(sample[0].name) != _key(member.name):
            if pack and size_bytes + sample_bytes > shard_bytes:
                yield pack
                pack, size_bytes = [], 0
            pack, size_bytes = pack + sample, size_bytes + sample_bytes
            sample, sample_bytes = [], 0
        sample.append(member)
        sample_bytes += member.size_bytes
    if pack and size_bytes + sample_bytes > shard_bytes:
        yield pack
        pack = []
    yield pack + sample


def _known(folder: str, tree: str, shard_bytes: int, source: str) -> dict[str, Shard] | None:
    """Shards that an earlier call finished there; None where none has begun. Raises: ShardsTaken, OSError."""
    if not os.path.isdir(folder) or not os.listdir(folder):
        return None
    index = atomic.read_json(os.path.join(folder, INDEX))
    if not isinstance(index, dict) or index.get("schema") != SCHEMA:
        raise ShardsTaken(folder=printable(folder), why="holds other files", source=printable(source))
    if (index.get("tree"), index.get("shard_bytes")) != (tree, shard_bytes):
        why = "holds shards of another size, or of other contents"
        raise ShardsTaken(folder=printable(folder), why=why, source=printable(source))
    try:
        return {row["name"]: Shard(**row) for row in index["shards"]}
    except (KeyError, TypeError):
        return {}


def _is_whole(path: str, known: Shard) -> bool:
    try:
        return manifest.sha256_file(path, follow=False) == (known.bytes, known.sha256)
    except OSError:
        return False


def _write(tree: snapshot.Snapshot, pack: Sequence[_Member], path: str, progress: Progress) -> tuple[int, str]:
    """One shard, durable under its name: (bytes, sha256). Raises: TreeChanged, BadTree, ShardDamaged, OSError."""
    part = path + ".part"
    try:
        with open(part, "wb", buffering=_PIECE_BYTES) as file:
            out = _Out(file)
            for member in pack:
                out.write(_header(member.name, member.row["bytes"]))
                for data in snapshot.read(tree, member.row, _PIECE_BYTES) if member.row["bytes"] else ():
                    out.write(data)
                out.write(bytes(-out.bytes % _BLOCK))
                progress.add(member.size_bytes, os.path.basename(path))
            out.write(bytes(2 * _BLOCK))
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):  # not on macOS: to be read back from the disk, not from memory
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if manifest.sha256_file(part, follow=False) != (out.bytes, out.sha256.hexdigest()):
            raise ShardDamaged(path=printable(path))
        os.replace(part, path)
        atomic.sync_folder(os.path.dirname(path))
    except BaseException:
        if os.path.lexists(part):
            os.unlink(part)
        raise
    return out.bytes, out.sha256.hexdigest()


def _header(name: str, size_bytes: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size_bytes, 0o644
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


class _Out:
    """A file that is hashed and counted while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.bytes = 0
        self.sha256 = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.sha256.update(data)
        self.bytes += len(data)
