"""`lacking` and `receive`: a tree arrives by content. What a snapshot here has is linked; the rest is sent, hashed on
the way, and appears in the new snapshot's tree only when whole.

Until complete, the tree grows in staging/push-<digest>. Every sender of this digest writes the same bytes to the same
places, so a second one, or an old one's late packets, do no harm; a later one continues.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import zlib

from sojourn.box.call import Box, Refused
from sojourn.box.ops import contents
from sojourn.box.ops.code import is_there
from sojourn.box.run import tree
from sojourn.box.system import machine
from sojourn.wire import atomic, lean_json, manifest, pieces, syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ROSTER_BYTES = 1 << 30
HALF_DAYS = 7  # how long a cut push is kept for the next


def lacking(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Contents of the tree `digest` to be sent: `lacking`, [number, bytes here] each; `made`: the snapshot exists, or
    nothing was lacking.

    The roster's rows (path, bytes, sha256, role; for a symlink `to`, its target) come as JSON, packed with zlib, in
    `frames` B frames. Numbers count the different contents in row order, without symlinks and empty files
    (`contents.numbered`). `upon`: the digest of a snapshot here; then the rows are only those that differ from its
    roster, with role "" for a path that is gone. `along`: [number, bytes] of contents in one more B frame.
    Refused: bad-digest, unsafe-path, hash-mismatch (of what came along).
    """
    digest = _digest(request)
    packed = b"".join(box.next_blob() for _ in range(int(request["frames"])))
    along = [(int(number), int(size)) for number, size in request.get("along") or ()]
    data = box.next_blob() if along else b""
    rows = _rows(packed, digest, _upon(box, str(request.get("upon") or "")))
    if is_there(box, "snapshots", digest):
        return {"made": True, "lacking": []}
    folder = box.under("staging", "push-" + digest)
    _sweep(box, folder)
    os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
    os.utime(folder)
    half = contents.Half(folder, rows, trusts=_is_of_this_boot(folder))
    half.look()
    atomic.write_json(os.path.join(folder, "boot"), _boot(), durable=False)
    half.link_from(box.under("snapshots"))

    def take() -> None:
        at = 0
        for number, size in along:
            half.write(number, 0, data[at : at + size])
            at += size

    wanting = _made_of(box, half, folder, digest, take)
    if wanting:
        atomic.write_json(os.path.join(folder, "rows.json"), rows, durable=False)
        atomic.write_json(os.path.join(folder, "wanting.json"), [number for number, _ in wanting], durable=False)
    return {"made": not wanting, "lacking": wanting}


