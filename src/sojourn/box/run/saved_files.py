"""What looks like a checkpoint in a working copy, and whether it is complete. Nothing is loaded.

For scripts unaware of us: the names are the defaults of PyTorch, Hugging Face, Lightning, Keras, DeepSpeed, Megatron
and plain loops. A format that states its length is checked against it; any other is complete if not empty.

Also what killed saves leave: `.saving-*` folders of `protect: saves`, and torn files that the keeper set aside. They
are nobody's results, so never an output.
"""

from __future__ import annotations

import errno
import os
import re
import struct

from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Dict, Iterator, List, NamedTuple, Sequence, Set

    class Saved(NamedTuple):
        """One file or folder that looks like a checkpoint. `path` is relative; `mtime_ns` is its newest file's; `inode`
        is 0 for a folder.
        """

        path: str
        is_folder: bool
        mtime_ns: int
        bytes: int
        inode: int

else:
    from collections import namedtuple

    Saved = namedtuple("Saved", "path is_folder mtime_ns bytes inode")

MOST_ENTRIES = 20_000  # a larger working copy is searched only this far
TORN = ".torn-"  # prefix for incomplete files: kept, and no longer taken for a checkpoint
# The hook's (train/hook/sitecustomize.py): token, pid, start, machine, random. Any other `.saving-*` is the user's.
_SAVING = re.compile(r"\.saving-[0-9]+-[0-9]+-[0-9]+-[0-9a-f]{8}-[0-9a-f]{8}")
_SURE = frozenset(".pt .pth .ckpt .safetensors .keras .pdparams .pdopt".split())
_MAYBE = frozenset(".bin .npz .npy .pkl .pickle .joblib .h5 .hdf5 .msgpack .params .tar .model .json".split())
_WORD = re.compile(r"ckpt|checkpoint|model|weight|state|snapshot|epoch|(?:^|[_-])(?:last|best|latest|step)", re.I)
_FOLDER = re.compile(r"(?:checkpoint|ckpt|global_step|epoch|step|iter)[-_=]?[0-9]+(?:[-_].*)?|.+\.ckpt", re.I)
_PASSED = frozenset("__pycache__ node_modules site-packages wandb mlruns".split())
_STARTS = (b"PK\x03\x04", b"\x93NUMPY", b"\x89HDF\r\n\x1a\n")
_HEADER_BYTES = 100 << 20  # the longest header that safetensors allows


def find(top: str, below: Sequence[str] = ("",), unseen: Dict[str, str] | None = None, most: int = 0) -> List[Saved]:
    """What looks like a checkpoint in `top`, in its files or folders `below`; newest first. `unseen` gets the folders
    that cannot be looked into, with the reason. Of more entries than `most` the rest is not searched. Raises: nothing.
    """
    found: Dict[str, Saved] = {}
    unseen = {} if unseen is None else unseen
    left = [most or MOST_ENTRIES]
    for start in below:
        full = os.path.join(top, start)
        name = os.path.basename(start)
        if start and os.path.isfile(full) and is_named(name):
            found[start] = _file(start, os.stat(full))
        elif start and _FOLDER.fullmatch(name) and _files(full):
            found[start] = _folder(start, full)
        elif os.path.isdir(full):
            found.update((one.path, one) for one in _walk(top, start, left, unseen))
    return sorted(found.values(), key=lambda one: (one.mtime_ns, _number(one.path)), reverse=True)


def is_whole(path: str) -> bool:
    """Whether a checkpoint is complete, as far as its format shows. Raises: nothing."""
    try:
        if os.path.isdir(path):
            return _is_folder_whole(path)
        return _is_file_whole(path)
    except (OSError, ValueError, struct.error, RecursionError):
        return False


def is_named(path: str) -> bool:
    """Whether a file has a checkpoint's name."""
    name = os.path.basename(path)
    stem, extension = os.path.splitext(name.lower())
    if extension == ".json":  # a model of XGBoost and the like, never a log or a configuration
        return bool(re.search(r"ckpt|checkpoint", stem))
    return extension in _SURE or (extension in _MAYBE and bool(_WORD.search(stem)))


def is_left(folder: str, path: str) -> bool:
    """Whether the file `path` in `folder` is half a save: unfinished, or a `.torn-*` that is not whole."""
    if os.path.basename(path).startswith(TORN):
        return not is_whole(os.path.join(folder, path))
    return is_unfinished(path)


