"""A pushed archive turned into an immutable snapshot."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import uuid

from sojourn.box.call import Box, Refused
from sojourn.box.ops.code import is_there
from sojourn.box.run import tree
from sojourn.wire import atomic, manifest, syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, List

_DIGEST = re.compile(r"[0-9a-f]{64}")


def unpack(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Make snapshots/<digest> from the archive `tar` in staging, which is then removed, or from the next B frame
    without `tar`. Idempotent, and safe to run twice at once.

    `roster`: rows with path, bytes, sha256, role. The archive must contain exactly these, with exactly these bytes.
    Refused: bad-digest, unsafe-path, hash-mismatch; the staging folder is left clean.
    """
    digest, rows = str(request["digest"]), request["roster"]
    if not _DIGEST.fullmatch(digest) or manifest.roster_digest(rows) != digest:
        raise Refused("bad-digest", "the roster is not what its digest says")
    archive = str(request.get("tar") or "")
    data = b"" if archive else box.next_blob()
    if archive and not os.path.realpath(archive).startswith(os.path.realpath(box.under("staging")) + os.sep):
        raise Refused("unsafe-path", "not in staging: %s" % archive)
    goal = box.under("snapshots", digest)
    made = False
    if not is_there(box, "snapshots", digest):
        aside = box.under("staging", "snapshot-" + uuid.uuid4().hex)
        try:
            with open(archive, "rb") if archive else io.BytesIO(data) as pack:
                _extract(pack, os.path.join(aside, "tree"), rows)
            _sync(os.path.join(aside, "tree"), rows)
            atomic.write_json(os.path.join(aside, "roster.json"), rows)
            tree.put_in(aside, box.base, digest)
            made = True
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    try:
        if archive:
            os.unlink(archive)
    except FileNotFoundError:
        pass
    return {"path": goal, "made": made, "files": len(rows)}


def _sync(folder: str, rows: List[Dict[str, Any]]) -> None:
    paths = [os.path.join(folder, row["path"]) for row in rows if row["role"] != "l"]
    syncing.sync(paths, sorted({folder, *(os.path.dirname(path) for path in paths)}))


def _extract(pack: BinaryIO, folder: str, rows: List[Dict[str, Any]]) -> None:
    wanted = {row["path"]: row for row in rows}
    links = [row["path"] for row in rows if row["role"] == "l"]
    for path in wanted:
        if not manifest.is_safe(path):
            raise Refused("unsafe-path", "%r does not lie in the snapshot" % path)
        if any(path.startswith(link + "/") for link in links):
            raise Refused("unsafe-path", "%r lies behind a symlink" % path)
    os.makedirs(folder)
    try:
        with tarfile.open(fileobj=pack, mode="r:*") as tar:
            for member in tar:
                row = wanted.pop(member.name, None)
                if row is None:
                    if member.isdir():
                        continue
                    raise Refused("hash-mismatch", "the archive holds %r, which its roster does not name" % member.name)
                _extract_one(tar, member, os.path.join(folder, row["path"]), row)
    except (tarfile.TarError, EOFError) as error:
        raise Refused("hash-mismatch", "the archive is damaged: %s" % error) from error
    if wanted:
        raise Refused("hash-mismatch", "the archive lacks %r" % sorted(wanted)[0])


def _extract_one(tar: tarfile.TarFile, member: tarfile.TarInfo, goal: str, row: Dict[str, Any]) -> None:
    os.makedirs(os.path.dirname(goal), exist_ok=True)
    if row["role"] == "l":
        if not member.issym() or _link_digest(member.linkname) != row["sha256"]:
            raise Refused("hash-mismatch", "%s is not the symlink of the roster" % row["path"])
        if not _stays_inside(row["path"], member.linkname):
            raise Refused("unsafe-path", "the symlink %s leads out of the snapshot" % row["path"])
        os.symlink(member.linkname, goal)
        return
    source = tar.extractfile(member)
    if source is None:
        raise Refused("hash-mismatch", "%s is no regular file in the archive" % row["path"])
    with open(goal, "xb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    # Hashed as stored on disk, not as received: attempts will be made from that.
    if manifest.sha256_file(goal) != (row["bytes"], row["sha256"]):
        raise Refused("hash-mismatch", "%s is not what the roster says" % row["path"])
    os.chmod(goal, 0o555 if row["role"] == "x" else 0o444)
    os.utime(goal, ns=(tree.FROZEN_NS, tree.FROZEN_NS))


def _link_digest(target: str) -> str:
    import hashlib

    return hashlib.sha256(os.fsencode(target)).hexdigest()


def _stays_inside(path: str, target: str) -> bool:
    where = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return not os.path.isabs(target) and where != ".." and not where.startswith("../")
