"""What every loader must do, shown on specimens made from a good sample of its own format. Use it like this:

    @pytest.mark.parametrize("specimen", list(loader.specimens(good, sample)), ids=lambda s: s.what)
    def test_x_refuses_what_is_damaged(specimen, tmp_path): loader.check_refused(sample, specimen, tmp_path)

A good sample is written by the real library of its format. The suite judges through the same door as `verify` does, in
this process (`judge`), and through `prove` where a manifest is part of the promise.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from sojourn.backends.proof.judge import Judgement, judge_file
from sojourn.backends.proof.proof import Prover
from sojourn.formats.damage import PROBLEMS

HOLE_BYTES = 8192


@dataclass(frozen=True)
class Sample:
    """A format and how to write one good file of it.

    `write(path)` makes a good file of at least 4 * HOLE_BYTES where the format can hold that much; `write_nan(path)`
    the same with one NaN in it (None: the format holds no numbers). `payload(good)`: the (begin, end) parts of the file
    whose every bit the format itself guards by a checksum (none: only a manifest can tell). `hides(damaged)`: these
    bytes are a whole file of the format all the same (lines cut between two lines). `proved`: what is done with a good
    one.
    """

    kind: str
    suffix: str
    write: Callable[[str], None]
    write_nan: Callable[[str], None] | None = None
    payload: Callable[[bytes], list[tuple[int, int]]] = lambda good: []
    hides: Callable[[bytes], bool] = lambda damaged: False
    proved: frozenset[str] = frozenset({"structure", "load", "content"})

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
