"""`protect: saves`: saves that would overwrite a file in place write a new one, sync it, and then replace the old.

Python loads this file by its name at every start, before the script. It is self-contained, imports nothing until a
library that saves is imported, and steps aside when in doubt. Protected: torch.save, numpy.save, savez and
savez_compressed, safetensors' save_file, joblib.dump; each when given the path of a regular or new file.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_NAME = "sitecustomize"
# imported module -> (owner of the function, its name, place and name of the path, ending it appends).
_SAVERS = {
    "torch": (("torch", "save", 1, "f", ""), ("torch.serialization", "save", 1, "f", "")),
    "numpy": (
        ("numpy", "save", 0, "file", ".npy"),
        ("numpy", "savez", 0, "file", ".npz"),
        ("numpy", "savez_compressed", 0, "file", ".npz"),
    ),
    "safetensors.torch": (("safetensors.torch", "save_file", 1, "filename", ""),),
    "safetensors.numpy": (("safetensors.numpy", "save_file", 1, "filename", ""),),
    "joblib": (("joblib", "dump", 1, "filename", ""),),
}
_TRIED_AGAIN = (28, 122, 18)  # ENOSPC, EDQUOT, EXDEV: no room for two, or no rename; written in place as before
_told: set[str] = set()  # already reported


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
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, name)  # type: ignore[assignment]
        return spec


class _Loader:
    """The library's own loader, followed by our step."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: Any) -> Any:
        """As the library's own loader does."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the library, then protect its functions that save."""
        module.__spec__.loader = module.__loader__ = self._inner  # type: ignore[union-attr]
        self._inner.exec_module(module)
        _protect(self._name)


def _protect(name: str) -> None:
    for owner, attribute, place, keyword, ending in _SAVERS[name]:
        module = sys.modules.get(owner)
        function = getattr(module, attribute, None)
        if function is not None and not hasattr(function, "__sojourn_plain__"):
            setattr(module, attribute, _whole(function, place, keyword, ending))


def _whole(function: Callable[..., Any], place: int, keyword: str, ending: str) -> Callable[..., Any]:
    """`function`, which writes to the path among its arguments, made to write whole or not at all."""
    import functools

    @functools.wraps(function)
    def save(*args: Any, **named: Any) -> Any:
        target = named.get(keyword) if keyword in named else args[place] if len(args) > place else None
        path = _path_of(target, ending)
        if not path:
            return function(*args, **named)
        try:
            aside = _aside(path)
        except OSError as error:
            _say("%s: %s" % (path, error))
            return function(*args, **named)
        other = os.path.join(aside, os.path.basename(path))
        try:
            if keyword in named:
                result = function(*args, **dict(named, **{keyword: other}))
            else:
                result = function(*args[:place], other, *args[place + 1 :], **named)
            _put(other, path)
            return _named_as_before(result, other, path)
        except BaseException as error:
            _remove(aside)
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
    if not isinstance(target, (str, bytes, os.PathLike)):
        return ""
    try:
        path = os.fsdecode(os.fspath(target))
        if ending and not path.endswith(ending):
            path += ending
        path = os.path.realpath(path)
        if os.path.lexists(path) and not os.path.isfile(path):
            _say("%s is not a regular file: not protected" % path)
            return ""
        return path if os.path.isdir(os.path.dirname(path)) else ""
    except (TypeError, ValueError, OSError):
        return ""


def _aside(path: str) -> str:
    """A folder of ours beside the file: the name stays, because torch.save writes it into the file. Raises: OSError."""
    import tempfile

    folder, attempt = os.path.dirname(path), os.environ.get("SOJOURN_ATTEMPT", "0")
    for name in os.listdir(folder):  # from an earlier attempt, killed in between
        if name.startswith(".saving-") and not name.startswith(".saving-%s-" % attempt):
            _remove(os.path.join(folder, name))
    return tempfile.mkdtemp(prefix=".saving-%s-" % attempt, dir=folder)


def _put(other: str, path: str) -> None:
    """Sync the new file, keep the old one, and replace it. Raises: OSError."""
    if os.path.exists(path):
        os.chmod(other, os.stat(path).st_mode & 0o7777)
    fd = os.open(other, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    _keep(path)
    os.rename(other, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keep(path: str) -> None:
    """A second name for the old file, in the run's own folder: it is never owed. Only if that costs no copy."""
    run, attempt = os.environ.get("SOJOURN_RUN_DIR", ""), os.environ.get("SOJOURN_ATTEMPT", "")
    here = os.path.join(os.path.realpath(run), "attempts", attempt)
    inner = os.path.relpath(path, here)
    if not run or inner.startswith(os.pardir) or not os.path.exists(path):
        return
    kept = os.path.join(os.path.realpath(run), "persist", "before", inner)
    try:
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        if os.path.lexists(kept):
            os.unlink(kept)
        os.link(path, kept)
    except OSError as error:
        _say("the checkpoint before %s is not kept: %s" % (path, error))


def _named_as_before(result: Any, other: str, path: str) -> Any:
    """joblib.dump returns the names of the files it wrote."""
    return [path if one == other else one for one in result] if isinstance(result, list) else result


def _is_full(error: BaseException) -> bool:
    """torch and safetensors report a full disk in their own words."""
    text = str(error)
    return any(word in text for word in ("No space left", "os error 28", "unexpected pos", "requested and"))


def _remove(folder: str) -> None:
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            os.unlink(os.path.join(folder, name))
        except OSError:
            return
    try:
        os.rmdir(folder)
    except OSError:
        return


def _say(text: str) -> None:
    if text not in _told and len(_told) < 20:
        _told.add(text)
        sys.stderr.write("sojourn: protect: %s\n" % text)


try:
    _install()
except Exception as error:  # noqa: BLE001 - whatever is wrong with us, the script runs
    sys.stderr.write("sojourn: protect: off: %s\n" % error)
