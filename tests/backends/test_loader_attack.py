"""Files made to get through: every one in one folder, judged together, each named by the word that it deserves.

The loaders' own tests damage good files; these are built to be taken for good ones, or to do harm when they are read.
"""

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from sojourn.verbs.retrieve.verify import verify
from tests.backends import samples

BAD: dict[str, tuple[Callable[[Path], bytes | None], str]] = {}  # name: (what writes or returns it, words it may get)
GOOD: dict[str, Callable[[Path], bytes | None]] = {}


def bad(name: str, words: str, write: Callable[[Path], bytes | None]) -> None:
    BAD[name] = (write, words)


def tensors_header(entries: Any, data: bytes = b"") -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: Any, begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def array(shape: str, data: bytes = b"", *, descr: str = "<f4", version: int = 1, more: str = "") -> bytes:
    text = f"{{'descr':'{descr}','fortran_order':False,'shape':{shape}{more}}}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def saved(write: Callable[[io.BytesIO], Any]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def packed(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members:
            z.writestr(name, data)
    return out.getvalue()


def taped(*members: tuple[str, bytes, dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data, more in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in more.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def drawn(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def table(values: list[Any]) -> bytes:
    return saved(lambda out: pq.write_table(pa.table({"a": values}), out))


ONE = b"\0\0\x80?"  # 1.0
WEIGHTS = saved(lambda out: np.savez(out, a=np.arange(5.0)))
TENSORS = safetensors.numpy.save({"a": np.arange(99.0)})
TABLE = table([1.0, 2.0])
TAR = taped(("a", b"hi", {}))

# Arithmetic that overflows, sizes that cannot be, one thing said twice.
for name, header in {
    "product": ({"a": entry([2**62, 4], 0, 16)}, bytes(16)),
    "product to zero": ({"a": entry([2**32, 2**32], 0, 0)}, b""),
    "negative shape": ({"a": entry([-1, -4], 0, 16)}, ONE * 4),
    "negative offset": ({"a": entry([4], -16, 0)}, ONE * 4),
    "overlap": ({"a": entry([4], 0, 16), "b": entry([4], 0, 16)}, ONE * 4),
    "hole": ({"a": entry([1], 4, 8)}, ONE * 2),
    "no such type": ({"a": entry([1], 0, 4, "F33")}, ONE),
    "a float": (b'{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}', ONE),
    "a bool": (b'{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}', ONE),
    "twice": (
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        ONE,
    ),
    "deep": (b'{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}", b""),
    "not text": (b'{"\xff":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', ONE),
    "metadata": ({"__metadata__": {"format": 1}}, b""),
}.items():
    bad(f"{name}.safetensors", "corrupt", lambda p, header=header: tensors_header(*header))
bad("huge header.safetensors", "corrupt", lambda p: struct.pack("<Q", 2**63) + b"{}")
bad("behind.safetensors", "corrupt", lambda p: TENSORS + b"x")
bad("nan bf16.safetensors", "non-finite", lambda p: tensors_header({"a": entry([2], 0, 4, "BF16")}, b"\x80?\xc0\x7f"))
bad("nan f8.safetensors", "non-finite", lambda p: tensors_header({"a": entry([2], 0, 2, "F8_E4M3")}, b"\x38\x7f"))
for name, text in {
    "product": array("(4611686018427387904,4)", bytes(16)),
    "none of many": array("(0,9223372036854775807)"),
    "negative": array("(-4,)", bytes(16)),
    "expression": array("(__import__('os').getpid(),)", ONE),
    "a bool": array("(True,)", ONE),
    "behind": array("(1,)", ONE + b"\0"),
    "another field": array("(1,)", ONE, more=",'x':1"),
    "version": array("(1,)", ONE, version=4),
    "deep": array("(1,)", b"\0", descr="x'+" + "[" * 3000 + "]" * 3000 + "+'"),
}.items():
    bad(f"{name}.npy", "corrupt truncated unsupported", lambda p, text=text: text)
bad("objects.npy", "unsafe", lambda p: array("(1,)", pickle.dumps([1]), descr="|O"))
bad("nan f2.npy", "non-finite", lambda p: saved(lambda out: np.save(out, np.array([1, np.nan], dtype="f2"))))
bad("nan c8.npy", "non-finite", lambda p: saved(lambda out: np.save(out, np.array([complex(0, np.nan)], dtype="c8"))))
bad("inf big endian.npy", "non-finite", lambda p: saved(lambda out: np.save(out, np.array([1, np.inf], dtype=">f8"))))

# Pickles in every dress. The canary is looked for at the end.
for protocol in range(6):
    for suffix in (".pkl", ".pickle", ".joblib", ".pt", ".ckpt", ".bin", ".pth"):
        bad(f"p{protocol}{suffix}", "unsafe", lambda p, n=protocol: pickle.dumps([samples.Bomb(p / "canary")], n))
bad("behind.pkl", "corrupt", lambda p: pickle.dumps([1, 2]) + b"more")
bad("cut.pkl", "truncated", lambda p: pickle.dumps(["a text of some length"] * 9)[:-9])
bad("persistent.pkl", "unsafe", lambda p: b"Pwhatever\n.")
bad("extension.pkl", "unsafe", lambda p: b"\x80\x02\x82\x01.")
for name, members in {
    "behind": [("archive/data.pkl", pickle.dumps({}, 2)), ("archive/constants.pkl", pickle.dumps((), 2))],
    "program": [("archive/data.pkl", pickle.dumps({}, 2)), ("archive/code/__torch__.py", b"class A: pass")],
}.items():
    bad(f"{name} script.pt", "unsafe corrupt", lambda p, members=members: packed(*members, ("archive/version", b"3\n")))

# Archives: lies about what they hold, ways out of their folder, things behind their end.
bad("behind.npz", "corrupt", lambda p: WEIGHTS + b"xx")
bad("before.npz", "corrupt", lambda p: b"xx" + WEIGHTS)
bad("no array.npz", "corrupt", lambda p: packed(("a.npy", b"not an array")))
bad("lone directory.zip", "corrupt truncated", lambda p: packed(("a", b"x"))[33:])
bad("behind.gz", "corrupt", lambda p: gzip.compress(b"words") + b"more")
bad("behind.tar", "corrupt", lambda p: TAR + b"junk" * 200)
bad("absurd.tar", "truncated", lambda p: _absurd())
for name, more in {
    "link out": {"type": tarfile.SYMTYPE, "linkname": "../x"},
    "far link": {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    "hard link out": {"type": tarfile.LNKTYPE, "linkname": "../x"},
    "device": {"type": tarfile.CHRTYPE},
    "pipe": {"type": tarfile.FIFOTYPE},
}.items():
    bad(f"{name}.tar", "escapes-root", lambda p, more=more: taped(("a", b"", more)))
bad("up.tar", "escapes-root", lambda p: taped(("a/../../b", b"hi", {})))
bad("up.zip", "escapes-root", lambda p: packed(("a/../../b", b"hi")))
bad("behind.parquet", "truncated corrupt", lambda p: TABLE + b"x")
bad("footer.parquet", "corrupt", lambda p: TABLE[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")
bad("no footer.parquet", "corrupt", lambda p: TABLE[:-8] + struct.pack("<I", 0) + b"PAR1")
bad("only magic.parquet", "truncated corrupt", lambda p: b"PAR1PAR1")
bad("nan.parquet", "non-finite", lambda p: table([1.0, float("nan")]))
bad(
    "nothing wide.png",
    "corrupt",
    lambda p: drawn((b"IHDR", struct.pack(">IIBBBBB", 0, 0, 8, 2, 0, 0, 0)), (b"IEND", b"")),
)
bad("too wide.png", "unsafe corrupt truncated", lambda p: _wide())
for name, raw in {
    "doubled end.json": b'{"a":1}{"b":2}',
    "control.json": b'{"a":"\x01"}',
    "deep.json": b"[" * 90_000 + b"]" * 90_000,
    "comment.json": b'{"a":1 /*x*/}',
    "quotes.json": b"{'a':1}",
    "zero.json": b"[01]",
    "wide.json": '{"a":1}'.encode("utf-16"),
    "zeros.json": b'{"a":1}\0\0\0',
    "ragged.csv": b"a,b\n1,2\n3\n4,5\n",
    "latin.csv": "a,b\né,1\n".encode("latin-1"),
    "wide.csv": "a,b\n1,2\n".encode("utf-16")[2:],
    "two.jsonl": b'{"a":1}{"a":2}\n',
}.items():
    bad(name, "unparseable corrupt", lambda p, raw=raw: raw)
for name, raw in {
    "nan.json": b"[NaN]",
    "inf.json": b"[1e400]",
    "inf.csv": b"a,b\n1,inf\n2,3\n",
    "nan.jsonl": b"[NaN]\n",
}.items():
    bad(name, "non-finite", lambda p, raw=raw: raw)
bad("long number.jsonl", "non-finite", lambda p: b"[" + b"9" * 400 + b".0]\n")

# What stands in for an artifact.
SUFFIXES = [
    ".pt",
    ".safetensors",
    ".npy",
    ".npz",
    ".parquet",
    ".json",
    ".csv",
    ".sqlite",
    ".png",
    ".jpg",
    ".tar",
    ".gz",
]
SUFFIXES += [".tfrecord", ".zip", ".bin", ".onnx", ".h5"]
for suffix in SUFFIXES:
    bad(f"page{suffix}", "mismatch", lambda p: b"<!DOCTYPE html><html><body>Sign in")
    bad(f"pointer{suffix}", "mismatch", lambda p: b"version https://git-lfs.github.com/spec/v1\nsize 4\n")
    bad(f"empty{suffix}", "empty", lambda p: b"")
    bad(f"zeros{suffix}", "corrupt", lambda p: bytes(4096))
bad("far.json", "escapes-root", lambda p: os.symlink("/etc/passwd", p / "far.json"))
bad("device.pt", "escapes-root", lambda p: os.symlink("/dev/zero", p / "device.pt"))
bad("nowhere.pt", "missing", lambda p: os.symlink("nothing", p / "nowhere.pt"))
bad("circle.pt", "missing", lambda p: os.symlink("circle.pt", p / "circle.pt"))
bad("pipe.pt", "escapes-root", lambda p: os.mkfifo(p / "pipe.pt"))
bad("sparse.safetensors", "corrupt", lambda p: _sparse(p / "sparse.safetensors"))

GOOD.update(
    {
        "padded.safetensors": lambda p: tensors_header(json.dumps({"a": entry([1], 0, 4)}).encode() + b" " * 30, ONE),
        "metadata only.safetensors": lambda p: tensors_header({"__metadata__": {"format": "pt"}}),
        "v3.npy": lambda p: array("(1,)", ONE, version=3),
        "nat.npy": lambda p: saved(lambda out: np.save(out, np.array(["NaT", "2020-01-01"], dtype="M8[s]"))),
        "commented.zip": lambda p: saved(_commented),
        "nested.zip": lambda p: packed(("a.zip", packed(("b", b"hi"))), ("d/e", b"x")),
        "dots.tar": lambda p: taped(("./a", b"hi", {}), (".", b"", {"type": tarfile.DIRTYPE})),
        "inner link.tar": lambda p: taped(("a", b"hi", {}), ("b", b"", {"type": tarfile.SYMTYPE, "linkname": "a"})),
        "nulls.parquet": lambda p: table([None, None]),
        "doubled.json": lambda p: b'{"a":1,"a":2}',
        "marked.json": lambda p: b'\xef\xbb\xbf{"a":1}',
        "long number.json": lambda p: b"[" + b"9" * 5000 + b"]",
        "crlf.csv": lambda p: b"a,b\r\n1,2\r\n3,4\r\n",
        "two lines.csv": lambda p: b'a,b\n"x\ny",2\n3,4\n',
        "header.csv": lambda p: b"a,b\n",
        "words.csv": lambda p: b"a,b\nnan,x\nnothing,inf\n",
        "information.csv": lambda p: b"name,loss\n" + b"information,0.5\nfinance,1e-300\n" * 999,
        "quoted number.jsonl": lambda p: b'{"id": "' + b"1" * 400 + b'", "hex": "3e999"}\n',
        "plain.pkl": lambda p: pickle.dumps({"a": [1, 2.5, ("x", {3})], "b": b"bytes"}, 0),
        "new.pickle": lambda p: pickle.dumps({"a": frozenset({1}), "n": None, "big": 1 << 99}, 5),
        "beside.npz": lambda p: WEIGHTS,
        "alias.npz": lambda p: os.symlink("beside.npz", p / "alias.npz"),
        "notes.txt": lambda p: b"config\nfoo\nN.",
        "report.html": lambda p: b"<!DOCTYPE html><html>",
    }
)


def _absurd() -> bytes:
    info = tarfile.TarInfo("a")
    info.size = 2**60
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def _wide() -> bytes:
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return drawn((b"IHDR", header), (b"IDAT", zlib.compress(bytes(1 << 20))), (b"IEND", b""))


def _commented(out: io.BytesIO) -> None:
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a", b"hi")
        z.comment = b"a comment"


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 64 << 20)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Everything above in one folder, and what one `verify` said of each."""
    folder = tmp_path_factory.mktemp("attack")
    root = folder / "root"
    root.mkdir()
    for name, write in {**{name: write for name, (write, _) in BAD.items()}, **GOOD}.items():
        data = write(root)
        if data is not None:
            (root / name).write_bytes(data)
    return root, {artifact.path: artifact for artifact in verify([str(root)], fresh=True).artifacts}


def test_there_are_more_than_the_issue_asks_for() -> None:
    assert len(BAD) >= 120 and len(GOOD) >= 20


def test_everything_is_judged(judged: tuple[Path, dict[str, Any]]) -> None:
    assert set(judged[1]) == {*BAD, *GOOD}


def test_nothing_bad_passes_and_each_gets_its_word(judged: tuple[Path, dict[str, Any]]) -> None:
    found = {name: judged[1][name].problem for name in BAD}
    assert {name: word for name, word in found.items() if word not in BAD[name][1].split()} == {}


def test_nothing_good_is_refused(judged: tuple[Path, dict[str, Any]]) -> None:
    found = {name: (judged[1][name].problem, judged[1][name].detail) for name in GOOD}
    assert {name: word for name, word in found.items() if word[0]} == {}


def test_nothing_in_them_ran(judged: tuple[Path, dict[str, Any]]) -> None:
    assert not (judged[0] / "canary").exists()
