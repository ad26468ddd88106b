"""Verifies safetensors files: header arithmetic by our own walker, opened by the library, every value scanned.

A safetensors file has no checksum: only the sha256 shows a flipped bit that leaves all values finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import safetensors as walker
from sojourn.formats.damage import Unloadable

# The format's dtype -> PyTorch's name, which `content` knows; others are scanned as bytes.
_WORDS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "C64": "complex64",
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
}


class Backend(Loader):
    """Loads one safetensors file."""

    kind: ClassVar[str] = "safetensors"
    suffixes: ClassVar[tuple[str, ...]] = (".safetensors",)
    magic: ClassVar[tuple[bytes, ...]] = ()  # starts with a length
    among: ClassVar[str] = r"-\d{5,}-of-\d{5,}\."

    def owns(self, path: str, head: bytes) -> bool:
        """A plausible header length, then the brace of its JSON."""
        return len(head) > 9 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= 100_000_000

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """The same, for one of several shards, which must not be alone. Raises: Unloadable, OSError."""
        from sojourn.backends.loader import shard_index

        loaded = self.load(path)
        return replace(loaded, remarks=loaded.remarks + shard_index.alone(name, beside))

    def load(self, path: str) -> Loaded:
        """Walk, open and scan it. Raises: Unloadable, OSError."""
        header = walker.walk(path)
        by = _open(path, header)
        content = _scan(path, header)
        content.settle()
        tensors = [(t.name, _WORDS.get(t.dtype, t.dtype), t.shape) for t in header.tensors]
        facts = {**content.describe(tensors), "metadata": dict(list(header.metadata.items())[:16]), "by": by}
        return Loaded(("structure", "load", "content"), facts, content.remarks)


def _open(path: str, header: walker.Header) -> str:
    """Open it with the library, which must see the same as the walker; returns its name and version."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework="np") as f:
            for tensor in header.tensors:
                seen = f.get_slice(tensor.name)
                if tuple(seen.get_shape()) != tensor.shape or seen.get_dtype() != tensor.dtype:
                    raise Unloadable(
                        "corrupt", f"the library reads tensor {tensor.name[:80]} with a different shape or dtype"
                    )
            if len(f.keys()) != len(header.tensors):
                raise Unloadable("corrupt", "the library finds a different number of tensors")
    except safetensors.SafetensorError as error:
        raise Unloadable("corrupt", f"the safetensors library refuses it: {error}") from None
    return f"safetensors {safetensors.__version__}"


def _scan(path: str, header: walker.Header) -> Any:
    from sojourn.backends.proof import content, reading

    found = content.Content()
    with reading.of(path) as shared:
        for tensor in header.tensors:
            word = _WORDS.get(tensor.dtype, "uint8")
            found.add(tensor.name, content.scan(word, shared.pieces(tensor.begin, tensor.end - tensor.begin)))
    return found
