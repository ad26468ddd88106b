"""Whatever happens to a small file of any format, judging it gives a word or a whole file, and raises nothing."""

import bz2
import gzip
import hashlib
import io
import lzma
import sqlite3
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn.backends.proof.judge import judge_file
from sojourn.backends.proof.proof import Prover
from sojourn.formats.damage import PROBLEMS
from tests.backends import more_samples, samples

SMALL = {"a": np.arange(5, dtype="<f4"), "b": np.array([[1, 2]], dtype="<i8")}


def small(kind: str, path: Path) -> None:
    """A file of a few hundred bytes (some formats need more), so that a change hits something that matters."""
    if kind == "npy":
        np.save(path, SMALL["a"])
    elif kind == "npz":
        np.savez(path, **SMALL)
    elif kind == "packed.npz":
        np.savez_compressed(path, **SMALL)
    elif kind == "safetensors":
        safetensors.numpy.save_file(SMALL, str(path))
    elif kind == "json":
        path.write_text('{"a": [1, -2.5e3, null, true], "é": {"x": "y\\n\\u00e9"}, "b": []}', encoding="utf-8")
    elif kind == "jsonl":
        path.write_text('{"a": [1, -2.5e3, null]}\n{"é": "y\\n\\u00e9"}\n[]\n', encoding="utf-8")
    elif kind == "csv":
        path.write_text('epoch,name,loss\n1,"a ""b"", é",0.5\n2,c,-1.25e-3\n3,,7\n', encoding="utf-8")
    elif kind == "parquet":
        pq.write_table(pa.table({"a": [1.5, 2.5, None], "b": ["x", "y", "x"]}), path, write_page_checksum=True)
    elif kind == "tfevents.1":
        more_samples.write_events(str(path))
        path.write_bytes(whole_records(path.read_bytes()))
    elif kind in ("tar", "tar.gz"):
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w", format=tarfile.PAX_FORMAT) as tar:
            for name in ("a" * 120, "é.txt"):
                info = tarfile.TarInfo(name)
                info.size = 5
                tar.addfile(info, io.BytesIO(b"hello"))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("é/a.txt", "words " * 20)
            z.writestr("b", b"")
    elif kind == "gz":
        path.write_bytes(gzip.compress(b"words " * 20) + gzip.compress(b"more"))
    elif kind in ("bz2", "xz"):
        path.write_bytes((bz2.compress if kind == "bz2" else lzma.compress)(b"words " * 20))
    elif kind == "sqlite":
        db = sqlite3.connect(path)
        db.execute("PRAGMA page_size=512")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, loss REAL, note TEXT)")
        db.execute("INSERT INTO t VALUES (1, 0.5, 'a'), (2, 1.5, 'b')")
        db.commit()
        db.close()
    elif kind == "png" or kind == "jpg":
        more_samples.picture().resize((9, 7)).save(path)
    else:
        torch = pytest.importorskip("torch")
        tensors = {key: torch.from_numpy(value) for key, value in SMALL.items()}
        torch.save(tensors, path, _use_new_zipfile_serialization=kind != "legacy.pt")


def whole_records(raw: bytes) -> bytes:
    """The first records of an event file, about 300 bytes."""
    at = 0
    while at < 300:
        at += 16 + int.from_bytes(raw[at : at + 8], "little")
    return raw[:at]


KINDS: list[Any] = ["npy", "npz", "packed.npz", "safetensors", "json", "jsonl", "csv", "parquet", "tfevents.1", "tar"]
KINDS += ["tar.gz", "zip", "gz", "bz2", "xz", "sqlite", "png", "jpg"]
KINDS += [pytest.param(kind, marks=pytest.mark.torch) for kind in ("pt", "legacy.pt")]


@pytest.fixture(scope="module")
def prover() -> Iterator[Prover]:
    with Prover(1) as found:
        yield found


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(data=st.data())
def test_any_change_gives_a_word_or_a_whole_file(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    good, path = tmp_path / ("good." + kind), tmp_path / ("changed." + kind)
    if not good.exists():
        small(kind, good)
    raw = good.read_bytes()
    begin = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(begin, min(begin + data.draw(st.sampled_from([0, 1, 4, 400])), len(raw))))
    path.write_bytes(raw[:begin] + data.draw(st.binary(max_size=9)) + raw[end:])
    found = judge_file(str(path), path.name)
    assert found.problem == "" or (found.problem in PROBLEMS and found.detail)
    assert bool(found.proved) == (not found.problem)


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_no_flip_and_no_cut_passes_the_manifest(kind: str, tmp_path: Path, prover: Prover, data: st.DataObject) -> None:
    good, path = tmp_path / ("good." + kind), tmp_path / ("changed." + kind)
    is_new = not good.exists()
    if is_new:
        small(kind, good)
    raw = good.read_bytes()
    expect = (len(raw), hashlib.sha256(raw).hexdigest())
    if is_new:
        assert prover.prove(str(good), good.name, expect).ok
    at = data.draw(st.integers(0, len(raw) - 1))
    flip = data.draw(st.integers(0, 255))
    path.write_bytes(raw[:at] + (bytes([raw[at] ^ flip]) + raw[at + 1 :] if flip else b""))
    proof = prover.prove(str(path), path.name, expect)
    assert not proof.ok
    assert proof.proved == ()


# Of these formats every flip is seen without a manifest too: their checksums cover everything that means something.
@pytest.mark.parametrize("kind", ["tfevents.1", "png", "xz"])
def test_every_flipped_bit_is_seen_where_all_is_guarded(kind: str, tmp_path: Path) -> None:
    small(kind, tmp_path / ("good." + kind))
    raw, path = (tmp_path / ("good." + kind)).read_bytes(), tmp_path / ("changed." + kind)
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :])
        assert judge_file(str(path), path.name).problem, f"byte {at}"


# And of these every cut: what follows says how long they are, or an end is missing.
@pytest.mark.parametrize(
    "kind", [k for k in KINDS if not isinstance(k, str) or k not in ("jsonl", "csv", "tfevents.1", "gz")]
)
def test_every_cut_is_seen_where_the_format_knows_its_end(kind: str, tmp_path: Path) -> None:
    small(kind, tmp_path / ("good." + kind))
    raw, path = (tmp_path / ("good." + kind)).read_bytes(), tmp_path / ("changed." + kind)
    # The zeros with which tar fills its last record mean nothing; two blocks of them are its end.
    ends = len(raw.rstrip(b"\0")) + 1536 if kind == "tar" else len(raw)
    for cut in range(0, min(ends, len(raw)), max(1, len(raw) // 400)):
        path.write_bytes(raw[:cut])
        if kind == "tar" and cut % 512 == 0 and raw[cut - 1024 : cut] == bytes(1024):
            continue
        assert judge_file(str(path), path.name).problem, f"cut at {cut} of {len(raw)}"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(pickled=st.binary(max_size=60), tail=st.binary(max_size=20))
def test_any_pickle_in_a_torch_zip_gives_a_word_or_a_whole_file(tmp_path: Path, pickled: bytes, tail: bytes) -> None:
    path = tmp_path / "a.pt"
    for body in (
        pickled,
        b"\x80\x02}q\x00" + pickled + b".",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + pickled + tail,
    ):
        samples.torch_zip_of(str(path), body, **{"0": bytes(16)})
        found = judge_file(str(path), "a.pt")
        assert found.problem == "" or (found.problem in PROBLEMS and found.detail)
