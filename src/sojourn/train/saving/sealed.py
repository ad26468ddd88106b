"""Sealed folders: every file is listed with its sha256 in one file, which is written last.

For checkpoints that another library writes as a folder of files. A folder counts only with its seal, and only while
every byte is as sealed.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from sojourn.formats.torch.values import Damaged
from sojourn.wire import atomic, manifest, names

SEAL = "sojourn-seal.json"
SCHEMA = "sojourn/seal/v1"


def seal(path: str, facts: Mapping[str, Any]) -> tuple[str, int]:
    """Make everything below `path` durable and write its seal; (sha256 of the content, bytes of all files).

    `facts`: plain values that `check` returns. The folder's content must not change any more.   Raises: OSError.
    """
    unseal(path)
    rows, total = [], 0
    for name in manifest.walk(path):
        full = os.path.join(path, name)
        fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        size, sha256 = manifest.sha256_file(full)
        rows.append({"path": name, "bytes": size, "sha256": sha256})
        total += size
    for folder, _, _ in os.walk(path, topdown=False):
        atomic.sync_folder(folder)
    digest = names.digest([rows, dict(facts)])
    document = {"schema": SCHEMA, "files": rows, "facts": dict(facts), "digest": digest}
    atomic.write_json(os.path.join(path, SEAL), document)
    return digest, total


def check(path: str) -> tuple[dict[str, Any], int]:
    """(facts, bytes of all files) of a sealed folder, every file read and compared; other files are not ours.

    Raises: Damaged (missing, truncated, corrupt), OSError.
    """
    document = atomic.read_json(os.path.join(path, SEAL))
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Damaged(path, "missing", "it has no seal: it was never whole")
    rows, facts = document.get("files"), document.get("facts")
    if names.digest([rows, facts]) != document.get("digest") or not isinstance(rows, list):
        raise Damaged(path, "corrupt", "its seal is damaged")
    for row in rows:
        full = os.path.join(path, row["path"])
        try:
            size, sha256 = manifest.sha256_file(full)
        except FileNotFoundError:
            raise Damaged(path, "missing", f"{row['path']} is not there") from None
        if size < row["bytes"]:
            raise Damaged(path, "truncated", f"{row['path']} has {size} of {row['bytes']} bytes")
        if (size, sha256) != (row["bytes"], row["sha256"]):
            raise Damaged(path, "corrupt", f"{row['path']} is not what was sealed")
    return dict(facts or {}), sum(row["bytes"] for row in rows)


def unseal(path: str) -> None:
    """From now on the folder counts for nothing; durable. Idempotent.   Raises: OSError."""
    try:
        os.unlink(os.path.join(path, SEAL))
    except (FileNotFoundError, NotADirectoryError):
        return
    atomic.sync_folder(path)
