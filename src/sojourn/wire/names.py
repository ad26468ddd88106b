"""Names and digests: what may be a run's name, how content is named, which valid name stands nearest to a wrong one."""

from __future__ import annotations

from sojourn.wire import lean_json

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, Iterable

_ENDS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_INNER = _ENDS | frozenset("._-")


def is_name(text: str) -> bool:
    """True where `text` may name a run: 1-63 lower-case letters, digits, `.`, `_`, `-`; ends are letters or digits."""
    is_whole = 1 <= len(text) <= 63 and _INNER.issuperset(text)  # also a safe file name and a DNS-like label
    return is_whole and text[0] in _ENDS and text[-1] in _ENDS and ".." not in text


def as_name(text: str) -> str:
    """The valid name nearest to `text` (say, of a folder with spaces); "run" where nothing is left. Idempotent."""
    import re  # `is_name`, which every call on the box wants, does without

    slug = re.sub(r"[^a-z0-9._-]+", "-", text.lower())
    slug = re.sub(r"\.{2,}", ".", slug)[:63].strip("._-")
    return slug or "run"


def nearest(wrong: str, valid: Iterable[str]) -> str:
    """The valid name nearest to `wrong`, or "" where none is near."""
    import difflib  # costs more to load than all else here

    hits = difflib.get_close_matches(wrong, list(valid), n=1, cutoff=0.6)
    return hits[0] if hits else ""


def digest(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of `value`: sorted keys, no spaces, UTF-8. Raises: TypeError, ValueError."""
    import hashlib  # a question that needs no digest should not pay for it

    text = lean_json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
