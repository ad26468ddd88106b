"""Verifies PyTorch files (torch.save since 1.6): zip frame and every CRC, the pickle decoded without running it, every
value scanned; and loaded, weights only: by PyTorch if installed, by our own reader if our writer made it.

Damage that `torch.load` by itself accepts (a flipped bit, a hole, NaN: C19 of the training catalog) is refused first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from sojourn.backends.proof import zero_set
from sojourn.core.plain import finite
from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import legacy as torch_legacy
from sojourn.formats.torch import unpickle as torch_unpickle
from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.values import Tensor

# A pickle describes tensors in some 200 bytes each; a larger one does not describe weights.
PICKLE_LIMIT_BYTES = 64 << 20
_TORCH_LIMIT_BYTES = 128 << 20  # of what PyTorch must unpack into memory
_KEYS = 256


class Backend(Loader):
    """Loads one .pt, .pth or .ckpt file."""

    kind: ClassVar[str] = "torch_zip"
    suffixes: ClassVar[tuple[str, ...]] = (
        *(".pt", ".pth", ".ckpt", ".th", ".pt.tar", ".pth.tar", ".ckpt.tar"),
        # The names used by the Hugging Face libraries; any other .bin may be anything.
        *("/pytorch_model*.bin", "/adapter_model.bin", "/diffusion_pytorch_model*.bin", "/training_args.bin"),
    )
    also: ClassVar[tuple[str, ...]] = (".zip", ".pkl", ".pickle")
    magic: ClassVar[tuple[bytes, ...]] = (b"PK\x03\x04",)
    among: ClassVar[str] = rf"-\d{{5,}}-of-\d{{5,}}\.|{zero_set.NAMES}"

    def owns(self, path: str, head: bytes) -> bool:
        """An archive with a data.pkl."""
        from sojourn.backends.proof import archive

        return any(name == "data.pkl" or name.endswith("/data.pkl") for name in archive.names(path))

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """The same, for one of several shards, which must not be alone. Raises: Unloadable, OSError."""
        from sojourn.backends.loader import shard_index

        loaded, tree = self._load(path)
        if re.search(zero_set.NAMES, name):
            zero_set.check(tree, name, beside)
            return loaded
        return replace(loaded, remarks=loaded.remarks + shard_index.alone(name, beside))

    def load(self, path: str) -> Loaded:
        """Walk, open and scan it. Raises: Unloadable, OSError."""
        return self._load(path)[0]

    def _load(self, path: str) -> tuple[Loaded, Any]:
        """What was verified, and the tree. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import archive, objects, reading, stream_scan, weights

        with open(path, "rb") as f:
            head = f.read(16)
        if head and not archive.is_archive(head):
            raise _no_archive(path, head)
        data, entries = archive.open_archive(path)
        for entry in entries:
            if entry.name.endswith("data.pkl") and entry.bytes > PICKLE_LIMIT_BYTES:
                raise Unloadable(
                    "unsupported", f"its pickle has {entry.bytes} bytes, our limit is {PICKLE_LIMIT_BYTES}"
                )
        is_packed = any(entry.method for entry in entries)
        # torch.serialization.set_crc32_options(False) writes 0 everywhere; then there is nothing to compare.
        has_sums = any(entry.crc32 for entry in entries)
        is_large = is_packed and sum(entry.bytes for entry in entries) > _TORCH_LIMIT_BYTES
        if not is_large and not any(entry.name.endswith("/" + torch_zip.SUMS) for entry in entries):
            weights.expect()
        looked: list[stream_scan.Passing] = []

        def watch(tensors: tuple[tuple[str, Tensor], ...]) -> torch_zip.See:
            looked.append(stream_scan.Passing((objects.plain(name), tensor) for name, tensor in tensors))
            return looked[0].see

        with reading.of(path) as shared:
            found = torch_zip.walk(path, crc=has_sums, watch=watch, read=shared.pieces, loads=objects.loads)
        if found.problems:
            raise _refusal(found, data, has_sums)
        if any(entry.name.endswith("/constants.pkl") or "/code/" in entry.name for entry in entries):
            raise Unloadable("unsafe", "it cannot be judged safely: TorchScript, a program together with its weights")
        content = looked[0].settled()
        content.bad += scales_not_finite(found.tensors) + objects.check(found.tree)
        is_read = bool(found.remarks)  # PyTorch would not load it weights only: nothing of it was built
        by, is_loaded = ("", False) if is_read else _open(path, found.ours or is_large, is_packed)
        content.settle()
        facts: dict[str, Any] = content.describe((objects.plain(name), t.dtype, t.shape) for name, t in found.tensors)
        facts |= {"keys": top_keys(found.tree), "by": "sojourn" if is_read else by}
        if found.classes:
            facts["classes"] = [name[:200] for name in found.classes[:_KEYS]]
        if found.ours:
            facts["sojourn"] = finite(found.facts)
        remarks = found.remarks + content.remarks + odd_numbers(found.tree)
        if is_large:
            remarks += (
                "compressed, and too large to be unpacked in memory: loaded by sojourn's own reader, a piece at a time",
            )
        if not has_sums:
            remarks += ("written without checksums: a flipped bit can be detected only by its SHA-256",)
        if not is_loaded and not is_read:
            remarks += ("not loaded: PyTorch is not installed here; structure and content are proven without it",)
        proved = ("structure", "load", "content") if is_loaded else ("structure", "content")
        return Loaded(proved, facts, remarks), found.tree


