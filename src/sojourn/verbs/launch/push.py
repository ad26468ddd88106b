"""Code and mounts to the box by content: what is there is not sent; what is sent is hashed again there."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sojourn.store import places, private
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.sending import send
from sojourn.wire import units

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot

ALONG_BYTES = 4 << 20  # of packed snapshots: less than what one more login costs on a line of 10 Mbit/s and up
PUT_S = 3600.0
UNPACK_S = 1800.0


def ask_missing(digests: Sequence[str]) -> dict[str, Any]:
    """The question which of these snapshots the box does not have."""
    return {"op": "have", "kind": "snapshots", "names": list(dict.fromkeys(digests))}


def push(
    ctx: Context, box: Box, base: str, trees: Sequence[tuple[str, Snapshot]], lacking: Set[str]
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Bring every snapshot that is not there to the box. Idempotent, also for two clients at once.

    Small ones are not sent: they come back as ops, with their bytes, to go along with what is asked of the box next.
    Raises: Unreachable, WorldError (hash-mismatch: a file changed while it was read), OSError (no room for the pack).
    """
    ops: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for digest, (what, tree) in {tree.digest: (what, tree) for what, tree in reversed(trees)}.items():
        if digest not in lacking:
            continue
        ctx.say(f"pushing {what}: {len(tree.rows)} files, {units.say_bytes(tree.bytes)}")
        if tree.bytes + sum(map(len, blobs)) > ALONG_BYTES and send(ctx, box, what, tree):
            continue
        with _packed(tree) as tar:
            op: dict[str, Any] = {"op": "unpack", "digest": digest, "roster": list(tree.rows)}
            if os.path.getsize(tar) + sum(map(len, blobs)) <= ALONG_BYTES:
                ops.append(op)
                with open(tar, "rb") as f:
                    blobs.append(f.read())
                continue
            # Same tree, same bytes: another client that puts it writes the same, and a later put goes on.
            remote = posixpath.join(base, "staging", f"{digest}.tar")
            box.must(box.transport.put(tar, remote, timeout_s=PUT_S))
        box.answer(**op, tar=remote, timeout_s=UNPACK_S)
    return ops, blobs


@contextmanager
def _packed(tree: Snapshot) -> Iterator[str]:
    """The path of an archive of the tree, while inside."""
    from sojourn.store import snapshot

    packs = os.path.join(places.cache_dir(), "packs")
    private.folder(packs)
    with tempfile.TemporaryDirectory(dir=packs) as folder:
        tar = os.path.join(folder, "tree.tar")
        snapshot.pack(tree, tar)
        yield tar
