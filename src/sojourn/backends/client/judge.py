"""What a file is, and whether it loads: content first, then the name. Runs nothing that it reads.

A file is of the kind that its bytes say. Where they say another kind than its name, or something that no loader claims
(a web page, a pointer of git-lfs), that is a `mismatch`; where they say nothing, the loader of its name tries.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn import backends
from sojourn.wire.damage import Unloadable

HEAD_BYTES = 512
FACTS_BYTES = 16 << 10
UNKNOWN = "unknown"
_PICKLES = (".pkl", ".pickle", ".joblib")

# What turns up under the name of an artifact. Compared in lower case, after white space and a byte order mark.
_TEXTS = (
    (b"version https://git-lfs", "a pointer of git-lfs: the file itself was never fetched (git lfs pull)"),
    (b"<!doctype html", "a web page: most likely a login or an error page was saved instead of the file"),
    (b"<html", "a web page: most likely a login or an error page was saved instead of the file"),
    (b"<?xml", "an XML document: most likely the error message of an object store"),
)
_MAGICS = (
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"BZh", "a bzip2 file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip file"),
    (b"PK\x03\x04", "a zip archive of something else"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"PAR1", "a parquet file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"GGUF", "a GGUF model"),
)


@dataclass(frozen=True)
class Judgement:
    """`kind`: a loader's, or "unknown". `problem` and `detail` are "" where nothing is wrong."""

    kind: str
    loader: str = ""
    proved: tuple[str, ...] = ()
    problem: str = ""
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def judge(path: str, name: str) -> Judgement:
    """Find the loader of the regular file at `path`, which is called `name`, and load it. Raises: OSError."""
    with open(path, "rb") as f:
        head = f.read(HEAD_BYTES)
    found = _loaders()
    by_name = _by_name(found, name)
    by_content = next((key for key, loader in found.items() if _owns(loader, path, head)), "")
    chosen = by_content or by_name
    kind = str(found[chosen].kind) if chosen else UNKNOWN
    try:
        _expect(head, path, name, by_content, by_name, found)
        if not chosen:
            remark = "no loader knows this type: nothing but its bytes can be proven"
            return Judgement(UNKNOWN, remarks=(remark,) if head else (remark, "it has no bytes"))
        loaded = found[chosen]().load(path)
    except Unloadable as error:
        return Judgement(kind, chosen, problem=error.problem, detail=error.why)
    return Judgement(kind, chosen, loaded.proved, facts=_bounded(loaded.facts), remarks=loaded.remarks)


def kind_by_name(name: str) -> tuple[str, str]:
    """(kind, loader) that a file's name claims; ("unknown", "") where no loader knows it. Reads nothing."""
    found = _loaders()
    loader = _by_name(found, name)
    return (str(found[loader].kind), loader) if loader else (UNKNOWN, "")


@functools.cache
def _loaders() -> dict[str, Any]:
    return {key: backends.get("loader", key) for key in backends.names("loader")}


def _by_name(found: Mapping[str, Any], name: str) -> str:
    lower = os.path.basename(name).lower()
    claims = [
        (len(suffix), key) for key, loader in found.items() for suffix in loader.suffixes if lower.endswith(suffix)
    ]
    return max(claims)[1] if claims else ""


def _owns(loader: Any, path: str, head: bytes) -> bool:
    return (not loader.magic or head.startswith(loader.magic)) and bool(loader().owns(path, head))


def _expect(head: bytes, path: str, name: str, by_content: str, by_name: str, found: Mapping[str, Any]) -> None:
    """Raises: Unloadable where what it is can be said without loading it."""
    if by_content and by_name and by_content != by_name:
        raise Unloadable("mismatch", f"named like {found[by_name].kind}, holds {found[by_content].kind}")
    if by_content:
        return
    if not head:
        if by_name:
            raise Unloadable("empty", "the file has no bytes")
        return
    if by_name:
        said = what_is(head)
        # A loader's own magic, which it does not own, is a damaged file of its kind more often than a foreign one.
        if said and not (found[by_name].magic and head.startswith(found[by_name].magic)):
            raise Unloadable("mismatch", f"named like {found[by_name].kind}, holds {said}")
        if not head.strip(b"\x00") and _is_zero(path):
            raise Unloadable("corrupt", "nothing but zero bytes: a hole where the file should be")
    elif name.lower().endswith(_PICKLES) or head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise Unloadable("unsafe", "a pickle cannot be judged safely: reading it would run what it says")


def _bounded(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Facts of at most FACTS_BYTES, the longest left out: they go into the journal with every receipt."""
    kept = {key: json.dumps(value, allow_nan=False) for key, value in facts.items()}
    while sum(map(len, kept.values())) > FACTS_BYTES:
        del kept[max(kept, key=lambda key: len(kept[key]))]
    left = sorted(facts.keys() - kept.keys())
    return {**{key: facts[key] for key in kept}, **({"left_out": left} if left else {})}


def what_is(head: bytes) -> str:
    """Words for a file that begins like this, where it is a thing that often stands in for an artifact; else ""."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for start, words in _TEXTS:
        if text.startswith(start):
            return words
    for magic, words in _MAGICS:
        if head.startswith(magic):
            return words
    return "a tar archive" if head[257:262] == b"ustar" else ""


def _is_zero(path: str) -> bool:
    with open(path, "rb") as f:
        while True:
            piece = f.read(1 << 20)
            if not piece:
                return True
            if piece.strip(b"\x00"):
                return False
