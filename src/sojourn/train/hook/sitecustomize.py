"""`protect: saves`: saves that would overwrite a file in place write a new one, sync it, and then replace the old.

Python loads this file by its name at every start, before the script. It is self-contained, imports nothing until a
library that saves is imported, and steps aside when in doubt: the library's own call then writes as it always does.
Protected: torch.save, numpy.save, savez and savez_compressed, safetensors' save_file, joblib.dump; each when given the
path of a regular or new file. Each has one wrapper, under every name that the library gives the function, so it stays
one function: it is pickled by its name and compares equal to itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_NAME = "sitecustomize"
# imported module -> (a function of it, place and name of the path among its arguments, ending it appends).
_SAVERS = {
    "torch": (("save", 1, "f", ""),),
    "numpy": (("save", 0, "file", ".npy"), ("savez", 0, "file", ".npz"), ("savez_compressed", 0, "file", ".npz")),
    "safetensors.torch": (("save_file", 1, "filename", ""),),
    "safetensors.numpy": (("save_file", 1, "filename", ""),),
    "joblib": (("dump", 1, "filename", ""),),
}
_TRIED_AGAIN = (28, 122, 18)  # ENOSPC, EDQUOT, EXDEV: no room for two, or no rename; written in place as before
_PREFIX = ".saving-"  # the whole name: `_aside`; box/run/saved_files.py knows it too
_told: set[str] = set()  # already reported
_refused: set[str] = set()  # folders whose file system did not let us replace a file


class _Refused(Exception):
    """A step of ours is not possible here: the library writes in place."""


def _install() -> None:
    """Watch for the libraries, then load the sitecustomize hidden by ours. Raises: nothing of our own."""
    sys.meta_path.insert(0, _Finder())
    for name in _SAVERS:
        if name in sys.modules:
            _protect(name)
    _chain()


def _chain() -> None:
    """Run the sitecustomize that would be loaded without ours, as if it were alone."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    rest = [path for path in sys.path if os.path.abspath(path or ".") != _FOLDER]
    spec = PathFinder.find_spec(_NAME, rest)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules[_NAME] = module
        spec.loader.exec_module(module)


class _Finder:
    """Finds nothing itself: lets the others find a library we protect, and wraps its functions once it is loaded."""

    def __init__(self) -> None:
        self.busy: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As in `importlib.abc.MetaPathFinder`."""
        if name not in _SAVERS or name in self.busy:
            return None
        from importlib.util import find_spec

        self.busy.add(name)
        try:
            spec = find_spec(name)
        except (ImportError, ValueError, AttributeError):
            return None
        finally:
            self.busy.discard(name)
        loader: Any = spec.loader if spec is not None else None
        if hasattr(loader, "exec_module"):
            load = loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                load(module)
                _protect(name)

            loader.exec_module = exec_module
        return spec


def _protect(name: str) -> None:
    """Put a wrapper under every name by which the library's modules know the function."""
    top = name.partition(".")[0]
    for attribute, place, keyword, ending in _SAVERS[name]:
        plain = getattr(sys.modules[name], attribute, None)
        if plain is None or hasattr(plain, "__sojourn_plain__"):
            continue
        save = _whole(plain, place, keyword, ending)
        for inner, module in list(sys.modules.items()):
            if inner.partition(".")[0] == top:
                for other, value in list(getattr(module, "__dict__", {}).items()):
                    if value is plain:
                        setattr(module, other, save)


def _whole(function: Callable[..., Any], place: int, keyword: str, ending: str) -> Callable[..., Any]:
    """`function`, which writes to the path among its arguments, made to write whole or not at all."""
    import functools

    @functools.wraps(function)
    def save(*args: Any, **named: Any) -> Any:
        target: Any = named[keyword] if keyword in named else args[place] if len(args) > place else None
        path = _path_of(target, ending)
        aside = ""
        try:
            if not path or os.path.dirname(path) in _refused:
                raise _Refused
            aside = _aside(path)
            other = os.path.join(aside, os.path.basename(path))
            _begin(other, path)
            if keyword in named:
                result = function(*args, **dict(named, **{keyword: other}))
            else:
                result = function(*args[:place], other, *args[place + 1 :], **named)
            _put(other, path)
            if isinstance(result, list):  # joblib.dump returns the names of the files it wrote
                return [os.fspath(target) if one == other else one for one in result]
            return result
        except _Refused as error:
            _say(str(error))
        except BaseException as error:
            if getattr(error, "errno", None) not in _TRIED_AGAIN and not _is_full(error):
                raise
            _say("%s: no room to write it aside (%s); written in place" % (path, error))
        finally:
            _remove(aside)
        return function(*args, **named)

    save.__sojourn_plain__ = function  # type: ignore[attr-defined]
    return save


