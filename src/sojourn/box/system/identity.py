"""Which box this is, by its own word, and every base on it that this user's keepers ever used.

A base gets a random id once. Machine id, boot id and address are evidence beside it: containers share them, clones copy
them, and a reboot changes them.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from sojourn.wire import atomic, lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

_BASES = "bases"
_ABSENT = (errno.ENOENT, errno.ENOTDIR)  # any other error says nothing of what is there
_LIMIT_BYTES = 1 << 20
_CMDLINE_BYTES = 4096
DEPTH = 2  # a base is made at a disk's top, or in a folder there


def box_id(base: str, may_write: bool = True) -> str:
    """The id of the base, written once; "" if there is none and none can be written. Concurrent callers get one id."""
    path = os.path.join(base, "box.json")
    found = _id_in(path)
    if found or not may_write:
        return found
    aside = "%s.%s" % (path, os.urandom(16).hex())
    try:
        atomic.write_json(aside, {"schema": "sojourn/box/v1", "id": os.urandom(16).hex()}, mode=0o600)
        try:
            os.link(aside, path)  # whole or not at all, and never over an existing one
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not os.path.lexists(path):
                os.rename(aside, path)
    except OSError:
        return _id_in(path)
    finally:
        try:
            os.unlink(aside)
        except OSError:
            pass
    return _id_in(path)


def register(base: str, beside: Sequence[str] = ()) -> None:
    """Record the base for this user, and others `beside` it, wherever possible. Idempotent; never an error for the
    caller.

    The registry may end with a container whose volumes stay, so each base has a list of its siblings too.
    """
    real = os.path.realpath(base)
    listed = {path: set(_noted(path)[0]) for path in [real, *_registries()]}
    own = listed[real]
    fresh = {one for one in set(beside).union([real], *listed.values()) - own if not is_gone(one)}
    known = own | fresh
    for path in _registries():
        _note_all(path, known - listed[path], is_made=True)
    # Siblings only when they are new: one on a dead mount would hang every call.
    for path in sorted(fresh | {real}) if len(known) > 1 else ():
        _note_all(path, known - listed.get(path, set()), is_made=False)


def bases(base: str) -> List[str]:
    """Every recorded base that is not known to be gone, sorted: those of the registry, and the siblings of `base`."""
    found = {one for path in [*_registries(), os.path.realpath(base)] for one in _noted(path)[0]}
    return sorted(one for one in found if not is_gone(one))


def unread(base: str) -> Dict[str, str]:
    """Why each existing registry is unreadable, if all are: a base may then be recorded but missing from `bases`. Also
    why the list in `base` is.
    """
    told = [(path, _noted(path)[1]) for path in _registries()]
    found = {path: why for path, why in told if why} if all(why != "" for _, why in told) else {}
    own = _noted(os.path.realpath(base))[1]
    return dict(found, **{base: own}) if own and os.path.lexists(os.path.join(base, _BASES)) else found


def look_through(tiers: Sequence[str], limit_s: float) -> Tuple[List[str], Dict[str, str]]:
    """(bases of this user on these disks, down to the second folder in them; why what could not be looked into could
    not). A part of a path in capitals stands for any folder. Links are not followed.
    """
    until = time.monotonic() + limit_s
    found: List[str] = []
    unseen: Dict[str, str] = {}
    folders = [(place, DEPTH) for tier in tiers for place in _places(tier, unseen)]
    while folders:
        place, depth = folders.pop()
        if time.monotonic() > until:
            unseen[place] = "looking through its disk takes too long"
            break
        if _is_base(place, unseen):
            found.append(place)
        elif depth:
            folders += [(os.path.join(place, name), depth - 1) for name in _folders(place, unseen)]
    return found, unseen


def is_gone(path: str) -> bool:
    """Whether no folder is there; False where that cannot be seen."""
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        return error.errno in _ABSENT


def _places(tier: str, unseen: Dict[str, str]) -> List[str]:
    """The folders that a tier's path means."""
    found = ["/"]
    for part in os.path.expandvars(os.path.expanduser(tier)).strip("/").split("/"):
        if part.startswith("$"):
            return []  # a variable that this box lacks
        names = {place: _folders(place, unseen) if part.isupper() else [part] for place in found}
        found = [os.path.join(place, name) for place in found for name in names[place]]
    return [place for place in found if not is_gone(place)]


def _is_base(place: str, unseen: Dict[str, str]) -> bool:
    """Whether it has a box's id, or what may be one: another user's."""
    path = os.path.join(place, "box.json")
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno not in _ABSENT:
            unseen[place] = error.strerror or str(error)
        return False
    return bool(_id_in(path)) or not os.access(path, os.R_OK)


def _folders(place: str, unseen: Dict[str, str]) -> List[str]:
    """Names of the folders in `place`, sorted; a folder that a file system itself keeps is not one."""
    try:
        with os.scandir(place) as entries:
            return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False) and one.name != "lost+found")
    except OSError as error:
        if error.errno not in _ABSENT:
            unseen[place] = error.strerror or str(error)
        return []


