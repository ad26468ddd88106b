"""No good file is refused: every way in which the real libraries write a format, one file each."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from PIL import Image

from sojourn.backends.proof.judge import judge_file
from tests.backends import more_samples

GOOD: dict[str, Callable[[Path], Any]] = {}


def good(name: str) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    def keep(write: Callable[[Path], Any]) -> Callable[[Path], Any]:
        GOOD[name] = write
        return write

    return keep


def each(pattern: str, values: Any, write: Callable[[Path, Any], Any]) -> None:
    for value in values:
        GOOD[pattern.format(str(value).replace("/", "_"))] = lambda path, value=value: write(path, value)


def made(dtype: str) -> Any:
    return np.arange(1, 25).reshape(4, 6).astype(dtype)


each(
    "{}.npy",
    ["f2", "f4", "f8", "i1", "u2", "i8", "?", "c8", "c16", ">f4", "S3", "U4", "M8[s]", "g"],
    lambda p, d: np.save(p, made(d)),
)
GOOD["fortran.npy"] = lambda p: np.save(p, np.asfortranarray(made("f4")))
GOOD["scalar.npy"] = lambda p: np.save(p, np.float64(3.5))
GOOD["none.npy"] = lambda p: np.save(p, np.zeros((0, 5)))
GOOD["record.npy"] = lambda p: np.save(p, np.zeros(3, dtype=[("a", "i4"), ("b", "f8", (2,))]))
GOOD["none.npz"] = lambda p: np.savez(p, empty=np.zeros((0, 3)), zero=np.float32(0))
DTYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]
each("{}.safetensors", DTYPES, lambda p, d: safetensors.numpy.save_file({"a": made(d), "none": made(d)[:0]}, p))
GOOD["none.safetensors"] = lambda p: safetensors.numpy.save_file({}, p)

TABLE = {"a": [1.5, None, 2.5], "b": ["x", "y", None], "c": [[1], [], None], "d": [True, False, None]}
each(
    "{}.parquet",
    ["none", "snappy", "gzip", "zstd", "brotli", "lz4"],
    lambda p, c: pq.write_table(pa.table(TABLE), p, compression=c),
)
GOOD["v2.parquet"] = lambda p: pq.write_table(pa.table(TABLE), p, data_page_version="2.0", write_page_index=True)
GOOD["dictionary.parquet"] = lambda p: pq.write_table(pa.table({"a": pa.array(["x", "y"] * 99).dictionary_encode()}), p)
GOOD["struct.parquet"] = lambda p: pq.write_table(pa.table({"a": [{"x": 1.0, "y": [2.0]}, None]}), p)
GOOD["rows.parquet"] = lambda p: pq.write_table(pa.table({"a": np.arange(1000.0)}), p, row_group_size=64)
GOOD["none.parquet"] = lambda p: pq.write_table(pa.table({"a": pa.array([], pa.float32())}), p)
GOOD["half.pq"] = lambda p: pq.write_table(pa.table({"a": np.arange(9, dtype=np.float16)}), p)

GOOD["map.parquet"] = lambda p: pq.write_table(
    pa.table({"a": pa.array([[("k", 1.5)], [], None], pa.map_(pa.string(), pa.float64()))}), p
)
GOOD["tensor.parquet"] = lambda p: pq.write_table(
    pa.table(
        {
            "t": pa.ExtensionArray.from_storage(
                pa.fixed_shape_tensor(pa.float32(), (2,)), pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
            )
        }
    ),
    p,
)
GOOD["no rows.parquet"] = lambda p: pq.write_table(pa.table(TABLE).slice(0, 0), p)
GOOD["no columns.parquet"] = lambda p: pq.write_table(pa.table({}), p)

each("{}.png", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"], lambda p, m: picture(m).save(p))
GOOD["several.jpg"] = lambda p: picture("RGB").save(p, "MPO", save_all=True, append_images=[picture("RGB")])
GOOD["text.png"] = lambda p: picture("RGB").save(p, dpi=(72, 72), optimize=True)
each("{}.jpg", ["L", "RGB", "CMYK"], lambda p, m: picture(m).save(p))
GOOD["progressive.jpg"] = lambda p: picture("RGB").save(p, progressive=True, quality=40)
GOOD["optimized.jpeg"] = lambda p: Image.new("RGB", (300, 300), "white").save(p, optimize=True)
GOOD["restarts.jpg"] = lambda p: picture("RGB").save(p, restart_marker_rows=1, comment="a comment", dpi=(72, 72))


def picture(mode: str) -> Any:
    if mode == "I;16":
        return Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30))
    return more_samples.picture().resize((33, 21)).convert(mode)


@good("apng.png")
def _(path: Path) -> None:
    picture("RGB").save(path, save_all=True, append_images=[picture("L").convert("RGB")])


@good("interlaced.png")
def _(path: Path) -> None:
    """Pillow writes none: the seven passes of a 9 x 5 grey image, by hand."""
    import zlib

    rows = b""
    for x, y, dx, dy in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        for _row in range(y, 5, dy):
            rows += b"\0" + bytes(len(range(x, 9, dx))) if len(range(x, 9, dx)) else b""
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", 9, 5, 8, 0, 0, 0, 1)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ):
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(out)
    Image.open(path).load()


def tree(path: Path, form: int) -> None:
    with tarfile.open(path, "w", format=form) as tar:
        folder = tarfile.TarInfo("a/")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name in ("a/b.txt", "a/" + "x" * 90, "a/" + "y" * 40 + "/" + "z" * 70):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 700, 12
            tar.addfile(info, io.BytesIO(b"1" * 700))
        for kind, target in ((tarfile.SYMTYPE, "../a/b.txt"), (tarfile.LNKTYPE, "a/b.txt")):
            link = tarfile.TarInfo("a/link" + kind.decode())
            link.type, link.linkname = kind, target
            tar.addfile(link)


each("tree{}.tar", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], tree)
GOOD["long.tar"] = lambda p: more_samples.write_tar(str(p))
GOOD["a.tgz"] = lambda p: more_samples.write_packed_tar(str(p))
GOOD["tar inside.gz"] = lambda p: more_samples.write_packed_tar(str(p))
GOOD["é.json.gz"] = lambda p: p.write_bytes(gzip.compress(b'{"a": 1}'))
GOOD["members.gz"] = lambda p: p.write_bytes(
    gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"three" * 9999)
)
each(
    "a.{}", ["tar.bz2", "tbz2", "tar.xz", "txz"], lambda p, s: more_samples.write_tar(str(p), f"w:{s[-3:].strip('.t')}")
)
GOOD["several.bz2"] = lambda p: p.write_bytes(bz2.compress(b"one") + bz2.compress(b"two" * 9999))
GOOD["padded.xz"] = lambda p: p.write_bytes(lzma.compress(b"one") + bytes(8) + lzma.compress(b"two" * 9999) + bytes(4))
each(
    "check {}.xz",
    [lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_SHA256],
    lambda p, c: p.write_bytes(lzma.compress(b"words" * 99, check=c, preset=9)),
)
GOOD["none.gz"] = lambda p: p.write_bytes(gzip.compress(b""))
GOOD["ratio.gz"] = lambda p: p.write_bytes(gzip.compress(bytes(20 << 20)))
each("method {}.zip", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], lambda p, m: packed(p, m, "a.txt", b"words " * 5000))
each("method {}.npz", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], lambda p, m: packed(p, m, "a.npy", array()))
GOOD["no array.npz"] = lambda p: np.savez(p)
GOOD["none.zip"] = lambda p: zipfile.ZipFile(p, "w").close()


GOOD["project.zip"] = lambda p: packed(p, zipfile.ZIP_DEFLATED, "run/data.pkl", b"N.", "run/notes.txt")


@good("names.zip")
def _(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name in ("a/", "a/é", "b..c", "a/deep/er"):
            z.writestr(name, "" if name.endswith("/") else "text " * 50)


def packed(path: Path, method: int, name: str, data: bytes, *others: str) -> None:
    with zipfile.ZipFile(path, "w", method) as z:
        for each_name in (name, *others):
            z.writestr(each_name, data)


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, made("f4"))
    return out.getvalue()


@good("comment.zip")
def _(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a", "text")
        z.comment = b"an end record PK\x05\x06 in a comment"


@good("wide.zip")
def _(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z, z.open("a", "w", force_zip64=True) as f:
        f.write(b"text " * 500)


@good("_metadata")
def _(path: Path) -> None:
    """What Spark and Dask put beside the parts of a table."""
    parts: list[Any] = []
    pq.write_to_dataset(pa.table(TABLE), str(path.parent / "table"), metadata_collector=parts)
    pq.write_metadata(pa.table(TABLE).schema, path, metadata_collector=parts)


@good("begun anew.db-wal")
def _(path: Path) -> None:
    """A log that was begun anew, with frames behind it that are left over from before."""
    db = sqlite3.connect(path.parent / "begun anew.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t (a)")
    db.executemany("INSERT INTO t VALUES (?)", [("text" * 99,) for _ in range(99)])
    db.commit()
    db.execute("PRAGMA wal_checkpoint(RESTART)")
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
    raw = path.read_bytes()
    db.close()
    path.write_bytes(raw)


@good("streamed.zip")
def _(path: Path) -> None:
    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            out.extend(data)
            return len(data)

    out = bytearray()
    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as z:  # type: ignore[arg-type]
        z.writestr("a", "text " * 50)
    path.write_bytes(bytes(out))


@good("link.zip")
def _(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a/b", "text")
        info = zipfile.ZipInfo("a/link")
        info.external_attr = 0o120777 << 16
        z.writestr(info, "b")


ROWS = [["epoch", "name", "loss"], [1, "a", 0.5], [2, 'b "quoted", é', ""], [3, "two\nlines", -1e-9]]
each(
    "{}.csv",
    ["excel", "unix", "excel-tab"],
    lambda p, d: csv.writer(p.open("w", newline=""), dialect=d).writerows(ROWS),
)
each(
    "way {}.csv",
    [{"escapechar": "\\", "doublequote": False}, {"escapechar": "\\", "quoting": 3}, {"quotechar": "'", "quoting": 1}],
    lambda p, way: csv.writer(p.open("w", newline=""), **way).writerows([["a", "b"], ['say "x", y', 1], ["it's", 2]]),
)
GOOD["one column.csv"] = lambda p: p.write_text("loss\n0.5\n0.25\n")
GOOD["semicolons.csv"] = lambda p: p.write_text("a;b\n1,5;2\n2,5;3\n")
GOOD["tabs.tsv"] = lambda p: p.write_text("a\tb\n1, 5\t2\n")
GOOD["marked.csv"] = lambda p: p.write_text("\ufeffa,b\n1,2\n", encoding="utf-8")
GOOD["a word that is nan.csv"] = lambda p: p.write_text("name,n\nnan,1\nbob,2\ninf,3\n")
GOOD["savetxt.csv"] = lambda p: np.savetxt(p, made("f8"), delimiter=",")
GOOD["header only.csv"] = lambda p: p.write_text("a,b,c\n")
GOOD["no last end.csv"] = lambda p: p.write_text("step,loss\n1,0.5\n2,0.25\n3,0.125")
GOOD["wide.csv"] = lambda p: p.write_text("step,name\n1,\u00e9\n", encoding="utf-16")
GOOD["old line ends.csv"] = lambda p: p.write_bytes(b"step,loss\r1,0.5\r2,0.25\r")
GOOD["notes.csv"] = lambda p: np.savetxt(p, made("f8"), delimiter=",", header="run 7, of many\n1,2,3,4,5,6")
GOOD["scalars.jsonl"] = lambda p: p.write_text('1\n"a"\nnull\n[1, 2]\n{"a": {"b": []}}\n')
GOOD["no last end.ndjson"] = lambda p: p.write_text('{"a": 1}\n{"a": 2}')
GOOD["blank lines.jsonl"] = lambda p: p.write_text('{"a": 1}\r\n\r\n{"a": "\u2028"}\r\n')
GOOD["long.jsonl"] = lambda p: p.write_text(json.dumps({"n": 10**400, "x": 1e308, "s": "\ud83d\ude00"}) + "\n")
GOOD["a.sqlite"] = lambda p: database(p, "")
GOOD["a.sqlite3"] = lambda p: database(p, "PRAGMA journal_mode=WAL")
GOOD["a.db"] = lambda p: database(p, "PRAGMA page_size=65536")
GOOD["old.sqlite"] = lambda p: database(p, "PRAGMA encoding='UTF-16'")


def database(path: Path, first: str) -> None:
    db = sqlite3.connect(path)
    db.execute(first)
    db.execute('CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY, "a b" REAL, c BLOB, d AS (id + 1))')
    db.execute("CREATE TABLE keyed (k TEXT PRIMARY KEY, v) WITHOUT ROWID")
    db.execute('CREATE VIEW seen AS SELECT * FROM "odd ""name"')
    db.execute("CREATE TABLE checked (n INTEGER CHECK (n > 0), w TEXT DEFAULT 'x')")
    rows = [(1, 0.5, b"\0"), (2, None, "Inf"), (3, -9223372036854775808, None)]
    db.executemany('INSERT INTO "odd ""name" VALUES (?, ?, ?)', rows)
    db.execute("INSERT INTO keyed VALUES ('inf', 'nan')")
    db.commit()
    db.close()


def records(path: Path, count: int) -> None:
    from tensorboardX.record_writer import RecordWriter

    out = RecordWriter(str(path))
    for n in range(count):
        out.write(os.urandom(n * 100))
    out.close()


GOOD["shard.tfrecord"] = lambda p: records(p, 20)


@good("events.out.tfevents.1700000000.box.12.0")
def _(path: Path) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(path.parent / "run")) as out:
        for step in range(5):
            out.add_scalar("loss", 1 / (step + 1), step)
            out.add_histogram("w", np.arange(50.0), step)
        out.add_text("note", "words")
    (made,) = (path.parent / "run").iterdir()
    made.rename(path)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_is_not_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    GOOD[name](path)
    found = judge_file(str(path), name)
    assert (found.problem, found.detail) == ("", "")
    assert {"structure", "load"} <= set(found.proved)


@pytest.mark.torch
def test_every_dtype_that_torch_saves_is_good(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import safetensors.torch

    eights = [
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    ]
    kinds = [
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.complex64,
        torch.int8,
        torch.uint16,
        torch.bool,
        *eights,
    ]
    for kind in kinds:
        name = str(kind).split(".")[1]
        tensors = {"a": torch.arange(1, 25).float().to(kind).reshape(4, 6)}
        torch.save(tensors, tmp_path / f"{name}.pt")
        safetensors.torch.save_file(tensors, tmp_path / f"{name}.safetensors")
        for path in (tmp_path / f"{name}.pt", tmp_path / f"{name}.safetensors"):
            found = judge_file(str(path), path.name)
            assert (found.problem, found.detail, len(found.proved)) == ("", "", 3), path.name
    old = [kind for kind in kinds if kind not in (*eights, torch.uint16)]
    torch.save(
        {str(k): torch.arange(1, 9).to(k) for k in old}, tmp_path / "old.pt", _use_new_zipfile_serialization=False
    )
    assert judge_file(str(tmp_path / "old.pt"), "old.pt").problem == ""
