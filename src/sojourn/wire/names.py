"""Names and digests: valid names of runs and revisions, digests of content, the nearest name to another."""

from __future__ import annotations

from sojourn.wire import lean_json

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, Iterable

RUNS_QUEUE = "_runs"  # the queue of a box for runs outside sweeps; no sweep can have this name
_ENDS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_INNER = _ENDS | frozenset("._-")


def is_name(text: str) -> bool:
    """True if `text` may name a run: 1-63 lower-case letters, digits, `.`, `_`, `-`; ends are letters or digits."""
    is_whole = 1 <= len(text) <= 63 and _INNER.issuperset(text)  # also a safe file name and a DNS-like label
    return is_whole and text[0] in _ENDS and text[-1] in _ENDS and ".." not in text


def is_root(text: str) -> bool:
    """True if `text` may name a root: a run, or NAME@N, its revision N (what an earlier run of that name left)."""
    name, at, number = text.partition("@")
    return is_name(name) and (not at or (number.isascii() and number.isdigit() and number[0] != "0"))


def run_of(root: str) -> str:
    """The run's name in a root's: "digits" for "digits@2", and for "digits"."""
    return root.partition("@")[0]


def revision_of(root: str) -> int:
    """2 for "digits@2"; 0 for a run that nothing has replaced."""
    return int(root.partition("@")[2] or 0)


def as_name(text: str) -> str:
    """The valid name nearest to `text` (say, of a folder with spaces); "run" if nothing remains. Idempotent."""
    import re  # `is_name`, needed by every call on the box, does without

    slug = re.sub(r"[^a-z0-9._-]+", "-", text.lower())
    slug = re.sub(r"\.{2,}", ".", slug)[:63].strip("._-")
    return slug or "run"


def nearest(wrong: str, valid: Iterable[str]) -> str:
    """The valid name nearest to `wrong`, or "" if none is near."""
    import difflib  # slower to load than everything else here

    hits = difflib.get_close_matches(wrong, list(valid), n=1, cutoff=0.6)
    return hits[0] if hits else ""


def digest(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of `value`: sorted keys, no spaces, UTF-8. Raises: TypeError, ValueError."""
    import hashlib  # callers that need no digest should not pay for it

    text = lean_json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