def _noted(path: str) -> Tuple[List[str], Optional[str]]:
    """(the bases of one registry, why it cannot be read: None if it does not exist, "" if it can)."""
    try:
        folder = _open_folder(path, is_made=False)
        try:
            fd = _open_list(folder, os.O_RDONLY)
        finally:
            os.close(folder)
        try:
            return _bases_in(fd), ""
        finally:
            os.close(fd)
    except FileNotFoundError:
        return [], None
    except OSError as error:
        return [], error.strerror or str(error)


def other_users() -> List[int]:
    """Other users' ids whose keepers recorded a base on this machine, as far as their registries can be seen."""
    import pwd

    found = {}
    for name in _listed("/var/tmp"):
        uid = name[len("sojourn-") :] if name.startswith("sojourn-") else ""
        if uid.isdigit():
            found["/var/tmp/" + name] = int(uid)
    found.update((_home_registry(one.pw_dir), one.pw_uid) for one in pwd.getpwall())
    theirs = set()
    for path, owner in found.items():
        try:
            seen = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISDIR(seen.st_mode) and seen.st_uid == owner != os.getuid():
            theirs.add(owner)
    return sorted(theirs)


def keepers_of_others() -> Dict[int, int]:
    """By other users' ids: how many of their keepers tend a run here. None if /proc hides them."""
    found: Dict[int, int] = {}
    for pid in _listed("/proc"):
        if pid.isdigit():
            try:
                uid = os.stat("/proc/" + pid).st_uid
                if uid == os.getuid():
                    continue
                with open("/proc/%s/cmdline" % pid, "rb", buffering=0) as f:
                    words = (f.read(_CMDLINE_BYTES) or b"").split(b"\0")
            except OSError:
                continue
            if b"supervise" in words and any(_is_keeper(word) for word in words):
                found[uid] = found.get(uid, 0) + 1
    return found


def _is_keeper(word: bytes) -> bool:
    name = os.path.basename(word)
    return name.startswith(b"keeper-") and name.endswith(b".pyz")


def _id_in(path: str) -> str:
    try:
        found: Any = atomic.read_json(path)
    except OSError:
        return ""
    text = found.get("id") if isinstance(found, dict) else None
    return text if isinstance(text, str) else ""


def _registries() -> List[str]:
    """The folders of this user's registry. SOJOURN_BOX_REGISTRY replaces both, so that a test sees only its own."""
    given = os.environ.get("SOJOURN_BOX_REGISTRY", "")
    if given:
        return [given]
    return [_home_registry(os.path.expanduser("~")), "/var/tmp/sojourn-%d" % os.getuid()]


def _home_registry(home: str) -> str:
    return os.path.join(home, ".local", "state", "sojourn-box")


def _open_folder(path: str, is_made: bool) -> int:
    """A folder of this user, closed to all others, and not a link: /var/tmp is everybody's. Raises: OSError."""
    if is_made and not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        seen = os.fstat(fd)
        if seen.st_uid != os.getuid():
            raise PermissionError("%s is not ours" % path)
        if seen.st_mode & 0o022:
            raise PermissionError("others may write to %s" % path)
        if seen.st_mode & 0o077:
            os.fchmod(fd, 0o700)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_list(folder: int, flags: int) -> int:
    fd = os.open(_BASES, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.getuid():
        os.close(fd)
        raise PermissionError("the list of bases is not ours")
    return fd


def _note_all(path: str, found: Collection[str], is_made: bool) -> None:
    """Note these bases in the list of a folder, if that can be."""
    if not found:
        return
    try:
        folder = _open_folder(path, is_made)
    except OSError:
        return  # a read-only home, or somebody else's folder in its place
    try:
        for base in sorted(found):
            _note(folder, base)
    except OSError:
        pass
    finally:
        os.close(folder)


def _note(folder: int, base: str) -> None:
    """One line per base, appended in one write; an earlier entry does no harm. Raises: OSError."""
    fd = _open_list(folder, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        if base in _bases_in(fd):
            return
        line = lean_json.dumps(base).encode("ascii") + b"\n"  # JSON, since a path may contain a newline
        size = os.fstat(fd).st_size
        if size + len(line) > _LIMIT_BYTES:  # drops only bases that are gone
            _note_anew(folder, [one for one in [*_bases_in(fd), base] if os.path.isdir(one)])
            return
        os.write(fd, b"\n" + line if size and os.pread(fd, 1, size - 1) != b"\n" else line)
    finally:
        os.close(fd)


def _note_anew(folder: int, bases: List[str]) -> None:
    """The whole list, renamed over the old one. A base that another records meanwhile is recorded by its next call."""
    aside = "%s.%d" % (_BASES, os.getpid())
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with open(fd, "wb") as file:
        file.writelines(lean_json.dumps(one).encode("ascii") + b"\n" for one in bases)
        file.flush()
        os.fsync(fd)
    os.rename(aside, _BASES, src_dir_fd=folder, dst_dir_fd=folder)


def _bases_in(fd: int) -> List[str]:
    found = []
    for line in os.pread(fd, _LIMIT_BYTES, 0).split(b"\n"):
        try:
            base = lean_json.loads(line.decode("utf-8"))
        except ValueError:
            continue  # empty, or torn
        if isinstance(base, str) and os.path.isabs(base) and "\0" not in base:
            found.append(base)
    return found


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
