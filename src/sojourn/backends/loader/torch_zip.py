"""Proves PyTorch files (torch.save since 1.6): zip frame and every CRC, the pickle decoded without running it, every
value looked at; and loaded, weights only: by PyTorch where it is installed, by our own reader where our writer made it.

What `torch.load` alone accepts (a flipped bit, a hole, NaN: C19 of the training catalog) is refused before it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from sojourn.core.plain import finite
from sojourn.core.ports import Loaded
from sojourn.wire import torch_entries, torch_legacy, torch_unpickle, torch_zip
from sojourn.wire.damage import Unloadable
from sojourn.wire.torch_values import DTYPES, Damaged, Tensor

if TYPE_CHECKING:
    from sojourn.backends.client.content import Content, Scan

# A pickle describes tensors in some 200 bytes each; one larger than this is no description of weights.
PICKLE_LIMIT_BYTES = 64 << 20
_CALLS = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}  # ways to call that PyTorch never writes
_EXACT_BYTES = 256 << 20
_KEYS = 256


class Backend:
    """Loads one .pt, .pth or .ckpt file."""

    kind: ClassVar[str] = "torch_zip"
    suffixes: ClassVar[tuple[str, ...]] = (".pt", ".pth", ".ckpt", ".pt.tar", ".pth.tar", ".ckpt.tar")
    also: ClassVar[tuple[str, ...]] = (".zip", ".pkl", ".pickle")
    magic: ClassVar[tuple[bytes, ...]] = (b"PK\x03\x04",)
    among: ClassVar[str] = r"-\d{5,}-of-\d{5,}\."

    def owns(self, path: str, head: bytes) -> bool:
        """An archive that holds data.pkl."""
        from sojourn.backends.client import archive

        return any(name == "data.pkl" or name.endswith("/data.pkl") for name in archive.names(path))

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """The same, of one of several shards, which must not be alone. Raises: Unloadable, OSError."""
        from sojourn.backends.loader import shard_index

        loaded = self.load(path)
        return replace(loaded, remarks=loaded.remarks + shard_index.alone(name, beside))

    def load(self, path: str) -> Loaded:
        """Walk, open and scan it. Raises: Unloadable, OSError."""
        from sojourn.backends.client import archive

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
        # torch.serialization.set_crc32_options(False) writes 0 everywhere; then there is nothing to compare with.
        has_sums = any(entry.crc32 for entry in entries)
        found = torch_zip.walk(path, crc=has_sums)
        if found.problems:
            raise _refusal(found, data, has_sums)
        if any(entry.name.endswith("/constants.pkl") or "/code/" in entry.name for entry in entries):
            raise Unloadable("unsafe", "it cannot be judged safely: TorchScript, a program together with its weights")
        content = scan(found.tensors)
        by, is_loaded = _open(path, found.ours, is_packed)
        content.settle()
        facts: dict[str, Any] = content.describe((name, t.dtype, t.shape) for name, t in found.tensors)
        facts |= {"keys": top_keys(found.tree), "by": by}
        if found.ours:
            facts["sojourn"] = finite(found.facts)
        remarks = content.remarks + odd_numbers(found.tree)
        if not has_sums:
            remarks += ("written without checksums: a flipped bit can only be seen by its sha256",)
        if not is_loaded:
            remarks += ("not loaded: PyTorch is not installed here; structure and content are proven without it",)
        return Loaded(("structure", "load", "content") if is_loaded else ("structure", "content"), facts, remarks)


def top_keys(tree: Any) -> list[str]:
    """The keys of the outermost map, in order, 256 at most."""
    return [str(key)[:200] for key in list(tree)[:_KEYS]] if isinstance(tree, dict) else []


def odd_numbers(tree: Any) -> tuple[str, ...]:
    """A remark on plain numbers in the tree that are not finite: a best value may well begin as infinity."""
    from sojourn.backends.client import content

    bad = content.not_finite(tree)
    return (f"numbers in it that are not finite: {', '.join(bad[:5])}",) if bad else ()


def _no_archive(path: str, head: bytes) -> Unloadable:
    from sojourn.backends.client import pickles

    if torch_legacy.MAGIC.startswith(head) or b"PK\x03\x04".startswith(head):
        return Unloadable("truncated", "it ends inside its first few bytes")
    if head[:1] == b"\x80" or pickles.is_old(path, head):
        return Unloadable("unsafe", "a plain pickle: reading it would run what it says")
    return Unloadable("corrupt", "it does not begin as a PyTorch file does")


def _refusal(found: torch_zip.Structure, data: memoryview, has_sums: bool) -> Unloadable:
    """The one problem to name. A pickle that is whole and wants to call things is unsafe, whatever else is wrong."""
    problem, why = found.problems[0]
    is_intact = not has_sums or "bytes" in found.proved
    if found.unsafe and is_intact:
        names = ", ".join(found.unsafe[:5]) + (" ..." if len(found.unsafe) > 5 else "")
        return Unloadable("unsafe", f"it cannot be judged safely: loading it would call {names[:300]}")
    if problem == "corrupt" and is_intact and _calls(found, data):
        return Unloadable("unsafe", f"it cannot be judged safely: its pickle calls things ({why})")
    if problem == "unparseable":
        return Unloadable("mismatch", why)
    return Unloadable(problem, why)


def _calls(found: torch_zip.Structure, data: memoryview) -> bool:
    """Its pickle is well formed, in any protocol, and calls what weights do not need. It is taken apart, not run."""
    import pickletools

    for entry in found.entries:
        if entry.name.endswith("/data.pkl") and not entry.method:
            try:
                steps = [
                    (op.name, arg) for op, arg, _ in pickletools.genops(bytes(data[entry.offset :][: entry.bytes]))
                ]
            except ValueError:
                return False
            names = {
                str(arg).replace(" ", ".").replace("__builtin__", "builtins") for op, arg in steps if op == "GLOBAL"
            }
            return bool(names - torch_unpickle.SAFE) or any(op in _CALLS for op, _ in steps)
    return False


def _open(path: str, is_ours: bool, is_packed: bool) -> tuple[str, bool]:
    """(who loaded it, whether it was loaded)."""
    if is_ours:
        try:
            torch_zip.read(path, check=False)
        except Damaged as error:
            raise Unloadable(error.problem, str(error.fields["detail"])) from None
        return "sojourn", True
    by = load_weights(path, is_mapped=not is_packed)  # a compressed entry cannot be mapped
    return by, bool(by)


def load_weights(path: str, *, is_mapped: bool) -> str:
    """`weights.load`: PyTorch's name and version, "" where it is not installed. Raises: Unloadable where it refuses."""
    from sojourn.backends.client import weights

    return weights.load(path, is_mapped)


