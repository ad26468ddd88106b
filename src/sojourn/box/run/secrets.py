"""The values of a run's secrets on the box: one file, 0600, kept only while the run may still need them.

They arrive on a call's standard input, go into the environment of `setup` and payload, and nowhere else. Their holder
also masks them: in what is read from a log while they are here, and in the logs themselves before they go, so that the
sealed manifest describes logs that never need to change again.
"""

from __future__ import annotations

import os

from sojourn.box.run import locks
from sojourn.box.run.root import Root, attempts_made, read_fields, read_number
from sojourn.wire import atomic, lean_json
from sojourn.wire.mask import Mask, cover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, Mapping


_PART = 8 << 20


def write(root: Root, values: Mapping[str, str]) -> None:
    """Keep them, durably, replacing earlier ones. Only inside `locks.Held`. Raises: OSError."""
    aside = root.secrets + ".new"  # a fixed name: the next `write` or `drop` finds what a kill leaves behind
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(aside, flags, 0o600), "wb") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write(lean_json.dumps(dict(values)).encode("ascii"))
        f.flush()
        os.fsync(f.fileno())
    os.rename(aside, root.secrets)
    atomic.sync_folder(root.path)


def read_secrets(root: Root) -> Dict[str, str]:
    """Name -> value; empty if there are none (any more)."""
    return {str(name): value for name, value in read_fields(root.secrets).items() if isinstance(value, str)}


def exist(root: Root) -> bool:
    """Whether the run's secrets are on the box."""
    return os.path.lexists(root.secrets) or os.path.lexists(root.secrets + ".new")


def read_masked(root: Root, f: BinaryIO, offset: int, length: int, values: Mapping[str, str]) -> bytes:
    """Bytes of an open log from `offset` on, at most `length`, with `values` masked.

    At the end of the file, a possible start of a secret is held back: it comes with the rest.
    """
    mask = Mask(values)
    reach = max(0, mask.longest_bytes - 1)
    start = max(0, offset - reach)
    f.seek(start)
    raw = f.read(offset - start + length + reach) or b""
    is_end = len(raw) < offset - start + length + reach
    data = mask.over(raw)[: len(raw) - mask.begun_bytes(raw)] if is_end else mask.over(raw)
    return data[offset - start : offset - start + length]


def drop(root: Root, attempt: int) -> Dict[str, int]:
    """Mask the values in every log, then remove them, unless an attempt after `attempt` is requested meanwhile.

    For when nothing of the run lives. Returns how often each name was masked. Idempotent; the next call completes an
    interrupted one. Raises: OSError (they stay, and so does the masking).
    """
    if not exist(root):
        return {}
    mask = Mask(read_secrets(root))
    hidden: Dict[str, int] = {}
    for number in attempts_made(root):
        for path in (root.log(number) + ".1", root.log(number)):
            for label, count in _mask_file(path, mask).items():
                hidden[label] = hidden.get(label, 0) + count
    with locks.Held(root):
        if read_number(root.want, "attempt") <= attempt:
            for path in (root.secrets, root.secrets + ".new"):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass
            atomic.sync_folder(root.path)
    return hidden


def _mask_file(path: str, mask: Mask) -> Dict[str, int]:
    """Mask in place, byte for byte: needs no disk space, and a process appending to the file is not disturbed."""
    hidden: Dict[str, int] = {}
    if not mask:
        return hidden
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return hidden
    try:
        at = 0
        while True:
            data = os.pread(fd, _PART + mask.longest_bytes, at)
            for start, end, label in mask.spans(data):
                os.pwrite(fd, cover(label, end - start), at + start)
                name = label.strip(b"*").decode("utf-8", "replace")
                hidden[name] = hidden.get(name, 0) + 1
            if len(data) <= _PART:
                break
            at += _PART
        if hidden:
            os.fsync(fd)
    finally:
        os.close(fd)
    return hidden


def checked(spec: Mapping[str, Any], given: Any) -> Dict[str, str]:
    """`given` from a request. Raises: ValueError (without showing a value) for anything but texts by name."""
    if given is None:
        return {}
    names = spec.get("secrets") or ()
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError("secrets must map names to text")
    if any(name not in names for name in given):
        raise ValueError("a secret that the job does not name")
    if any("\0" in value for value in given.values()):
        raise ValueError("a secret with a NUL in it cannot be an environment variable")
    return dict(given)
