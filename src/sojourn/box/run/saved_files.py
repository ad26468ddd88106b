"""What looks like a checkpoint in a working copy, and whether its bytes are all there. Nothing is loaded.

For scripts that know nothing of us: the names are those that PyTorch, Hugging Face, Lightning, Keras, DeepSpeed,
Megatron and plain loops write by default. A format that says its own length is held to it; any other is whole once it
is not empty.
"""

from __future__ import annotations

import os
import re
import struct

from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Dict, Iterator, List, NamedTuple, Sequence

    class Saved(NamedTuple):
        """One file or folder that looks like a checkpoint. `path` is relative; `mtime_ns` is of its newest file."""

        path: str
        is_folder: bool
        mtime_ns: int
        bytes: int

else:
    from collections import namedtuple

    Saved = namedtuple("Saved", "path is_folder mtime_ns bytes")

MOST_ENTRIES = 20_000  # of a larger working copy only so many are looked at
TORN = ".torn-"  # what a file is renamed to that is not whole: kept, and no longer taken for a checkpoint
_SURE = frozenset(".pt .pth .ckpt .safetensors .keras .pdparams .pdopt".split())
_MAYBE = frozenset(".bin .npz .npy .pkl .pickle .joblib .h5 .hdf5 .msgpack .params .tar .model .json".split())
_WORD = re.compile(r"ckpt|checkpoint|model|weight|state|snapshot|epoch|(?:^|[_-])(?:last|best|latest|step)", re.I)
_FOLDER = re.compile(r"(?:checkpoint|ckpt|global_step|epoch|step|iter)[-_=]?[0-9]+(?:[-_].*)?|.+\.ckpt", re.I)
_PASSED = frozenset("__pycache__ node_modules site-packages wandb mlruns".split())
_STARTS = (b"PK\x03\x04", b"\x93NUMPY", b"\x89HDF\r\n\x1a\n")
_HEADER_BYTES = 100 << 20  # safetensors allows no longer header


def find(top: str, below: Sequence[str] = ("",)) -> List[Saved]:
    """What looks like a checkpoint in `top`, in its files or folders `below`; newest first. Raises: nothing."""
    found: Dict[str, Saved] = {}
    left = [MOST_ENTRIES]
    for start in below:
        full = os.path.join(top, start)
        name = os.path.basename(start)
        if start and os.path.isfile(full) and _is_named(name):
            found[start] = _file(start, os.stat(full))
        elif start and _FOLDER.fullmatch(name) and _files(full):
            found[start] = _folder(start, full)
        elif os.path.isdir(full):
            found.update((one.path, one) for one in _walk(top, start, left))
    return sorted(found.values(), key=lambda one: (one.mtime_ns, _number(one.path)), reverse=True)


def is_whole(path: str) -> bool:
    """Whether the bytes of a checkpoint are all there, as far as its format says. Raises: nothing."""
    try:
        if os.path.isdir(path):
            return _is_folder_whole(path)
        return _is_file_whole(path)
    except (OSError, ValueError, struct.error, RecursionError):
        return False


def _walk(top: str, start: str, left: List[int]) -> Iterator[Saved]:
    waiting = [start]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(top, folder)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                return
            path = os.path.join(folder, entry.name)
            try:
                if entry.name.startswith(".") or entry.is_symlink():
                    continue
                if entry.is_dir():
                    if _FOLDER.fullmatch(entry.name) and _files(entry.path):
                        yield _folder(path, entry.path)
                    elif entry.name not in _PASSED and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                        waiting.append(path)
                elif entry.is_file() and _is_named(entry.name):
                    yield _file(path, entry.stat())
            except OSError:
                continue  # removed meanwhile


def _is_named(name: str) -> bool:
    stem, extension = os.path.splitext(name.lower())
    if extension == ".json":  # a model of XGBoost and the like, never a log or a configuration
        return bool(re.search(r"ckpt|checkpoint", stem))
    return extension in _SURE or (extension in _MAYBE and bool(_WORD.search(stem)))


def _file(path: str, found: os.stat_result) -> Saved:
    return Saved(path, False, found.st_mtime_ns, found.st_size)