def is_unfinished(path: str) -> bool:
    """Whether a path is the hook's folder of an unfinished save, or in one."""
    return ".saving-" in path and any(_SAVING.fullmatch(part) for part in path.split("/"))


def remove_unfinished(top: str) -> None:
    """Remove every unfinished save in `top`, where no process may be saving any more. Links are not followed.
    Raises: nothing; what cannot be removed stays, and is no output either.
    """
    for at, folders, _ in os.walk(top):
        for folder in [os.path.join(at, name) for name in folders if _SAVING.fullmatch(name)]:
            folders.remove(os.path.basename(folder))
            try:
                for name in () if os.path.islink(folder) else os.listdir(folder):
                    os.unlink(os.path.join(folder, name))
                os.rmdir(folder)
            except OSError:
                continue


def states_its_end(path: str) -> bool:
    """Whether its format states its end, at the end or the start: then `is_whole` is true only once its writer is done.
    For any other, only time can tell. Raises: nothing.
    """
    try:
        with open(path, "rb") as f:
            head = f.read(8)
    except OSError:
        return False
    return head[:4] == b"PK\x03\x04" or head[:6] == b"\x93NUMPY" or path.endswith((".safetensors", ".json"))


def _walk(top: str, start: str, left: List[int], unseen: Dict[str, str]) -> Iterator[Saved]:
    waiting = [start]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(top, folder)), key=lambda entry: entry.name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                unseen[folder] = error.strerror or str(error)
            continue
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                unseen[folder] = "it has too many entries"
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
                elif entry.is_file() and is_named(entry.name):
                    yield _file(path, entry.stat())
            except OSError:
                continue  # removed meanwhile


def _file(path: str, found: os.stat_result) -> Saved:
    return Saved(path, False, found.st_mtime_ns, found.st_size, found.st_ino)


def _folder(path: str, full: str) -> Saved:
    stats = [os.stat(one) for one in _files(full)]
    return Saved(path, True, max(one.st_mtime_ns for one in stats), sum(one.st_size for one in stats), 0)


def _files(folder: str) -> List[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def _number(path: str) -> int:
    numbers = re.findall(r"[0-9]{1,18}", os.path.basename(path))
    return int(numbers[-1]) if numbers else 0


def _is_folder_whole(path: str) -> bool:
    """Every file of a known format is complete, and none from the previous folder is missing. Hugging Face's Trainer
    starts with config.json and writes trainer_state.json last.
    """
    files = _files(path)
    names = {os.path.basename(one) for one in files}
    if "training_args.bin" in names:
        with open(os.path.join(path, "trainer_state.json"), "rb") as f:
            lean_json.loads(f.read().decode("utf-8"))
    saved = [one for one in files if _extension(one) in _SURE | _MAYBE]
    if not saved or not _kinds(saved, path) >= _kinds_before(path):
        return False
    is_begun = all(one.endswith(".json") for one in saved) and "config.json" in names
    return not is_begun and all(map(_is_file_whole, saved))


def _kinds_before(path: str) -> Set[str]:
    """The content of the previous folder, whose name differs only in a number."""
    top, name = os.path.split(path)
    mine = os.stat(path).st_mtime_ns
    like = [os.path.join(top, other) for other in os.listdir(top) if other != name and _kind(other) == _kind(name)]
    older = [(os.stat(one).st_mtime_ns, one) for one in like if os.path.isdir(one)]
    before = max([one for one in older if one[0] < mine], default=None)
    return _kinds(_files(before[1]), before[1]) if before is not None else set()


def _kinds(files: Sequence[str], folder: str) -> Set[str]:
    """The names below a folder of files that hold state, each number as 0."""
    held = [one for one in files if _extension(one) in _SURE | _MAYBE and not one.endswith(".json")]
    return {_kind(os.path.relpath(one, folder)) for one in held}


def _kind(name: str) -> str:
    return re.sub(r"[0-9]+", "0", name)


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()


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
    """torch.save, np.savez and Keras: the directory is at the end, and every member starts where it says."""
    import zipfile  # 1 MiB, and needed only for such a file

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
        return True  # records and objects: of unknown size
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
