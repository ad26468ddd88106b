"""What a file is, and whether it loads: content first, then the name. Runs nothing that it reads.

A file's bytes determine its type. If they show another type than its name, or something no loader claims (a web page, a
pointer of git-lfs), that is a `mismatch`; if they show nothing, the loader for its name tries.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn import backends
from sojourn.formats.damage import Unloadable

HEAD_BYTES = 512
FACTS_BYTES = 16 << 10
UNKNOWN = "unknown"
# Names of artifacts that none of our loaders reads: even so, a web page or an unfetched pointer is not one of them. A
# loader that claims one of them comes first, and needs no change here.
_ARTIFACTS = (
    ".bin",
    ".h5",
    ".hdf5",
    ".onnx",
    ".gguf",
    ".msgpack",
    ".db",
    ".th",
    ".model",
    ".zst",
    ".7z",
)

# Texts found under an artifact's name. Compared in lower case, after white space and a byte order mark.
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
    """`kind`: a loader's, or "unknown". `problem` and `detail` are "" if nothing is wrong.

    `hashed`: (bytes, sha256) of the whole file, if taken while loading.
    """

    kind: str
    loader: str = ""
    proved: tuple[str, ...] = ()
    problem: str = ""
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    hashed: tuple[int, str] | None = None


def judge_file(path: str, name: str, beside: Mapping[str, str] | None = None) -> Judgement:
    """Find the loader of the regular file at `path`, called `name`, and load it.

    `beside`: paths of the files in the same folder as `name`, by their last names; None: beside `path`.
    Raises: OSError.
    """
    with open(path, "rb") as f:
        head = f.read(HEAD_BYTES)
    found = _loaders()
    named = _by_name(name)
    owners = [key for key, loader in found.items() if _owns(loader, path, head)]
    fitting = [key for key in owners if key in named]
    fitting += [key for key in owners if _ends(name, found[key].also)]
    chosen = (fitting or owners or named or _by_magic(found, head) or [""])[0]
    if chosen and not owners and found[chosen]().declines(head):
        chosen, named = "", []
    kind = str(found[chosen].kind) if chosen else UNKNOWN
    try:
        if owners and named and not fitting:
            said = "" if head.startswith(b"PK") else what_is(head)
            raise Unloadable("mismatch", f"named like {found[named[0]].kind}, holds {kind}{said and f' ({said})'}")
        if not owners:
            _expect(head, path, name, found[chosen] if chosen else None)
        if not chosen:
            remark = "unknown format: only its size and SHA-256 can be checked"
            return Judgement(UNKNOWN, remarks=(remark,) if head else (remark, "it has no bytes"))
        loader = found[chosen]()
        if _is_among(loader, name):
            loaded = loader.load_among(path, os.path.basename(name), Siblings(path) if beside is None else beside)
        else:
            loaded = loader.load(path)
    except Unloadable as error:
        return Judgement(kind, chosen, problem=error.problem, detail=error.why)
    return Judgement(kind, chosen, loaded.proved, facts=_bounded(loaded.facts), remarks=loaded.remarks)


class Siblings(Mapping[str, str]):
    """The names in the folder of `path`, and their paths, folders with a trailing /; looked up on request."""

    def __init__(self, path: str) -> None:
        self._folder = os.path.dirname(os.path.abspath(path))

    def __getitem__(self, name: str) -> str:
        last = name.removesuffix("/")
        path = os.path.join(self._folder, last)
        is_there = os.path.isdir(path) if last != name else os.path.isfile(path)
        if last in ("", ".", "..") or "/" in last or not is_there:
            raise KeyError(name)
        return path

    def __iter__(self) -> Iterator[str]:
        return iter(one for name in os.listdir(self._folder) for one in (name, name + "/") if one in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_of_a_set(name: str) -> bool:
    """A file of this name may be judged by its neighbours. Reads nothing."""
    last = os.path.basename(name)
    return any(among.search(last) for among in _amongs())


@functools.cache
def _amongs() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(loader.among) for loader in _loaders().values() if loader.among)


def _is_among(loader: Any, name: str) -> bool:
    return bool(loader.among) and re.search(loader.among, os.path.basename(name)) is not None


def kind_by_name(name: str) -> tuple[str, str]:
    """(kind, loader) claimed by a file's name; ("unknown", "") if no loader knows it. Reads nothing."""
    found = _loaders()
    loaders = _by_name(name)
    return (str(found[loaders[0]].kind), loaders[0]) if loaders else (UNKNOWN, "")