def top_keys(tree: Any) -> list[str]:
    """The keys of the outermost map, in order, 256 at most."""
    return [str(key)[:200] for key in list(tree)[:_KEYS]] if isinstance(tree, dict) else []


def scales_not_finite(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    """Quantized tensors whose scale is not finite; per-channel scales are tensors themselves."""
    from sojourn.backends.proof import content

    return [f"{name[:80]}: its scale" for name, tensor in tensors if content.not_finite(tensor.quantizer)]


def odd_numbers(tree: Any) -> tuple[str, ...]:
    """A remark on plain numbers in the tree that are not finite: a best value may well start as infinity."""
    from sojourn.backends.proof import content

    bad = content.not_finite(tree)
    return (f"non-finite numbers in it: {', '.join(bad[:5])}",) if bad else ()


def _no_archive(path: str, head: bytes) -> Unloadable:
    from sojourn.backends.proof import pickles

    if torch_legacy.MAGIC.startswith(head) or b"PK\x03\x04".startswith(head):
        return Unloadable("truncated", "it ends inside its first few bytes")
    if head[:1] == b"\x80" or pickles.is_old(path, head):
        return Unloadable("unsafe", "a plain pickle: reading it could run code")
    return Unloadable("corrupt", "it does not start like a PyTorch file")


def _refusal(found: torch_zip.Structure, data: memoryview, has_sums: bool) -> Unloadable:
    """The one problem to name. A whole pickle that calls things is unsafe, whatever else is wrong."""
    problem, why = found.problems[0]
    is_intact = not has_sums or "bytes" in found.proved
    if found.unsafe and is_intact:
        names = ", ".join(found.unsafe[:5]) + (" ..." if len(found.unsafe) > 5 else "")
        return Unloadable("unsafe", f"it cannot be judged safely: loading it would call {names[:300]}")
    needs = _foreign(found, data) if problem == "corrupt" and is_intact else ""
    if needs:
        return Unloadable("unsafe", f"it cannot be judged safely: {needs}")
    if problem == "unparseable":
        return Unloadable("mismatch", why)
    return Unloadable(problem, why)


def _foreign(found: torch_zip.Structure, data: memoryview) -> str:
    """What its pickle, well formed in some protocol, needs beyond PyTorch's own reader of weights; "" if it is damaged.
    It is taken apart, not run.
    """
    from sojourn.backends.proof import pickles

    for entry in found.entries:
        if entry.name.endswith("/data.pkl") and not entry.method:
            raw = bytes(data[entry.offset :][: entry.bytes])
            taken = pickles.take_apart(raw)
            if taken.error:
                return ""
            names = [name.replace("__builtin__.", "builtins.") for name in taken.names]
            names = [name for name in names if name not in torch_unpickle.SAFE and name != "binpersid"]
            if names:
                return f"loading it would call {', '.join(names[:5])[:300]}"
            if raw[:1] == b"\x80" and raw[1] != 2:
                return f"its pickle is of protocol {raw[1]}, which PyTorch cannot read weights-only"
    return ""


def _open(path: str, is_own: bool, is_packed: bool) -> tuple[str, bool]:
    """(who loaded it, whether it was loaded)."""
    if is_own:
        return "sojourn", True  # as `walk` has done: the tree, every view, every byte
    by = load_weights(path, is_mapped=not is_packed)  # a compressed entry cannot be mapped
    return by, bool(by)


def load_weights(path: str, *, is_mapped: bool) -> str:
    """`weights.load`: PyTorch's name and version, "" if not installed. Raises: Unloadable if it refuses."""
    from sojourn.backends.proof import weights

    return weights.load(path, is_mapped)