def _folder(path: str, full: str) -> Saved:
    stats = [os.stat(one) for one in _files(full)]
    return Saved(path, True, max(one.st_mtime_ns for one in stats), sum(one.st_size for one in stats))


def _files(folder: str) -> List[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def _number(path: str) -> int:
    numbers = re.findall(r"[0-9]{1,18}", os.path.basename(path))
    return int(numbers[-1]) if numbers else 0


def _is_folder_whole(path: str) -> bool:
    """Every file of a known format is whole. The Trainer of Hugging Face writes trainer_state.json last."""
    files = _files(path)
    names = {os.path.basename(one) for one in files}
    if "training_args.bin" in names:
        with open(os.path.join(path, "trainer_state.json"), "rb") as f:
            lean_json.loads(f.read().decode("utf-8"))
    return bool(files) and all(_is_file_whole(one) for one in files if os.path.splitext(one)[1] in _SURE | _MAYBE)


def _is_file_whole(path: str) -> bool:
    size = os.stat(path).st_size
    if not size:
        return False
    with open(path, "rb") as f:
        head = f.read(64)
        if any(len(head) < len(start) and start.startswith(head) for start in _STARTS):
            return False
        if head[:4] == b"PK\x03\x04":
            return _is_zip_whole(path)
        if path.endswith(".safetensors"):
            return _is_safetensors_whole(f, head, size)
        if head[:6] == b"\x93NUMPY":
            return _is_npy_whole(f, size)
        if head[:8] == b"\x89HDF\r\n\x1a\n":
            return _is_hdf5_whole(head, size)
        if path.endswith(".json"):
            f.seek(0)
            lean_json.loads(f.read().decode("utf-8"))
            return True
        if path.endswith((".pkl", ".pickle")) and head[:1] == b"\x80":
            f.seek(-1, os.SEEK_END)
            return f.read(1) == b"."  # the opcode that ends every pickle
    return True


def _is_zip_whole(path: str) -> bool:
    """torch.save, np.savez and Keras: the directory stands at the end, and every member begins where it says."""
    import zipfile  # 1 MiB, and only where there is such a file

    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            with open(path, "rb") as f:
                for member in members:
                    f.seek(member.header_offset)
                    if f.read(4) != b"PK\x03\x04":
                        return False
            return bool(members)
    except (zipfile.BadZipFile, NotImplementedError, EOFError):
        return False


def _is_safetensors_whole(f: IO[bytes], head: bytes, size: int) -> bool:
    (length,) = struct.unpack("<Q", head[:8])
    if length > min(_HEADER_BYTES, size - 8):
        return False
    f.seek(8)
    header = lean_json.loads(f.read(length).decode("utf-8"))
    ends = [row["data_offsets"][1] for name, row in header.items() if name != "__metadata__"]
    return bool(8 + length + max(ends or [0]) == size)


def _is_npy_whole(f: IO[bytes], size: int) -> bool:
    import ast

    f.seek(6)
    major = f.read(2)[0]
    form = "<H" if major == 1 else "<I"
    (length,) = struct.unpack(form, f.read(struct.calcsize(form)))
    if length > size:
        return False
    header = ast.literal_eval(f.read(length).decode("latin-1"))
    kind = re.fullmatch(r"[<>|=]?[a-zA-Z]([0-9]+)", str(header["descr"]))
    if kind is None or "O" in str(header["descr"]):
        return True  # records and objects: not for us to size
    count = 1
    for side in header["shape"]:
        count *= side
    each = int(kind.group(1)) * (4 if "U" in str(header["descr"]) else 1)
    return bool(8 + struct.calcsize(form) + length + count * each <= size)


def _is_hdf5_whole(head: bytes, size: int) -> bool:
    """By the end-of-file address in the superblock (HDF5 file format specification 3.0, II.A)."""
    version = head[8]
    if version < 2:
        wide = head[13]
        base, at = 24 + (4 if version == 1 else 0), 2
    elif version < 4:
        wide, base, at = head[9], 12, 2
    else:
        return True
    if wide != 8:
        return True
    (end,) = struct.unpack("<Q", head[base + at * 8 : base + at * 8 + 8])
    return bool(end <= size)
