"""Verifies that a sharded model is complete: the index of Hugging Face's safetensors and PyTorch sets, with every shard
it names present, each with exactly its keys, and all with the total size. Each shard is also verified as a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import safetensors
from sojourn.formats.damage import Unloadable

_LIMIT_BYTES = 64 << 20
_SHARD = re.compile(r"(.+)-(\d{5,})-of-(\d{5,})(\.[A-Za-z]+)")


class Backend(Loader):
    """Loads one model.safetensors.index.json or pytorch_model.bin.index.json."""

    kind: ClassVar[str] = "shard_index"
    suffixes: ClassVar[tuple[str, ...]] = (
        ".safetensors.index.json",
        ".safetensors.index.*.json",
        ".bin.index.json",
        ".bin.index.*.json",
        ".pt.index.json",
    )
    magic: ClassVar[tuple[bytes, ...]] = ()
    among: ClassVar[str] = r"\.index\."

    def owns(self, path: str, head: bytes) -> bool:
        """Text does not identify itself: only the name does."""
        return False

    def load(self, path: str) -> Loaded:
        """Refused: it says nothing without its shards. Raises: Unloadable."""
        raise Unloadable("missing-shard", "the shards that it names are not known")

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """Read it and compare every shard. Raises: Unloadable, OSError."""
        total, expected = _read(path)
        missing = sorted(set(expected) - set(beside))
        if missing:
            which = ", ".join(missing[:5])[:300]
            raise Unloadable("missing-shard", f"{len(missing)} of {len(expected)} shards are missing: {which}")
        extra = sorted(file for file in beside if _is_stray(file, expected))
        if extra:
            raise Unloadable("mismatch", f"shards beside it that it does not name: {', '.join(extra[:5])[:300]}")
        size_bytes = 0
        for shard, keys in sorted(expected.items()):
            tensors = _tensors(beside[shard], shard)
            if set(tensors) != keys:
                odd = sorted(set(tensors) ^ keys)
                raise Unloadable("mismatch", f"{shard} and the index disagree about {', '.join(odd[:5])[:300]}")
            size_bytes += sum(tensors.values())
        remarks: tuple[str, ...] = ()
        if total is not None and total != size_bytes:
            # Some writers count tensors that share memory once, others twice.
            remarks = (f"the index states {total} bytes of tensors, but its shards hold {size_bytes}",)
        facts = {"shards": len(expected), "tensors": sum(map(len, expected.values())), "tensor_bytes": size_bytes}
        return Loaded(("structure", "load", "content"), {**facts, "by": "sojourn"}, remarks)


def alone(name: str, beside: Mapping[str, str]) -> tuple[str, ...]:
    """A remark about a shard without an index to check it against. Raises: Unloadable("missing-shard", "mismatch")."""
    hit = _SHARD.fullmatch(name)
    if not hit or any(".index." in other for other in beside):
        return ()
    width, count = len(hit.group(3)), int(hit.group(3))
    if not 0 <= int(hit.group(2)) <= count:
        raise Unloadable("mismatch", f"shard {int(hit.group(2))} of {count}: there is none")
    first = f"{hit.group(1)}-{0:0{width}}-of-{hit.group(3)}{hit.group(4)}"
    numbers = range(count) if first in beside else range(1, count + 1)  # some count from zero
    names = (f"{hit.group(1)}-{n:0{width}}-of-{hit.group(3)}{hit.group(4)}" for n in numbers)
    missing = next((other for other in names if other not in beside), "")
    if missing:
        raise Unloadable("missing-shard", f"{missing[:80]} is not beside it, nor an index")
    return ("a shard without its index",)


def _read(path: str) -> tuple[int | None, dict[str, set[str]]]:
    """(total_size if given, {shard: its keys}). Raises: Unloadable, OSError."""
    from sojourn.backends import get

    get("loader", "json_")().load(path)  # strictly, and bounded
    if os.path.getsize(path) > _LIMIT_BYTES:
        raise Unloadable("unsupported", f"an index of more than {_LIMIT_BYTES >> 20} MiB")
    with open(path, encoding="utf-8-sig") as f:
        value = json.load(f)
    weights = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weights, dict) or not weights or not all(isinstance(file, str) for file in weights.values()):
        raise Unloadable("unparseable", "it holds no weight_map of keys and shards")
    expected: dict[str, set[str]] = {}
    for key, file in weights.items():
        if os.path.basename(file) != file or file in ("", ".", ".."):
            raise Unloadable("escapes-root", f"it names a shard {file[:80]!r}")
        expected.setdefault(file, set()).add(key)
    metadata = value.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return (int(total) if isinstance(total, (int, float)) else None), expected


def _is_stray(file: str, expected: Mapping[str, Any]) -> bool:
    """By its name a shard of the same model in the same format, but without any key."""
    hit = _SHARD.fullmatch(file)
    heads = {(m.group(1), m.group(4)) for m in map(_SHARD.fullmatch, expected) if m}
    return hit is not None and file not in expected and (hit.group(1), hit.group(4)) in heads


def _tensors(path: str, shard: str) -> dict[str, int]:
    """{key: bytes} of one shard, whatever its format. Raises: Unloadable, OSError."""
    try:
        if shard.endswith(".safetensors"):
            return {tensor.name: tensor.end - tensor.begin for tensor in safetensors.walk(path).tensors}
        return {name: tensor.elements * _width(tensor.dtype) for name, tensor in _torch(path)}
    except Unloadable as error:
        raise Unloadable(error.problem, f"{shard}: {error.why}") from None


def _torch(path: str) -> tuple[tuple[str, Any], ...]:
    from sojourn.formats.torch import legacy as torch_legacy
    from sojourn.formats.torch import zip as torch_zip

    with open(path, "rb") as f:
        is_old = f.read(len(torch_legacy.MAGIC)) == torch_legacy.MAGIC
    if is_old:
        return torch_legacy.read_legacy(path).tensors
    found = torch_zip.walk(path, crc=False)
    if found.problems:
        raise Unloadable(*found.problems[0])
    return found.tensors


def _width(dtype: str) -> int:
    from sojourn.formats.torch.values import DTYPES

    return DTYPES[dtype][0]
