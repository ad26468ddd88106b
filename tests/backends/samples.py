"""Good files of every format, written by the libraries that people use; and hostile ones."""

import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from sojourn.testing.contracts.loader import Sample


def numbers(nan: bool = False) -> dict[str, Any]:
    chance = np.random.default_rng(5)
    found = {
        "weight": chance.standard_normal((64, 200)).astype(np.float32),
        "bias": chance.standard_normal(200),
        "steps": np.arange(7, dtype=np.int64),
    }
    if nan:
        found["weight"][3, 5] = np.nan
    return found


def write_npy(path: str, nan: bool = False) -> None:
    np.save(path, numbers(nan)["weight"])


def write_npz(path: str, nan: bool = False) -> None:
    np.savez(path, **numbers(nan))


def write_packed_npz(path: str, nan: bool = False) -> None:
    np.savez_compressed(path, **numbers(nan))


def write_safetensors(path: str, nan: bool = False) -> None:
    safetensors.numpy.save_file(numbers(nan), path, {"format": "np"})


def write_json(path: str, nan: bool = False) -> None:
    rows = [{"epoch": n, "loss": 1 / (n + 1), "name": f"é {n}"} for n in range(900)]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"history": rows, "best": float("nan") if nan else 0.5, "ok": True, "none": None}, f)


def write_torch(path: str, nan: bool = False) -> None:
    import torch

    tensors = {key: torch.from_numpy(value) for key, value in numbers(nan).items()}
    tensors["half"] = torch.randn(33, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    torch.save({"model": tensors, "step": 12, "rng": torch.get_rng_state()}, path)


def zip_payload(good: bytes) -> list[tuple[int, int]]:
    """Where the bytes of the entries lie: all that a CRC stands for."""
    found = []
    with zipfile.ZipFile(io.BytesIO(good)) as z:
        for info in z.infolist():
            name_bytes, extra_bytes = struct.unpack_from("<2H", good, info.header_offset + 26)
            begin = info.header_offset + 30 + name_bytes + extra_bytes
            found.append((begin, begin + info.compress_size))
    return found


def write_pickle(path: str, nan: bool = False) -> None:
    history = [{"epoch": n, "loss": float("nan") if nan and n == 7 else 1 / (n + 1)} for n in range(900)]
    with open(path, "wb") as f:
        pickle.dump({"history": history, "best": (7, {"a", "b"}), "name": "é"}, f, protocol=4)


def _nan(write: Any) -> Any:
    return lambda path: write(path, nan=True)


LINES_AND_YAML = (".jsonl", ".ndjson", ".yaml", ".yml")
SAMPLES = {
    "npy": Sample("npy", ".npy", write_npy, _nan(write_npy)),
    "npz": Sample("npz", ".npz", write_npz, _nan(write_npz), payload=zip_payload),
    "packed npz": Sample("npz", ".npz", write_packed_npz, _nan(write_packed_npz), payload=zip_payload),
    "safetensors": Sample("safetensors", ".safetensors", write_safetensors, _nan(write_safetensors)),
    # A document on one line is a file of one JSON line, and every JSON document is one of YAML.
    "json": Sample("json", ".json", write_json, _nan(write_json), is_plain=True, reads_as=frozenset(LINES_AND_YAML)),
    "pickle": Sample("pickle", ".pkl", write_pickle, _nan(write_pickle), is_plain=True),
    "torch_zip": Sample("torch_zip", ".pt", write_torch, _nan(write_torch), payload=zip_payload, needs="torch"),
}


class Bomb:
    """Makes the file `canary` when it is unpickled by an ordinary reader."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.canary}",)


class QuietBomb:
    """The same through eval, set as state."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return eval, (f"open({str(self.canary)!r}, 'w').close()",)


def hostile_pickles(canary: Path) -> dict[str, bytes]:
    """Pickles that make `canary`, in the shapes that scanners have been seen to miss."""
    path = str(canary).encode()
    found = {f"reduce, protocol {n}": pickle.dumps({"a": [1, Bomb(canary)]}, protocol=n) for n in (0, 1, 2, 4, 5)}
    found["eval"] = pickle.dumps(QuietBomb(canary), protocol=2)
    # INST and OBJ call without REDUCE; the last stands behind a whole harmless pickle, cut off before its end.
    found["inst"] = b"(S'touch " + path + b"'\nios\nsystem\n."
    found["obj"] = b"(cos\nsystem\nS'touch " + path + b"'\no."
    found["broken after"] = b"\x80\x02cos\nsystem\nq\x00X" + len(b"touch " + path).to_bytes(4, "little")
    found["broken after"] += b"touch " + path + b"q\x01\x85q\x02Rq\x03\xff"
    return found


def torch_zip_of(path: str, pickled: bytes, **entries: bytes) -> None:
    """A zip as torch.save writes it, around any pickle."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        z.writestr("archive/data.pkl", pickled)
        z.writestr("archive/byteorder", b"little")
        for name, data in entries.items():
            z.writestr(f"archive/data/{name}", data)
        z.writestr("archive/version", b"3\n")