def scan(tensors: Iterable[tuple[str, Tensor]]) -> Content:
    """Look at every value some tensor shows; where several look into the same bytes, once, under the first name."""
    from sojourn.backends.client import content

    groups: dict[tuple[int, str], list[tuple[int, int, str, Tensor]]] = {}
    for name, tensor in tensors:
        if tensor.elements:
            end = tensor.offset + 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))
            groups.setdefault((id(tensor.storage), tensor.dtype), []).append((tensor.offset, end, name, tensor))
    found = content.Content()
    for (_, dtype), rows in groups.items():
        view, width = rows[0][3].storage.view(), DTYPES[dtype][0]
        rows.sort(key=lambda row: (row[0], row[1]))
        at = 0
        while at < len(rows):
            begin, end, name, _ = rows[at]
            members = [rows[at][3]]
            while at + 1 < len(rows) and rows[at + 1][0] < end:
                at += 1
                end = max(end, rows[at][1])
                members.append(rows[at][3])
            at += 1
            seen = content.scan(dtype, [view[begin * width : end * width]])
            if (seen.nan or seen.infinite) and not all(_is_dense(t) for t in members):
                seen = _exact(view, members, seen)
            torch_entries.release(view)
            found.add(name or "the tensor", seen)
    return found


def _is_dense(tensor: Tensor) -> bool:
    """It shows every element between its first and its last."""
    want = 1
    for stride, size in sorted(zip(tensor.stride, tensor.shape, strict=True)):
        if size > 1 and stride > want:
            return False
        want = max(want, stride * size)
    return True


def _exact(view: memoryview, members: list[Tensor], rough: Scan) -> Scan:
    """The scan of only what the tensors show; what lies between (another tensor's, or nobody's) does not count."""
    import numpy as np

    from sojourn.backends.client import content

    seen = rough
    for tensor in members:
        width = DTYPES[tensor.dtype][0]
        if tensor.elements * width > _EXACT_BYTES:
            return rough
        flat = np.frombuffer(view, dtype=f"V{width}", offset=tensor.offset * width)
        strides = [stride * width for stride in tensor.stride]
        shown = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)
        seen = content.scan(tensor.dtype, [np.ascontiguousarray(shown).tobytes()])
        if seen.nan or seen.infinite:
            break
    return seen
