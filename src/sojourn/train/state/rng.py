"""The state of random number generators: python's, numpy's, PyTorch's, CUDA's, and a script's or its loader's own."""

from __future__ import annotations

import importlib
import random
import struct
import sys
from typing import Any, Iterable, Mapping


def is_generator(value: Any) -> bool:
    """True for a random number generator object that can be restored: of python, numpy or PyTorch."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, (numpy.random.Generator, numpy.random.RandomState)):
        return True
    if isinstance(value, random.Random):
        return not isinstance(value, random.SystemRandom)
    return torch is not None and isinstance(value, torch.Generator)


def capture(named: Mapping[str, Any], of_loader: Iterable[Any]) -> dict[str, Any]:
    """Plain values of every generator's state. None for a library the process has not imported."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "python": _of(random),
        "numpy": _plain(numpy.random.get_state(legacy=False)) if numpy is not None else None,
        "torch": _bytes(torch.get_rng_state()) if torch is not None else None,
        "cuda": [_bytes(state) for state in torch.cuda.get_rng_state_all()] if cuda and torch is not None else None,
        "named": {name: _of(value) for name, value in named.items()},
        "loader": [_of(value) for value in of_loader],
    }


def restore(saved: Mapping[str, Any], named: Mapping[str, Any], of_loader: Iterable[Any]) -> list[str]:
    """Restore every generator; returns in words what could not be (a missing GPU). Raises: KeyError for a name."""
    _put(random, saved["python"])
    if saved["numpy"] is not None:
        numpy = importlib.import_module("numpy")
        numpy.random.set_state(_like(saved["numpy"], numpy.random.get_state(legacy=False)))
    for name, value in named.items():
        _put(value, saved["named"][name])
    for value, state in zip(of_loader, saved["loader"]):
        _put(value, state)
    if saved["torch"] is None:
        return []
    torch = importlib.import_module("torch")
    torch.set_rng_state(_tensor(saved["torch"]))
    states = saved["cuda"] or []
    there = torch.cuda.device_count() if states and torch.cuda.is_available() else 0
    for index, state in enumerate(states[:there]):
        torch.cuda.set_rng_state(_tensor(state), index)
    return (
        []
        if there >= len(states)
        else [f"the random numbers of {len(states) - there} GPUs that are not here start over"]
    )


class Sources:
    """The process-wide generators, those `named`, and a loader's, taken together."""

    def __init__(self, named: Mapping[str, Any], of_loader: Iterable[Any]) -> None:
        self.named, self.of_loader = named, list(of_loader)

    def own(self) -> list[Any]:
        """The generators that are not process-wide."""
        return [*self.named.values(), *self.of_loader]

    def capture(self) -> dict[str, Any]:
        """Plain values of every generator's state."""
        return capture(self.named, self.of_loader)

    def restore(self, saved: Mapping[str, Any]) -> list[str]:
        """Restore every generator; returns in words what could not be."""
        return restore(saved, self.named, self.of_loader)


def _of(source: Any) -> Any:
    """The state of one generator, or of the module `random`."""
    if hasattr(source, "getstate"):
        version, words, gauss = source.getstate()
        return {"version": version, "words": struct.pack(f"<{len(words)}I", *words), "gauss": gauss}
    if hasattr(source, "bit_generator"):
        return _plain(source.bit_generator.state)
    if hasattr(source, "tomaxint"):  # numpy's RandomState
        return _plain(source.get_state(legacy=False))
    return _bytes(source.get_state())


def _put(source: Any, saved: Any) -> None:
    if hasattr(source, "setstate"):
        words = struct.unpack(f"<{len(saved['words']) // 4}I", saved["words"])
        source.setstate((saved["version"], words, saved["gauss"]))
    elif hasattr(source, "bit_generator"):
        source.bit_generator.state = _like(saved, source.bit_generator.state)
    elif hasattr(source, "tomaxint"):
        source.set_state(_like(saved, source.get_state(legacy=False)))
    else:
        source.set_state(_tensor(saved))


def _plain(state: Any) -> Any:
    """A numpy state with its arrays as bytes."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tobytes() if getattr(state, "ndim", 0) else state


def _like(saved: Any, now: Any) -> Any:
    """The saved state with its bytes as arrays, in the generator's current dtype."""
    if isinstance(saved, dict):
        return {
            key: _like(value, now[key] if isinstance(now, dict) and key in now else None)
            for key, value in saved.items()
        }
    if isinstance(saved, bytes) and now is not None:
        return importlib.import_module("numpy").frombuffer(saved, now.dtype).copy()
    return saved


def _bytes(state: Any) -> bytes:
    return bytes(state.tolist())


def _tensor(state: bytes) -> Any:
    torch = importlib.import_module("torch")
    return torch.tensor(list(state), dtype=torch.uint8)