@functools.cache
def _loaders() -> dict[str, Any]:
    return {key: backends.get("loader", key) for key in backends.names("loader")}


def _by_name(name: str) -> list[str]:
    """The loaders with the longest matching suffix; more than one only if several claim it."""
    whole = _whole(name)
    claims = [(len(suffix), key) for suffix, key in _claims() if _fits(whole, suffix)]
    longest = max(claims, default=(0, ""))[0]
    return sorted({key for length, key in claims if length == longest})


@functools.cache
def _claims() -> tuple[tuple[str, str], ...]:
    """(suffix, loader) of all loaders."""
    return tuple((suffix, key) for key, loader in _loaders().items() for suffix in loader.suffixes)


def _ends(name: str, suffixes: Sequence[str]) -> bool:
    """A suffix is the end of a name, with * for anything; one that starts with / is the whole name."""
    whole = _whole(name)
    return any(_fits(whole, suffix) for suffix in suffixes)


def _whole(name: str) -> str:
    return "/" + os.path.basename(name).lower()


def _fits(whole: str, suffix: str) -> bool:
    return whole.endswith(suffix) if "*" not in suffix else fnmatch.fnmatchcase(whole, "*" + suffix)


def _by_magic(found: Mapping[str, Any], head: bytes) -> list[str]:
    """Loaders whose magic starts a file, although none owns it: a damaged file of theirs."""
    return [key for key, loader in found.items() if loader.magic and head.startswith(loader.magic)]


def _owns(loader: Any, path: str, head: bytes) -> bool:
    return (not loader.magic or head.startswith(loader.magic)) and bool(loader().owns(path, head))


def _expect(head: bytes, path: str, name: str, loader: Any) -> None:
    """Raises: Unloadable if the file can be identified without loading it. `loader`: for its name or magic, or None."""
    is_artifact = name.lower().endswith(_ARTIFACTS)
    if not head:
        may_be = not is_artifact if loader is None else loader.may_be_empty
        if not (_ends(name, may_be) if isinstance(may_be, tuple) else may_be):
            raise Unloadable("empty", "the file has no bytes")
        return
    from sojourn.backends.proof import pickles

    said = what_is(head)
    if loader is not None:
        # With a loader's magic but no owner, a file is more often damaged than foreign.
        if said and not (loader.magic and head.startswith(loader.magic)):
            raise Unloadable("mismatch", f"named like {loader.kind}, holds {said}")
        if not head.strip(b"\x00") and _is_zero(path):
            raise Unloadable("corrupt", "only zero bytes: a hole where the file should be")
        return
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(_TEXTS[0][0]) or (is_artifact and text.startswith(tuple(t for t, _ in _TEXTS))):
        raise Unloadable("mismatch", f"not an artifact but {said}")
    if is_artifact and not head.strip(b"\x00"):
        what = "only zero bytes" if _is_zero(path) else f"its first {len(head)} bytes are zeros"
        raise Unloadable("corrupt", f"{what}: a hole where the file should be")
    if (is_artifact and pickles.is_old(path, head)) or head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise Unloadable("unsafe", "a pickle cannot be judged safely: reading it could run code")


def _bounded(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Facts of at most FACTS_BYTES, the longest left out: each receipt puts them into the journal."""
    kept = {key: json.dumps(value, allow_nan=False) for key, value in facts.items()}
    while sum(map(len, kept.values())) > FACTS_BYTES:
        del kept[max(kept, key=lambda key: len(kept[key]))]
    left = sorted(facts.keys() - kept.keys())
    return {**{key: facts[key] for key in kept}, **({"left_out": left} if left else {})}


def what_is(head: bytes) -> str:
    """Words for a file that starts like this, if it is a common stand-in for an artifact; else ""."""
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