def receive(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Take the stream of what `lacking` named, and make the snapshot once nothing is lacking.

    Answer: as `lacking`. Refused: not-asked (call `lacking` first), hash-mismatch (a content does not match its digest;
    whole ones stay).
    """
    digest = _digest(request)
    folder = box.under("staging", "push-" + digest)
    rows, wanted = (atomic.read_json(os.path.join(folder, name)) for name in ("rows.json", "wanting.json"))
    if is_there(box, "snapshots", digest):
        return {"made": True, "lacking": []}
    is_asked = isinstance(rows, list) and isinstance(wanted, list)
    if not is_asked or manifest.roster_digest(rows) != digest or not _is_of_this_boot(folder):
        raise Refused("not-asked", "nothing is known of this tree: ask what is lacking first")
    half = contents.Half(folder, rows, trusts=True)
    half.expect(wanted)
    reading = pieces.Reading()

    def take() -> None:
        while not reading.is_over:
            for number, offset, data in reading.take(*box.next_frame()):
                if data is None:
                    raise Refused("bad-request", "the sender has no more of content %d" % number)
                half.write(number, offset, data)

    wanting = _made_of(box, half, folder, digest, take)
    return {"made": not wanting, "lacking": wanting}


def _made_of(box: Box, half: contents.Half, folder: str, digest: str, take: Callable[[], None]) -> List[List[int]]:
    """What is lacking after `take`; if nothing is, the snapshot is made."""
    try:
        take()
        wanting = half.lacking()
        if not wanting:
            _finish(box, half, folder, digest)
        return wanting
    except FileNotFoundError:
        if not is_there(box, "snapshots", digest):  # another sender finished, and removed the folder meanwhile
            raise
        return []
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # others here need the room too
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        half.close()


def _finish(box: Box, half: contents.Half, folder: str, digest: str) -> None:
    marks, paths, folders = half.whole()
    syncing.sync(paths, folders, is_one_disk=True)
    atomic.write_json(os.path.join(folder, "stats.json"), marks, durable=False)
    for name in ("rows.json", "wanting.json", "boot"):
        if os.path.exists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))
    shutil.rmtree(os.path.join(folder, "parts"))
    atomic.write_json(os.path.join(folder, "roster.json"), half.roster())
    tree.put_in(folder, box.base, digest)


def _digest(request: Dict[str, Any]) -> str:
    digest = str(request["digest"])
    if not _DIGEST.fullmatch(digest):
        raise Refused("bad-digest", "not a digest: %r" % digest[:80])
    return digest


def _upon(box: Box, digest: str) -> Dict[str, Any]:
    """The roster's rows of a snapshot here, by path."""
    if not digest:
        return {}
    if not _DIGEST.fullmatch(digest) or not is_there(box, "snapshots", digest):
        raise Refused("bad-digest", "there is no snapshot %r" % digest[:80])
    found = {}
    for row in tree.read_roster(box.base, digest):
        if row["role"] == "l":
            row["to"] = os.readlink(os.path.join(tree.snapshot(box.base, digest), "tree", row["path"]))
        found[row["path"]] = row
    return found


def _rows(packed: bytes, digest: str, upon: Dict[str, Any]) -> List[Dict[str, Any]]:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(packed, _ROSTER_BYTES)
    except zlib.error as error:
        raise Refused("bad-digest", "the roster is damaged: %s" % error) from error
    rows = lean_json.loads(text.decode("utf-8"))
    if upon and isinstance(rows, list):
        for row in rows:
            if row["role"]:
                upon[row["path"]] = row
            else:
                upon.pop(row["path"], None)
        rows = [upon[path] for path in sorted(upon)]
    if not isinstance(rows, list) or manifest.roster_digest(rows) != digest:
        raise Refused("bad-digest", "the roster is not what its digest says")
    links = {row["path"] for row in rows if row["role"] == "l"}
    for row in rows:
        path = row["path"]
        if not manifest.is_safe(path):
            raise Refused("unsafe-path", "%r does not lie in the snapshot" % path)
        if links and not links.isdisjoint(contents.above(path)):
            raise Refused("unsafe-path", "%r lies behind a symlink" % path)
        if not manifest.is_digest(row["sha256"]) or type(row["bytes"]) is not int or row["bytes"] < 0:
            raise Refused("bad-digest", "a row of the roster is none")
        if row["role"] == "l" and not contents.is_link(row):
            raise Refused("unsafe-path", "the symlink %s leads out of the snapshot, or is another one" % path)
    return rows


def _is_of_this_boot(folder: str) -> bool:
    """Whether the folder's content was put, or hashed, there since this kernel started. A power cut may have lost bytes
    and left names.
    """
    return bool(atomic.read_json(os.path.join(folder, "boot")) == _boot())


def _boot() -> Dict[str, str]:
    return {"boot": machine.boot_id(), "host": machine.host()}


def _sweep(box: Box, own: str) -> None:
    """Remove pushes cut days ago and not continued since."""
    before_s = time.time() - HALF_DAYS * 86400
    for entry in list(os.scandir(box.under("staging"))):
        is_ours = entry.name.startswith(("push-", "snapshot-")) or ".tar" in entry.name
        try:
            if not is_ours or entry.path == own or entry.stat(follow_symlinks=False).st_mtime > before_s:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        except OSError:
            continue  # another call sweeps too
