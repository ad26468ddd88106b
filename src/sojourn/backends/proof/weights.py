"""What PyTorch itself says of one of its files, weights only. Where it is not installed, nothing."""

from __future__ import annotations

from collections.abc import Callable

from sojourn.formats.damage import Unloadable


def _load(path: str, is_mapped: bool) -> str:
    """PyTorch's name and version where it is installed and loads the file, weights only; "" where it is not installed.

    Where `is_mapped`, it maps what the walker has read already. Raises: Unloadable where PyTorch refuses the file.
    """
    try:
        import torch
    except ImportError:
        return ""
    import pickle

    try:
        torch.load(path, weights_only=True, map_location="cpu", mmap=is_mapped)
    except pickle.UnpicklingError as error:
        raise Unloadable("unsafe", f"PyTorch refuses it as not weights only: {_first_line(error)}") from error
    except MemoryError as error:
        raise Unloadable("unsafe", "PyTorch ran out of memory reading it") from error
    except Exception as error:
        # PyTorch raises what its C++ and the pickle's shape come to: any of them means that it does not load.
        raise Unloadable("corrupt", f"PyTorch refuses it: {_first_line(error)}") from error
    return f"torch {torch.__version__}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def prepare() -> None:
    """Import PyTorch, where it is installed, before a file needs it."""
    try:
        import torch  # noqa: F401 - to have it imported is all
    except ImportError:
        pass


def _expect() -> None:
    """Nothing to prepare here."""


# (path, is_mapped) -> name and version; and a word ahead that it will be asked for. Both are replaced in a process that
# has another one to ask (`loading_child`).
load: Callable[[str, bool], str] = _load
expect: Callable[[], None] = _expect
