"""PyTorch's own verdict on one of its files, weights only. Without PyTorch, none."""

from __future__ import annotations

from collections.abc import Callable

from sojourn.formats.damage import Unloadable


def _load(path: str, is_mapped: bool) -> str:
    """PyTorch's name and version if it is installed and loads the file, weights only; "" if it is not installed.

    If `is_mapped`, it maps what the walker has already read. Raises: Unloadable if PyTorch refuses the file.
    """
    try:
        import torch
    except ImportError:
        return ""
    import pickle

    try:
        torch.load(path, weights_only=True, map_location="cpu", mmap=is_mapped)
    except pickle.UnpicklingError as error:
        raise Unloadable("unsafe", f"PyTorch refuses to load it weights-only: {_first_line(error)}") from error
    except MemoryError as error:
        raise Unloadable("unsafe", "PyTorch ran out of memory reading it") from error
    except Exception as error:
        # PyTorch passes on errors of its C++ and of the pickle's form: any of them means that it does not load.
        raise Unloadable("corrupt", f"PyTorch refuses it: {_first_line(error)}") from error
    return f"torch {torch.__version__}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def prepare() -> None:
    """Import PyTorch, if installed, before a file needs it."""
    try:
        import torch  # noqa: F401 - to have it imported is all
    except ImportError:
        pass


def _expect() -> None:
    """Nothing to prepare here."""


# (path, is_mapped) -> name and version; and a notice beforehand. Both are replaced in a process that asks another one
# (`loading_child`).
load: Callable[[str, bool], str] = _load
expect: Callable[[], None] = _expect
