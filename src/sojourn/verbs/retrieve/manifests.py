"""The manifest of a run: asked of its box, believed only as far as it fits itself, and kept under the digest that we
compute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.wire import atomic, manifest
from sojourn.wire.errors import WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest

MANIFEST_S = 3600.0  # the box hashes every output: 1 TB at 0.3 GB/s
FOLDER = "manifests"


class WrongManifest(WorldError):
    """{site} sent an invalid list of files for {run}: {detail}. It was not used."""

    code = "wrong-manifest"
    next_step = "sojourn doctor {site}"


def ask_manifest(
    ctx: Context,
    box: Box,
    record: RunRecord,
    *,
    fresh: bool,
    known: Sequence[FileRow] = (),
    also: Sequence[str] = (),
) -> Manifest:
    """The run's manifest, whose `digest` we have computed: the sealed one, or with `fresh` one that is taken now.

    `known`: rows that this same command has got: a file whose times and size are still those is not hashed again.
    `also`: outputs beside those of the job file and of the record.   Raises: Unreachable, WrongManifest, WorldError.
    """
    ctx.say(f"{record.id}: the box is hashing its outputs" if fresh else f"{record.id}: asking for the manifest")
    asked: dict[str, Any] = {"run": record.id, "fresh": fresh}
    if record.also or also:
        asked["also"] = [*record.also, *also]
    if known:
        asked["known"] = {row["from"]: {key: row[key] for key in ("stat", "bytes", "sha256")} for row in known}
    document: Any = box.answer("manifest", timeout_s=MANIFEST_S, **asked).value.get("manifest")
    why = why_wrong(document)
    if why:
        raise WrongManifest(site=box.site.name, run=record.id, detail=why)
    found: Manifest = document
    return {**found, "digest": manifest.digest_of(found)}


def hashed(document: Manifest) -> list[FileRow]:
    """The rows that say what their file looked like when it was hashed: to give as `known`."""
    return [row for row in (*document["files"], *document.get("earlier", ())) if row.get("stat")]


def keep_manifest(ctx: Context, document: Manifest) -> None:
    """Keep a manifest durably, under the digest of its own rows: the law may need it when its box is gone.

    Raises: OSError.
    """
    folder = os.path.join(ctx.store.state_dir, FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    digest = manifest.digest_of(document)
    atomic.write_json(os.path.join(folder, digest), {**document, "digest": digest}, mode=0o600)


def kept_manifest(ctx: Context, digest: str) -> Manifest:
    """The manifest stored under this digest; {} if there is none, or if it has changed."""
    if not manifest.is_digest(digest):
        return {}
    try:
        document: Any = atomic.read_json(os.path.join(ctx.store.state_dir, FOLDER, digest))
    except OSError:
        return {}
    if why_wrong(document):
        return {}
    found: Manifest = document
    return found if manifest.digest_of(found) == digest else {}


def why_wrong(document: Any) -> str:
    """Why this cannot be a manifest; "" where it can: every row is one, and no path stands twice. Its digest is only
    looked at for its form: ours is computed from the rows, whatever keeper wrote its own.
    """
    if not isinstance(document, Mapping) or not _is_list(document.get("files"), Mapping):
        return "it lists no files"
    earlier, gone = document.get("earlier") or [], document.get("gone") or []
    if not _is_list(earlier, Mapping) or not _is_list(gone, Mapping) or not _is_list(document.get("missing"), str):
        return "one of its lists is not a list"
    refused = document.get("refused") or []
    if not _is_list(refused, Mapping) or not all(_is_text(r.get("path")) and _is_text(r.get("why")) for r in refused):
        return "what it refuses has no path and no reason"
    for row in (*document["files"], *earlier):
        if not _is_row(row) or not _is_text(row.get("from")) or not _is_text(row.get("role")):
            return "a row is not path, size and sha256 of a file"
        if not _is_text(row.get("set", "")) or not _is_stat(row.get("stat")):
            return "a row makes an impossible claim about its file"
    unnamed = document.get("unnamed") or []
    if not _is_list(unnamed, Mapping) or not all(map(_is_unnamed, unnamed)):
        return "what no output names has no path, size and time"
    if not all(_is_row(row) for row in gone):
        return "a row of what is gone is not path, size and sha256 of a file"
    if not all(map(_is_text, document["missing"])):
        return "a glob is not text"
    if len({row["path"] for row in document["files"]}) < len(document["files"]):
        return "it lists a path twice"
    counts = [document.get(name, 0) for name in ("superseded", "removed", "attempt")]
    if any(type(count) is not int or count < 0 for count in counts):
        return "a count is not a number"
    return "" if manifest.is_digest(document.get("digest")) else "its digest is not 64 hex digits"


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, kind) for one in value)


def _is_row(row: Mapping[str, Any]) -> bool:
    size, sha256 = row.get("bytes"), row.get("sha256")
    return _is_text(row.get("path")) and type(size) is int and size >= 0 and manifest.is_digest(sha256)


def _is_unnamed(row: Mapping[str, Any]) -> bool:
    return _is_text(row.get("path")) and type(row.get("bytes")) is int and type(row.get("mtime_ns")) is int


def _is_text(value: Any) -> bool:
    """It can be written: as a file name, into the journal, on a screen."""
    if not isinstance(value, str):
        return False
    try:
        return bool(value.isascii() or value.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _is_stat(value: Any) -> bool:
    return value is None or (_is_list(value, int) and len(value) == 5)
