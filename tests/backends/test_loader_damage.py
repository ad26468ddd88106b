"""Damage and malice that belong to one format each: cuts at a boundary, bombs, paths and links that lead out."""

import gzip
import io
import sqlite3
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sojourn.backends.proof.judge import Judgement, judge_file
from sojourn.formats import gz, png
from tests.backends import more_samples


def judged(path: Path) -> Judgement:
    return judge_file(str(path), path.name)


def of(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return judged(path).problem


def test_a_tar_cut_at_a_members_boundary_is_truncated(tmp_path: Path) -> None:
    more_samples.write_tar(str(tmp_path / "a.tar"))
    raw = (tmp_path / "a.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as tar:
        ends = [member.offset_data + 3072 for member in tar.getmembers()]
    for end in ends:
        with tarfile.open(fileobj=io.BytesIO(raw[:end])) as tar:
            assert tar.getmembers()  # ordinary readers take it without a word
        assert of(tmp_path / "cut.tar", raw[:end]) == "truncated"
        assert of(tmp_path / "one.tar", raw[:end] + bytes(512)) == ("truncated")
        assert of(tmp_path / "cut.tar.gz", gzip.compress(raw[:end])) == "truncated"
        assert of(tmp_path / "whole.tar", raw[:end] + bytes(1024)) == ""


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
@pytest.mark.parametrize(
    "name, kind, target",
    [
        ("../evil", tarfile.REGTYPE, ""),
        ("/etc/evil", tarfile.REGTYPE, ""),
        ("a/../../evil", tarfile.REGTYPE, ""),
        ("x" * 120 + "/../../../evil", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("a/link", tarfile.SYMTYPE, "../../etc/passwd"),
        ("a/link", tarfile.LNKTYPE, "../etc/passwd"),
        ("null", tarfile.CHRTYPE, ""),
        ("disk", tarfile.BLKTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    ],
)
def test_a_tar_that_reaches_out_is_refused(suffix: str, name: str, kind: Any, target: str, tmp_path: Path) -> None:
    path = tmp_path / ("evil" + suffix)
    with tarfile.open(str(path), "w:gz" if suffix == ".tar.gz" else "w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        tar.addfile(info)
    assert judged(path).problem == "escapes-root"


def test_a_zip_that_reaches_out_is_refused(tmp_path: Path) -> None:
    for name in ("../evil", "/etc/evil", "a/../../evil", "a\\..\\evil"):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
            info = zipfile.ZipInfo("x")
            info.filename = name
            z.writestr(info, "text")
        assert judged(tmp_path / "a.zip").problem == "escapes-root", name
    for target in ("/etc/passwd", "../../etc/passwd"):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("b", "text")
            info = zipfile.ZipInfo("a/link")
            info.external_attr = 0o120777 << 16
            z.writestr(info, target)
        assert judged(tmp_path / "a.zip").problem == "escapes-root", target


def test_bombs_are_unsafe_and_not_inflated_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.backends.proof import archive

    for module in (archive, gz, png):
        monkeypatch.setattr(module, "BOMB_BYTES", 4 << 20)
    zeros = bytes(32 << 20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(zeros))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a", zeros)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("a")
        info.size = len(zeros)
        tar.addfile(info, io.BytesIO(zeros))
    image = b"\x89PNG\r\n\x1a\n"
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(zeros)),
        (b"IEND", b""),
    ):
        image += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    (tmp_path / "a.png").write_bytes(image)
    for name in ("a.gz", "a.zip", "a.tar.gz", "a.png"):
        assert judged(tmp_path / name).problem == "unsafe", name


def test_a_zip_whose_sizes_lie_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a", bytes(1 << 20))
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    for at in (22, raw.index(b"PK\x01\x02") + 24):
        raw[at : at + 4] = struct.pack("<I", 100)
    assert of(tmp_path / "b.zip", bytes(raw)) == "corrupt"


def test_a_csv_cut_anywhere_inside_a_row_is_seen(tmp_path: Path) -> None:
    more_samples.write_csv(str(tmp_path / "a.csv"))
    raw = (tmp_path / "a.csv").read_bytes()
    seen = asked = remarked = 0
    for cut in range(len(raw) // 2, len(raw) // 2 + 400):
        if raw[cut - 1 : cut] == b"\n":
            continue
        asked += 1
        (tmp_path / "cut.csv").write_bytes(raw[:cut])
        found = judged(tmp_path / "cut.csv")
        seen += bool(found.problem)
        remarked += bool(found.problem or found.remarks)
    assert remarked == asked
    assert seen > 0.9 * asked


@pytest.mark.parametrize(
    "text, problem",
    [
        ("a,b\n1,2\n3,4,5\n6,7\n", "unparseable"),
        ("a,b\n1,2\n3\n6,7\n", "unparseable"),
        ("a,b\n1,2\n3", "truncated"),
        ('a,b\n1,2\n3,"open', "truncated"),
        ("a,b\r\n1,2\r\n3,4\r", "truncated"),
        ("a,b\n1.25,2.25\n3.25,4.25\n5.25,", "truncated"),
        ("a,b\n1,2\n3,\x02\n", "unparseable"),
        ("a,b\n1,\x00\x00\n3,4\n", "corrupt"),
        ("a,b\n1,nan\n3,4\n", "non-finite"),
        ("a,b\n1,2\n3,-Infinity\n", "non-finite"),
        ('{"a": 1}\n{"a": 2}\n', "mismatch"),
        (" \n\n", "empty"),
        ("\ud800", "unparseable"),
    ],
)
def test_a_damaged_csv_is_named(text: str, problem: str, tmp_path: Path) -> None:
    assert of(tmp_path / "a.csv", text.encode("utf-8", "surrogatepass")) == problem


@pytest.mark.parametrize(
    "text, problem",
    [
        ('{"a": 1}\n{"a": ', "truncated"),
        ('{"a": 1}\n{"a": \n{"a": 3}\n', "unparseable"),
        ('{"a": 1} {"a": 2}\n', "unparseable"),
        ('{"a": NaN}\n', "non-finite"),
        ('{"a": 1e999}\n', "non-finite"),
        ('{"a": 1}\n\x00\x00\x00\n', "corrupt"),
        ("\n \n", "empty"),
        ("[" * 5000 + "]" * 5000 + "\n", "unparseable"),
        ("{'a': 1}\n", "unparseable"),
    ],
)
def test_damaged_json_lines_are_named(text: str, problem: str, tmp_path: Path) -> None:
    assert of(tmp_path / "a.jsonl", text.encode()) == problem


@pytest.mark.parametrize("value", ["nan", "-inf", "1e999", "+Infinity", "NaN"])
def test_a_number_that_is_not_finite_is_found_in_any_row_of_a_csv(value: str, tmp_path: Path) -> None:
    rows = [f"{n},{n / 7},name{n}" for n in range(5000)]
    rows[4500] = f"4500,{value},information"
    assert of(tmp_path / "a.csv", b"n,loss,name\n" + "\n".join(rows).encode() + b"\n") == "non-finite"
    assert "loss: " in judged(tmp_path / "a.csv").detail
    assert "line 4502" in judged(tmp_path / "a.csv").detail


def test_a_flip_in_a_summed_parquet_page_is_seen_by_the_walker_alone(tmp_path: Path) -> None:
    from sojourn.formats import parquet
    from sojourn.formats.damage import Unloadable

    more_samples.write_summed_parquet(str(tmp_path / "a.parquet"))
    raw = (tmp_path / "a.parquet").read_bytes()
    chunk = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0)
    middle = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size // 2
    (tmp_path / "b.parquet").write_bytes(raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :])
    with pytest.raises(Unloadable, match="CRC"):
        parquet.walk(str(tmp_path / "b.parquet"))
    assert parquet.walk(str(tmp_path / "a.parquet")).has_sums


def test_without_their_libraries_parquet_and_jpeg_say_that_they_were_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    more_samples.write_parquet(str(tmp_path / "a.parquet"))
    more_samples.write_jpeg(str(tmp_path / "a.jpg"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for name in ("a.parquet", "a.jpg"):
        found = judged(tmp_path / name)
        assert (found.problem, found.proved) == ("", ("structure",))
        assert "not loaded" in found.remarks[-1]
        raw = (tmp_path / name).read_bytes()
        for cut in (10, len(raw) // 2, len(raw) - 1):
            assert of(tmp_path / ("cut " + name), raw[:cut]) in ("truncated", "corrupt")


def test_a_damaged_page_of_a_database_is_seen(tmp_path: Path) -> None:
    more_samples.write_sqlite(str(tmp_path / "a.sqlite"))
    raw = (tmp_path / "a.sqlite").read_bytes()
    for page in range(1, len(raw) // 4096):
        data = raw[: page * 4096] + bytes(4096) + raw[(page + 1) * 4096 :]
        assert of(tmp_path / "b.sqlite", data) == "corrupt", page


def test_a_database_is_read_without_a_trace_and_its_open_log_is_remarked(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "a.sqlite")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t (n)")
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    found = judged(tmp_path / "a.sqlite")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "a.sqlite-wal" in " ".join(found.remarks)
    db.close()


def test_a_log_of_a_database_that_would_lose_commits_in_silence_is_corrupt(tmp_path: Path) -> None:
    more_samples.write_wal(str(tmp_path / "a.db-wal"))
    raw = (tmp_path / "a.db-wal").read_bytes()
    ends = range(32, len(raw) + 1, 24 + 4096)
    assert raw[ends[-1] :] == b""
    for end in ends[1:-2]:
        assert of(tmp_path / "b.db-wal", raw[:end] + raw[end + 4120 :] + raw[end : end + 4120]) == "corrupt"
        assert of(tmp_path / "b.db-wal", raw[: end + 9] + b"\xff" + raw[end + 10 :]) == "corrupt"
        assert of(tmp_path / "b.db-wal", raw[: end - 7]) == "truncated"
    assert of(tmp_path / "b.db-wal", raw[: ends[2]]) == ""  # only its sha256 can show that whole commits lack
    assert of(tmp_path / "b.db-wal", b"") == ""


@pytest.mark.parametrize("damage", ["eoi", "twice", "no tables", "short segment"])
def test_a_jpeg_whose_markers_make_no_sense_is_refused(damage: str, tmp_path: Path) -> None:
    more_samples.write_jpeg(str(tmp_path / "a.jpg"))
    raw = (tmp_path / "a.jpg").read_bytes()
    table = raw.index(b"\xff\xdb")
    size = int.from_bytes(raw[table + 2 : table + 4], "big")
    damaged = {
        "eoi": raw[:-2],
        "twice": raw[:-2] + raw,
        "no tables": raw.replace(raw[table : table + 2 + size], b""),
        "short segment": raw[: table + 2] + b"\x00\x01" + raw[table + 4 :],
    }[damage]
    assert of(tmp_path / "b.jpg", damaged) in ("truncated", "corrupt")


def test_a_hole_in_a_jpeg_is_at_least_remarked(tmp_path: Path) -> None:
    more_samples.write_jpeg(str(tmp_path / "a.jpg"))
    raw = (tmp_path / "a.jpg").read_bytes()
    middle = len(raw) // 2
    (tmp_path / "b.jpg").write_bytes(raw[:middle] + bytes(4096) + raw[middle + 4096 :])
    found = judged(tmp_path / "b.jpg")
    assert found.problem or "zero bytes" in " ".join(found.remarks)


def test_damaged_events_are_named_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.box"
    more_samples.write_events(str(path))
    raw = path.read_bytes()
    assert of(path, raw[:-1]) == "truncated"
    assert of(path, raw[:10]) == "truncated"
    assert of(path, raw[:500] + bytes(40) + raw[540:]) == "corrupt"
    assert "byte" in judged(path).detail
    assert of(path, b"") == "", "a writer that was closed at once leaves an empty one"
