"""Good files of tables, logs, archives, databases and images, written by the libraries that people use."""

import bz2
import csv
import gzip
import io
import json
import lzma
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image

from sojourn.testing.contracts.loader import Sample
from tests.backends import samples

CONTAINER = frozenset({"structure", "load"})


def write_legacy_torch(path: str, nan: bool = False) -> None:
    import torch

    tensors = {key: torch.from_numpy(value) for key, value in samples.numbers(nan).items()}
    tensors["half"] = torch.randn(33, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    tensors["view"] = tensors["weight"][3:5]
    torch.save({"model": tensors, "step": 12}, path, _use_new_zipfile_serialization=False)


def write_jsonl(path: str, nan: bool = False) -> None:
    with open(path, "w", encoding="utf-8") as f:
        for n in range(900):
            row = {"epoch": n, "loss": float("nan") if nan and n == 7 else 1 / (n + 1), "name": f"é {n}", "ok": True}
            f.write(json.dumps(row) + "\n")


def write_csv(path: str, nan: bool = False) -> None:
    chance = np.random.default_rng(5)
    with open(path, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f)
        out.writerow(["epoch", "name", "loss", "accuracy"])
        for n in range(900):
            loss = float("nan") if nan and n == 7 else chance.random()
            out.writerow([n, f'é "{n}", or so', loss, chance.random()])


def table(nan: bool = False) -> Any:
    found = samples.numbers(nan)
    weight = found["weight"].ravel()
    return pa.table(
        {
            "weight": weight,
            "step": np.arange(weight.size),
            "name": [f"sample {n % 97}" for n in range(weight.size)],
            "box": [[1.5, 2.5] if n % 3 else None for n in range(weight.size)],
        }
    )


def write_parquet(path: str, nan: bool = False) -> None:
    pq.write_table(table(nan), path, row_group_size=5000)


def write_summed_parquet(path: str, nan: bool = False) -> None:
    pq.write_table(table(nan), path, compression="zstd", write_page_checksum=True, data_page_version="2.0")


def write_events(path: str, nan: bool = False) -> None:
    from tensorboardX.event_file_writer import EventsWriter  # the writer itself; its file's name is ours to choose
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    out = EventsWriter(path)
    made = out._file_name
    for step in range(600):
        value = float("nan") if nan and step == 9 else 1 / (step + 1)
        summary = Summary(value=[Summary.Value(tag="train/loss", simple_value=value)])
        out.write_event(Event(wall_time=1.0 + step, step=step, summary=summary))
    out.close()
    import os

    os.replace(made, path)


def members() -> dict[str, bytes]:
    chance = np.random.default_rng(3)
    return {f"{n:04}.{end}": chance.bytes(3000) for n in range(6) for end in ("bin", "cls")}


def write_tar(path: str, mode: Any = "w") -> None:
    with tarfile.open(path, mode) as tar:
        for name, data in members().items():
            info = tarfile.TarInfo("shard/" + "long" * 40 + name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def write_packed_tar(path: str) -> None:
    write_tar(path, "w:gz")


def write_zip(path: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members().items():
            z.writestr("é/" + name, data)
        z.writestr("notes.txt", "words " * 999)


def write_gz(path: str) -> None:
    with gzip.open(path, "wb") as f:
        f.write(np.random.default_rng(4).bytes(40_000))


def write_bz2(path: str) -> None:
    with bz2.open(path, "wb") as f:
        f.write(np.random.default_rng(4).bytes(40_000))


def write_xz(path: str) -> None:
    with lzma.open(path, "wb") as f:
        f.write(np.random.default_rng(4).bytes(40_000))


def write_wal(path: str) -> None:
    """A log as it lies beside a database that is open."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(f"{folder}/a.db")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE trials (id INTEGER PRIMARY KEY, loss REAL)")
        for n in range(10):
            db.executemany("INSERT INTO trials (loss) VALUES (?)", [(1 / (m + n + 1),) for m in range(300)])
            db.commit()
        shutil.copy(f"{folder}/a.db-wal", path)
        db.close()


def write_sqlite(path: str, nan: bool = False) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE trials (id INTEGER PRIMARY KEY, loss REAL, note TEXT)")
    db.execute("CREATE INDEX by_loss ON trials (loss)")
    rows = [(n, float("inf") if nan and n == 7 else 1 / (n + 1), f"note {n} " * 5) for n in range(900)]
    db.executemany("INSERT INTO trials VALUES (?, ?, ?)", rows)
    db.commit()
    db.close()


def picture(mode: str = "RGB") -> Any:
    chance = np.random.default_rng(6)
    shape = (120, 130, 3) if mode == "RGB" else (120, 130)
    return Image.fromarray(chance.integers(0, 255, shape, dtype=np.uint8)).convert(mode)


def write_png(path: str) -> None:
    picture().save(path)


def write_jpeg(path: str) -> None:
    picture().save(path, quality=95)


def _gz_payload(good: bytes) -> list[tuple[int, int]]:
    """After the header, which holds a time and a name."""
    begin = 10 + (good.index(b"\0", 10) - 9 if good[3] & 8 else 0)
    return [(begin, len(good))]


def _all(good: bytes) -> list[tuple[int, int]]:
    return [(0, len(good))]


def _is_lines(damaged: bytes) -> bool:
    """JSON lines, each whole."""
    try:
        return bool(damaged.strip()) and all(json.loads(line) is not None for line in damaged.decode().splitlines())
    except ValueError:
        return False


def _is_event_log(damaged: bytes) -> bool:
    """Records; or nothing at all, as a writer leaves that was opened and never written to."""
    return not damaged or _is_records(damaged)


def write_yaml(path: str, nan: bool = False) -> None:
    rows = {f"key {n}": [n, n / 7, f"a text, with a comma: {n}", {"on": True, "none": None}] for n in range(200)}
    with open(path, "w", encoding="utf-8") as f:
        yaml.safe_dump(rows, f)


def _is_yaml(damaged: bytes) -> bool:
    """Still a map or a list: what is left of a text says nothing about what it was."""
    try:
        return not damaged or isinstance(yaml.compose(damaged.decode(), yaml.CSafeLoader), yaml.CollectionNode)
    except (ValueError, yaml.YAMLError):
        return False


def _is_rows(damaged: bytes) -> bool:
    """Rows of four fields; what is left of a last field says nothing about it."""
    try:
        rows = list(csv.reader(io.StringIO(damaged.decode(), newline="")))
    except ValueError:
        return False
    last_is_open = not damaged.endswith(b"\n") and len(rows) > 2
    return len(rows) > 1 and all(len(row) == 4 for row in rows) and (last_is_open or damaged.endswith(b"\n"))


def _is_gz(damaged: bytes) -> bool:
    try:
        return bool(gzip.decompress(damaged))
    except (EOFError, OSError, zlib.error):
        return False


def _is_bz2(damaged: bytes) -> bool:
    """What bzip2 itself unpacks to the end, once or twice: a few bits of a block mean nothing."""
    unpack = bz2.BZ2Decompressor()
    try:
        unpack.decompress(damaged)
    except (OSError, ValueError):
        return False
    return unpack.eof and (not unpack.unused_data or unpack.unused_data * 2 == damaged)


def _is_records(damaged: bytes) -> bool:
    """Twice the same events, one after the other."""
    half = len(damaged) // 2
    return damaged[:half] == damaged[half:] and any(damaged)


def _nan(write: Any) -> Any:
    return lambda path: write(path, nan=True)


SAMPLES = {
    "jsonl": Sample("jsonl", ".jsonl", write_jsonl, _nan(write_jsonl), hides=_is_lines, is_plain=True),
    "csv": Sample("csv", ".csv", write_csv, _nan(write_csv), hides=_is_rows, is_plain=True),
    "yaml": Sample("yaml", ".yaml", write_yaml, None, hides=_is_yaml, is_plain=True),
    "parquet": Sample("parquet", ".parquet", write_parquet, _nan(write_parquet)),
    "summed parquet": Sample("parquet", ".parquet", write_summed_parquet, _nan(write_summed_parquet)),
    "tfevents": Sample("tfevents", ".tfevents.1", write_events, _nan(write_events), _all, _is_event_log),
    "tar": Sample("tar", ".tar", write_tar, proved=CONTAINER),
    "packed tar": Sample("tar", ".tar.gz", write_packed_tar, None, _gz_payload, proved=CONTAINER),
    "zip": Sample("zip", ".zip", write_zip, None, samples.zip_payload, proved=CONTAINER),
    "bz2": Sample("bz2", ".bz2", write_bz2, None, hides=_is_bz2, proved=CONTAINER),
    "xz": Sample("xz", ".xz", write_xz, None, _all, _is_records, CONTAINER),
    "gz": Sample("gz", ".gz", write_gz, None, _gz_payload, _is_gz, CONTAINER),
    "sqlite": Sample("sqlite", ".sqlite", write_sqlite, _nan(write_sqlite)),
    "wal": Sample("sqlite_wal", ".db-wal", write_wal, None, _all, lambda damaged: not damaged, CONTAINER),
    "png": Sample("png", ".png", write_png, None, _all, proved=CONTAINER),
    "jpeg": Sample("jpeg", ".jpg", write_jpeg, proved=CONTAINER),
    "torch_legacy": Sample("torch_legacy", ".pt", write_legacy_torch, _nan(write_legacy_torch), needs="torch"),
}
