"""Code and mounts to the box by content: what is there is not sent; what is sent is hashed again there."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.store import places
from sojourn.verbs.context import Box, Context
from sojourn.wire import atomic, units

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot

PUT_S = 3600.0
UNPACK_S = 1800.0


def missing(box: Box, digests: Sequence[str]) -> set[str]:
    """Which of these snapshots the box does not have. Raises: Unreachable, WorldError."""
    return set(box.answer("have", kind="snapshots", names=list(dict.fromkeys(digests))).value["missing"])


def push(ctx: Context, box: Box, base: str, trees: Sequence[tuple[str, Snapshot]]) -> int:
    """Bring every snapshot that is not there to the box; bytes sent. Idempotent, also for two clients at once.

    Raises: Unreachable, WorldError (hash-mismatch: a file changed while it was read), OSError (no room for the pack).
    """
    lacking = missing(box, [tree.digest for _, tree in trees])
    sent = 0
    for what, tree in trees:
        if tree.digest not in lacking:
            continue
        lacking.discard(tree.digest)
        ctx.say(f"pushing {what}: {len(tree.rows)} files, {units.say_bytes(tree.bytes)}")
        sent += _push_one(ctx, box, base, tree)
    return sent


def _push_one(ctx: Context, box: Box, base: str, tree: Snapshot) -> int:
    from sojourn.store import snapshot

    packs = os.path.join(places.cache_dir(), "packs")
    os.makedirs(packs, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=packs) as folder:
        tar = os.path.join(folder, "tree.tar")
        snapshot.pack(tree, tar)
        # A name of our own: two clients that push the same tree must not write into one file.
        remote = posixpath.join(base, "staging", f"{tree.digest}-{ctx.token()[:12]}.tar")
        box.must(box.transport.put(tar, remote, timeout_s=PUT_S))
        size_bytes = os.path.getsize(tar)
    box.answer("unpack", timeout_s=UNPACK_S, tar=remote, digest=tree.digest, roster=list(tree.rows))
    return size_bytes


def remember(tree: Snapshot) -> None:
    """Keep the roster, so that a later refusal can name the files that changed. A cache: it may fail, or be deleted."""
    try:
        os.makedirs(_rosters(), exist_ok=True)
        atomic.write_json(os.path.join(_rosters(), tree.digest), list(tree.rows), durable=False)
    except OSError:
        return  # the refusal then says "code" and no file names


def changed_files(old_digest: str, tree: Snapshot) -> list[str]:
    """Paths that differ between an earlier tree and this one, sorted; [] where the earlier roster is not kept."""
    from sojourn.wire.manifest import differences

    try:
        old = atomic.read_json(os.path.join(_rosters(), old_digest))
    except OSError:
        return []
    return [] if not isinstance(old, list) else [path for path, _ in differences(tree.rows, old)]


def _rosters() -> str:
    return os.path.join(places.cache_dir(), "rosters")