def _path_of(target: Any, ending: str) -> str:
    """The real path to write to; "" if there is none, or it is not a regular file."""
    try:
        path = os.fspath(target)
        if not isinstance(path, str):
            return ""
        path = os.path.realpath(path if path.endswith(ending) else path + ending)
        if os.path.lexists(path) and not os.path.isfile(path):
            _say("%s is not a regular file: not protected" % path)
            return ""
        return path if os.path.isdir(os.path.dirname(path)) else ""
    except Exception:  # noqa: BLE001 - whatever a path of somebody's own class raises: the library judges it
        return ""


def _aside(path: str) -> str:
    """A new folder of ours beside the file: the name stays, because torch.save writes it into the file.

    Its name tells whose it is: token of the attempt, pid and start of the process, boot and pid namespace.
    Raises: _Refused.
    """
    folder, token, here = os.path.dirname(path), os.environ.get("SOJOURN_TOKEN", ""), _here()
    name = [token if token.isdigit() else "0", str(os.getpid()), _start("self"), here, os.urandom(4).hex()]
    try:
        for left in os.listdir(folder):
            if left.startswith(_PREFIX) and _is_abandoned(left[len(_PREFIX) :].split("-"), here):
                _remove(os.path.join(folder, left))
        aside = os.path.join(folder, _PREFIX + "-".join(name))
        os.mkdir(aside, 0o700)
        return aside
    except OSError as error:
        raise _no_more(folder, error) from error


def _no_more(folder: str, error: OSError) -> _Refused:
    """Files cannot be replaced in this folder: not tried again, unless it is for lack of room."""
    if error.errno not in _TRIED_AGAIN:
        _refused.add(folder)
    return _Refused("%s: saves there are written in place: %s" % (folder, error.strerror))


