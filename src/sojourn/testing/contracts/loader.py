"""What every loader must do, shown on specimens made from a good sample of its format. Use: subclass `LoaderContract`.

    class TestMine(LoaderContract):
        @pytest.fixture
        def sample(self): return Sample("mine", ".mine", write)

A good sample is written by the real library of its format. The suite judges through the same door as `verify` does, in
this process (`judge`), and through `prove` where a manifest is part of the promise.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from sojourn import backends
from sojourn.backends.proof.judge import Judgement, judge_file
from sojourn.backends.proof.proof import Prover
from sojourn.core.ports import Loader
from sojourn.formats.damage import PROBLEMS

HOLE_BYTES = 8192


@dataclass(frozen=True)
class Sample:
    """A format and how to write one good file of it.

    `write(path)` makes a good file of at least 4 * HOLE_BYTES where the format can hold that much; `write_nan(path)`
    the same with one NaN in it (None: the format holds no numbers). `payload(good)`: the (begin, end) parts of the file
    whose every bit the format itself guards by a checksum (none: only a manifest can tell). `hides(damaged)`: these
    bytes are a whole file of the format all the same (lines cut between two lines). `proved`: what is done with a good
    one. `is_plain`: its content does not say what it is. `reads_as`: suffixes of other formats that a good file is also
    a file of. `needs`: the module that writes it, where that may be missing.
    """

    kind: str
    suffix: str
    write: Callable[[str], None]
    write_nan: Callable[[str], None] | None = None
    payload: Callable[[bytes], list[tuple[int, int]]] = lambda good: []
    hides: Callable[[bytes], bool] = lambda damaged: False
    proved: frozenset[str] = frozenset({"structure", "load", "content"})
    is_plain: bool = False
    reads_as: frozenset[str] = frozenset()
    needs: str = ""

    def good(self, folder: Path) -> bytes:
        """The bytes of a good file."""
        path = folder / ("good" + self.suffix)
        self.write(str(path))
        return path.read_bytes()


@dataclass(frozen=True)
class Specimen:
    """A damaged file. `is_visible`: the format alone can tell; otherwise only its manifest (or a remark) can."""

    what: str
    data: bytes
    is_visible: bool = True
    problems: frozenset[str] = frozenset(PROBLEMS)


def specimens(good: bytes, sample: Sample, seed: int = 7) -> Iterator[Specimen]:
    """Damaged files made from `good`: cut, flipped, with a hole, followed by garbage, emptied, all zeros."""
    size = len(good)
    yield Specimen("empty", b"", problems=frozenset({"empty"}))
    yield Specimen("zeros", bytes(size))
    cuts = {1, 2, 7, size // 10, size // 2, size - size // 10, size - 22, size - 2, size - 1}
    for cut in sorted(cut for cut in cuts if 0 < cut < size):
        yield Specimen(f"cut at {cut} of {size}", good[:cut], problems=frozenset({"truncated", "corrupt", "empty"}))
    yield Specimen("one byte of garbage", good + b"\x01")
    yield Specimen("a block of garbage", good + bytes(range(256)) * 16)
    yield Specimen("garbage in front", b"\x01" * 16 + good)
    yield Specimen("twice", good + good)
    chance = random.Random(seed)
    guarded = sample.payload(good)
    for part in range(16):
        at = chance.randrange(size * part // 16, max(size * (part + 1) // 16, size * part // 16 + 1))
        bit = 1 << chance.randrange(8)
        flipped = good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :]
        is_visible = any(begin <= at < end for begin, end in guarded)
        yield Specimen(f"bit {bit} of byte {at} flipped", flipped, is_visible)
    if size >= 3 * HOLE_BYTES:
        at = size // 2
        yield Specimen("a hole", good[:at] + bytes(HOLE_BYTES) + good[at + HOLE_BYTES :], bool(guarded))


def check_accepted(sample: Sample, folder: Path) -> None:
    """A good file is good, wholly: every part of the proof is done, and there is no complaint."""
    path = folder / ("good" + sample.suffix)
    sample.write(str(path))
    found = judge_file(str(path), path.name)
    assert (found.problem, found.detail) == ("", "")
    assert found.kind == sample.kind
    assert set(found.proved) == sample.proved


def check_accepted_under_any_name(sample: Sample, folder: Path) -> None:
    """A good file without a telling name is known by its content (formats that their content gives away)."""
    path = folder / "artifact"
    sample.write(str(folder / ("good" + sample.suffix)))
    (folder / ("good" + sample.suffix)).rename(path)
    assert (judge_file(str(path), path.name).kind, judge_file(str(path), path.name).problem) == (sample.kind, "")


def check_refused(sample: Sample, specimen: Specimen, folder: Path) -> None:
    """Seen by the format alone where it can be; where it cannot, the proof with a manifest still refuses it."""
    path = folder / ("damaged" + sample.suffix)
    path.write_bytes(specimen.data)
    found = judge_file(str(path), path.name)
    assert found.problem == "" or (found.problem in PROBLEMS and found.detail)
    if specimen.is_visible and not sample.hides(specimen.data):
        assert found.problem in specimen.problems, f"{specimen.what}: {found}"


def check_refused_with_manifest(good: bytes, sample: Sample, folder: Path, prover: Prover | None = None) -> None:
    """No damaged file passes where its manifest is known, and each says that its bytes are not proven.

    `prover`: one that several samples share; None: one of its own.
    """
    expect = (len(good), hashlib.sha256(good).hexdigest())
    with nullcontext(prover) if prover else Prover(1) as proving:
        for specimen in specimens(good, sample):
            path = folder / ("damaged" + sample.suffix)
            path.write_bytes(specimen.data)
            proof = proving.prove(str(path), path.name, expect)
            assert not proof.ok, specimen.what
            assert proof.proved == (), specimen.what


def check_renamed_is_refused(sample: Sample, others: Iterator[str], folder: Path) -> None:
    """A good file under the name of another format is a mismatch, and says what it is."""
    for suffix in others:
        path = folder / (suffix[1:] if suffix.startswith("/") else "renamed" + suffix)  # a whole name, or its end
        sample.write(str(folder / ("good" + sample.suffix)))
        os.replace(folder / ("good" + sample.suffix), path)
        found = judge_file(str(path), path.name)
        assert found.problem in ("mismatch", "unparseable", "corrupt", "unsafe"), (
            f"{sample.kind} named {suffix}: {found}"
        )


def check_nan_is_found(sample: Sample, folder: Path) -> None:
    """One NaN is enough, and it is a problem of its own."""
    assert sample.write_nan is not None
    path = folder / ("nan" + sample.suffix)
    sample.write_nan(str(path))
    assert judge_file(str(path), path.name).problem == "non-finite"


def check_never_runs(path: Path, canary: Path) -> Judgement:
    """Judging a file that would make `canary` when it is run refuses it, and makes nothing."""
    found = judge_file(str(path), path.name)
    assert not canary.exists(), f"judging {path.name} ran what was in it"
    assert found.problem in ("unsafe", "mismatch", "unparseable", "corrupt"), found
    assert not found.proved
    return found


class LoaderContract:
    """One method, one promise."""

    @pytest.fixture(scope="class")
    @classmethod
    def prover(cls) -> Iterator[Prover]:
        """One child process for all of them."""
        with Prover(1) as found:
            yield found

    @pytest.fixture(autouse=True)
    def its_library_is_there(self, sample: Sample) -> None:
        """Without the library of the format there is no sample."""
        if sample.needs:
            pytest.importorskip(sample.needs)

    def test_a_good_file_is_accepted(self, sample: Sample, tmp_path: Path) -> None:
        """Proven in every part, without a complaint."""
        check_accepted(sample, tmp_path)

    def test_a_good_file_is_known_by_its_content(self, sample: Sample, tmp_path: Path) -> None:
        """Whatever its name."""
        if not sample.is_plain:
            check_accepted_under_any_name(sample, tmp_path)

    def test_damage_is_seen(self, sample: Sample, tmp_path: Path) -> None:
        """By the format alone, where the format can tell."""
        for specimen in specimens(sample.good(tmp_path), sample):
            check_refused(sample, specimen, tmp_path)

    def test_no_damage_passes_a_manifest(self, sample: Sample, tmp_path: Path, prover: Prover) -> None:
        """Whatever the format can tell."""
        check_refused_with_manifest(sample.good(tmp_path), sample, tmp_path, prover)

    def test_another_types_name_is_refused(self, sample: Sample, tmp_path: Path) -> None:
        """For the names of every other loader; those judged by the files beside them are left out."""
        found = [backends.get("loader", name) for name in backends.names("loader")]
        own = {s for one in found if one.kind == sample.kind for s in (*one.suffixes, *one.also)}
        others = {s for one in found for s in one.suffixes if may_stand_alone(one, s)}
        names = sorted(s.replace("*", "1") for s in others - own - sample.reads_as)
        check_renamed_is_refused(sample, iter(names), tmp_path)

    def test_a_single_nan_is_found(self, sample: Sample, tmp_path: Path) -> None:
        """Where the format holds numbers."""
        if sample.write_nan is not None:
            check_nan_is_found(sample, tmp_path)


def may_stand_alone(loader: type[Loader], suffix: str) -> bool:
    """A file with this suffix may have a name that `among` does not match."""
    return not loader.among or re.search(loader.among, f"alone{suffix}".rpartition("/")[2]) is None
