"""Which box this is, by its own word, and every base on it that this user's keepers ever used.

A base gets a random id once. Machine id, boot id and address are evidence beside it: containers share them, clones
copy them, and a reboot changes them.
"""

from __future__ import annotations

import hashlib
import os
import stat

from sojourn.wire import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

_LINK_BYTES = 4096


def box_id(base: str) -> str:
    """The id of the base, written once; "" where none can be written. Two at once: both get the one that is there."""
    path = os.path.join(base, "box.json")
    for _ in range(2):
        try:
            found = atomic.read_json(path)
        except OSError:
            return ""
        if isinstance(found, dict) and isinstance(found.get("id"), str) and found["id"]:
            return str(found["id"])
        aside = "%s.%s" % (path, os.urandom(16).hex())
        try:
            atomic.write_json(aside, {"schema": "sojourn/box/v1", "id": os.urandom(16).hex()}, mode=0o600)
            if found is None and os.path.exists(path):
                os.unlink(path)  # torn: it named nothing
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links, or one that takes nothing
            try:
                os.rename(aside, path)
            except OSError:
                return ""
        finally:
            _forget(aside)
    return ""


def register(base: str) -> None:
    """Note the base for this user, wherever that can be noted. Idempotent; never an error for who comes along."""
    real = os.path.realpath(base)
    name = hashlib.sha256(os.fsencode(real)).hexdigest()
    for folder in _registries():
        path = os.path.join(folder, "bases", name)
        if os.path.lexists(path):
            continue
        try:
            os.makedirs(os.path.join(folder, "bases"), mode=0o700, exist_ok=True)
            if _is_ours(folder):
                atomic.write(path, os.fsencode(real), durable=False, mode=0o600)
        except OSError:
            continue


def bases() -> List[str]:
    """Every noted base that is still a folder, sorted."""
    found = set()
    for folder in _registries():
        for name in _listed(os.path.join(folder, "bases")) if _is_ours(folder) else ():
            base = _read(os.path.join(folder, "bases", name))
            if os.path.isabs(base) and os.path.isdir(base):
                found.add(base)
    return sorted(found)


def other_users() -> List[int]:
    """User ids, not ours, whose keepers noted a base on this machine."""
    found = []
    for name in _listed("/var/tmp"):
        uid = name[len("sojourn-") :] if name.startswith("sojourn-") else ""
        if uid.isdigit() and int(uid) != os.getuid():
            try:
                seen = os.lstat(os.path.join("/var/tmp", name))
            except OSError:
                continue
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == int(uid):
                found.append(int(uid))
    return sorted(found)


def keepers_of_others() -> Dict[int, int]:
    """By user id that is not ours: how many keepers of theirs tend a run here. Where /proc hides them: none."""
    found: Dict[int, int] = {}
    for pid in _listed("/proc"):
        if pid.isdigit():
            try:
                uid = os.stat("/proc/" + pid).st_uid
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read(_LINK_BYTES).split(b"\0")
            except OSError:
                continue
            if uid != os.getuid() and b"supervise" in words and any(_is_keeper(word) for word in words):
                found[uid] = found.get(uid, 0) + 1
    return found


def _is_keeper(word: bytes) -> bool:
    name = os.path.basename(word)
    return name.startswith(b"keeper-") and name.endswith(b".pyz")


def _registries() -> List[str]:
    """The folders of this user's registry. SOJOURN_BOX_REGISTRY stands for both, so that a test sees its own alone."""
    given = os.environ.get("SOJOURN_BOX_REGISTRY", "")
    if given:
        return [given]
    home = os.path.join(os.path.expanduser("~"), ".local", "state", "sojourn-box")
    return [home, "/var/tmp/sojourn-%d" % os.getuid()]


def _is_ours(folder: str) -> bool:
    """A folder of this user that nobody else can write to; /var/tmp is everybody's."""
    try:
        seen = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o022


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with open(fd, "rb", buffering=0) as f:
        return os.fsdecode(f.read(_LINK_BYTES) or b"")


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