def _is_abandoned(name: list[str], here: str) -> bool:
    """Whether it is one of ours, and its writer is known to be dead: it was started here, and is not there any more."""
    if len(name) != 5 or name[3] != here or not (name[0] + name[1] + name[2]).isdigit():
        return False
    try:
        os.kill(int(name[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError, ValueError):
        return False
    return _start(name[1]) not in ("0", name[2])


def _here() -> str:
    """This boot and pid namespace, within which a pid and its start name one process."""
    import zlib

    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            text = "%s %d" % (f.read().strip(), os.stat("/proc/self/ns/pid").st_ino)
        return "%08x" % zlib.crc32(text.encode("ascii"))
    except OSError:
        return os.urandom(4).hex()  # like no other: nobody will conclude anything from it


def _start(pid: str) -> str:
    """When the process was started, in ticks since the boot; "0" if that cannot be seen."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as f:
            return f.read().rpartition(b")")[2].split()[19].decode("ascii")
    except (OSError, IndexError):
        return "0"


def _begin(other: str, path: str) -> None:
    """Make the new file, still empty, with the owner, mode and attributes of the old one. Raises: _Refused."""
    try:
        os.close(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        if not os.path.exists(path):
            return
        if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise _Refused("%s is not writable" % path)
        if _has_links(path):
            raise _Refused("%s has hard links: written in place" % path)
        old, new = os.stat(path), os.stat(other)
        if _is_in_use(path, old):
            raise _Refused("%s is open in this process: written in place" % path)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.chown(other, old.st_uid, old.st_gid)
        have, want = _attributes(other), _attributes(path)
        for name in want:
            if have.get(name) != want[name]:
                os.setxattr(other, name, want[name])
        for name in set(have) - set(want):
            os.removexattr(other, name)
        if old.st_mode != os.stat(other).st_mode:
            os.chmod(other, old.st_mode & 0o7777)
    except (OSError, ValueError) as error:
        raise _Refused("%s: written in place: %s" % (path, getattr(error, "strerror", error))) from error


def _has_links(path: str) -> bool:
    """Whether the file has other names than `_keep` gives it; a save by somebody else shows one for a moment."""
    import time

    for wait_s in (0.01, 0.02, 0.0):
        found, kept = os.stat(path), _before(path)
        is_kept = bool(kept) and os.path.exists(kept) and os.path.samestat(os.stat(kept), found)
        if found.st_nlink - is_kept <= 1:
            return False
        time.sleep(wait_s)
    return True


def _is_in_use(path: str, found: os.stat_result) -> bool:
    """Whether this process has the file open, or mapped so that it sees what is written: it expects to see it."""
    if not os.path.exists("/proc/self/fd"):
        return False
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.path.samestat(os.fstat(int(fd)), found):
                return True
        except OSError:
            continue  # the one that listed them
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as f:
        rows = (line.rstrip("\n").split(None, 5) for line in f)
        return any(len(row) == 6 and row[1].endswith("s") and row[5] == path for row in rows)


def _attributes(path: str) -> Dict[str, bytes]:
    """Extended attributes, access lists among them; {} where the file system has none. Raises: OSError."""
    try:
        return {name: os.getxattr(path, name) for name in os.listxattr(path)}
    except OSError as error:
        if error.errno == 95:  # EOPNOTSUPP
            return {}
        raise


def _put(other: str, path: str) -> None:
    """Sync the new file, keep the old one, and replace it.

    Raises: _Refused, and then the old file is there as before; this folder is not tried again.
    """
    kept = ""
    try:
        _sync(other)
        kept = _keep(path)
        os.rename(other, path)
    except OSError as error:
        if kept:
            os.unlink(kept)
        raise _no_more(os.path.dirname(path), error) from error
    try:
        _sync(os.path.dirname(path))
    except OSError as error:
        _say("%s: replaced, but not synced: %s" % (os.path.dirname(path), error))


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _keep(path: str) -> str:
    """A second name for the old file, in the run's own folder: it is never owed. "" if that would cost a copy."""
    kept = _before(path)
    if not kept or not os.path.exists(path):
        return ""
    try:
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        if os.path.lexists(kept):
            os.unlink(kept)
        os.link(path, kept)
        return kept
    except FileExistsError:  # another thread or process, which saves there too
        return ""
    except OSError as error:
        _say("the checkpoint before %s is not kept: %s" % (path, error))
        return ""


def _before(path: str) -> str:
    """Where the version before is kept; "" for a file outside the working copy."""
    run, attempt = os.environ.get("SOJOURN_RUN_DIR", ""), os.environ.get("SOJOURN_ATTEMPT", "")
    inner = os.path.relpath(path, os.path.join(os.path.realpath(run), "attempts", attempt)) if run else os.pardir
    return "" if inner.startswith(os.pardir) else os.path.join(os.path.realpath(run), "persist", "before", inner)


def _is_full(error: BaseException) -> bool:
    """torch and safetensors report a full disk in their own words."""
    text = str(error)
    return any(word in text for word in ("No space left", "os error 28", "unexpected pos", "requested and"))


def _remove(folder: str) -> None:
    try:
        for name in os.listdir(folder) if folder else ():
            os.unlink(os.path.join(folder, name))
        if folder:
            os.rmdir(folder)
    except OSError:
        return


def _stderr() -> tuple[int, int] | None:
    """What descriptor 2 is; None if closed."""
    try:
        found = os.fstat(2)
        return found.st_dev, found.st_ino
    except OSError:
        return None


_STDERR = _stderr()


def _say(text: str) -> None:
    """One line in the log, once. Never through `sys.stderr`: what a broken one cannot take would wait in its buffer and
    fail at the end. A script that closed or moved it hears nothing: descriptor 2 may be one of its files by now.
    """
    stream = sys.stderr
    if not text or text in _told or len(_told) >= 20:
        return
    _told.add(text)
    if stream is None or getattr(stream, "closed", False) or _STDERR is None or _stderr() != _STDERR:
        return
    try:
        os.write(2, ("sojourn: protect: %s\n" % text).encode("utf-8", "backslashreplace"))
    except OSError:
        return


try:
    _install()
except Exception as error:  # noqa: BLE001 - whatever is wrong with us, the script runs
    _say("off: %s" % error)
