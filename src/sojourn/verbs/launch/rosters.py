"""Rosters of trees that were pushed. A cache: it may fail, or be deleted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sojourn.store import places, private
from sojourn.wire import atomic, names

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot


def remember(tree: Snapshot, *, at: str = "") -> None:
    """Keep the roster, so that a later refusal can name the files that changed; as the last one of this folder on the
    site `at`, so that the next push there says only what changed.
    """
    try:
        private.folder(_folder())
        path = os.path.join(_folder(), tree.digest)
        if not os.path.exists(path):
            atomic.write_json(path, list(tree.rows), durable=False, mode=0o600)
        if at:
            atomic.write_json(_last(tree, at), tree.digest, durable=False, mode=0o600)
    except OSError:
        return  # the refusal then says "code" and no file names


def last(tree: Snapshot, at: str) -> tuple[str, list[Any]]:
    """(digest, rows) of what was last pushed from this folder to the site `at`; ("", []) where that is not known."""
    try:
        digest = atomic.read_json(_last(tree, at))
    except OSError:
        return "", []
    rows = roster_of(digest) if isinstance(digest, str) else []
    return (digest, rows) if rows else ("", [])


def changed_files(old_digest: str, tree: Snapshot) -> list[str]:
    """Paths that differ between an earlier tree and this one, sorted; [] where the earlier roster is not kept."""
    from sojourn.wire.manifest import differences

    old = roster_of(old_digest)
    return [path for path, _ in differences(tree.rows, old)] if old else []


def roster_of(digest: str) -> list[Any]:
    """The rows of an earlier tree; [] where they are not kept."""
    try:
        old = atomic.read_json(os.path.join(_folder(), digest))
    except OSError:
        return []
    return old if isinstance(old, list) else []


def _last(tree: Snapshot, at: str) -> str:
    return os.path.join(_folder(), "last-" + names.digest([at, os.fsencode(tree.root).hex(), tree.is_file]))


def _folder() -> str:
    return os.path.join(places.cache_dir(), "rosters")
