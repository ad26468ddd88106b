"""Inspects the content of archives: an archive, checkpoint or table inside is judged as if it stood beside it.

Each is unpacked into a temporary file, one at a time and within bounds, and judged by its name. Damage or non-finite
values inside count as the archive's; what cannot be judged (a pickle that names more than weights need) only gives a
remark, as does everything skipped.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sojourn.backends.proof.judge import Judgement, is_of_a_set, judge_file
from sojourn.formats.damage import Unloadable

NAMES = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".7z", ".npz", ".npy"),
    *(".pt", ".pth", ".ckpt", ".safetensors", ".parquet", ".sqlite", ".pkl", ".pickle"),
)
TEXTS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv")  # also inspected if they are a packed file's only content
LIMIT_BYTES = 256 << 20  # unpacked, of one file with everything nested in it
LIMIT_FILES = 1000
_DEPTH = 3
_NAME_LENGTH = 100
_REFUSED = ("truncated", "corrupt", "non-finite", "missing-shard", "escapes-root")
_PACKERS = ("zip", "tar", "gz", "bz2", "xz")  # for these, `unsafe` means that they inflate without bound
_SHOWN = 5
_LOOKED = "not looked into what lies in it"


class _Bounds:
    depth = 0
    left_bytes = 0
    left_files = 0


class Inside:
    """The content of one archive. `sink` for every member in turn; then `remarks`. `names`: ends of inspected ones."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        self._names = tuple(names)
        self._passed_over: list[str] = []
        self._unjudged: list[str] = []
        if not _Bounds.depth:
            _Bounds.left_bytes, _Bounds.left_files = LIMIT_BYTES, LIMIT_FILES

    @contextmanager
    def sink(self, name: str, size_bytes: int) -> Iterator[_Sink | None]:
        """Where to write the member `name` of `size_bytes` (-1: unknown), which is judged on leaving; None: nowhere.

        Raises: Unloadable if it is bad.
        """
        last = os.path.basename(name)
        if not last.lower().endswith(self._names):
            yield None
            return
        with ExitStack() as left:
            f = self._file(last, size_bytes, left)
            sink = _Sink(f) if f else None
            yield sink
            if sink is None or sink.is_full:
                self._passed_over.append(_shown(name))
                return
            _Bounds.depth += 1
            try:
                self._settle(name, judge_file(sink.path, last))
            finally:
                _Bounds.depth -= 1

    def _file(self, last: str, size_bytes: int, left: ExitStack) -> io.FileIO | None:
        """A new file of that name, removed with `left`; None if the bounds or our own disk have no room."""
        has_room = _Bounds.depth < _DEPTH and size_bytes <= _Bounds.left_bytes and _Bounds.left_files > 0
        if not has_room or len(last) > _NAME_LENGTH or "\x00" in last or is_of_a_set(last):
            return None
        _Bounds.left_files -= 1
        try:
            folder = left.enter_context(tempfile.TemporaryDirectory(prefix="sojourn-", ignore_cleanup_errors=True))
            return left.enter_context(open(os.path.join(folder, last), "xb", buffering=0))
        except OSError:
            return None

    def _settle(self, name: str, found: Judgement) -> None:
        if found.problem in _REFUSED or (found.problem == "unsafe" and found.kind in _PACKERS):
            raise Unloadable(found.problem, f"{_shown(name)} in it: {found.detail}")
        if any(remark.startswith(_LOOKED) for remark in found.remarks):
            self._passed_over.append(f"some in {_shown(name)}")
        if found.problem:
            self._unjudged.append(f"{_shown(name)} ({found.problem}: {found.detail[:120]})")

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences, at most two."""
        words = ((_LOOKED, self._passed_over), ("not to be judged in it", self._unjudged))
        return tuple(f"{what}: {_list(names)}" for what, names in words if names)


class _Sink:
    """A file that takes up to the remaining bound, then nothing more."""

    def __init__(self, f: io.FileIO) -> None:
        self._file, self.path = f, str(f.name)
        self.is_full = False

    def write(self, piece: bytes | memoryview) -> None:
        """Take it, or nothing from now on."""
        self.is_full = self.is_full or len(piece) > _Bounds.left_bytes
        if self.is_full:
            return
        _Bounds.left_bytes -= len(piece)
        try:
            self.is_full = self._file.write(piece) < len(piece)
        except OSError:  # no room on our own disk, which says nothing about the archive
            self.is_full = True


def _shown(name: str) -> str:
    return name[:80].encode("utf-8", "backslashreplace").decode()


def _list(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
