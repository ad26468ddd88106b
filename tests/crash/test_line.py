"""The transport that fails on purpose: sound where no fault is planned, and each fault is what it says."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.transport import local
from sojourn.core.values import Ended, NoAnswer, Place, Site
from sojourn.testing.contracts.transport import TransportContract
from sojourn.testing.faults import CALLS, UNSENT, Backend, Faulty, Plan

MARK = ["sh", "-c", 'cat >> "$0"; echo 0123456789', "/the/mark"]


class TestWithoutAPlan(TransportContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: Backend(Place(Site("far", transport="faulty", address=str(tmp_path))))

    @pytest.fixture
    def there(self, tmp_path: Path) -> str:
        return str(tmp_path / "there")


def faulty(kind: str, most: int = 1) -> Faulty:
    return Faulty(local.Backend(), Plan("seed", 1.0, most, (kind,)))


def marked(path: Path, kind: str) -> tuple[Ended | NoAnswer, bytes]:
    """A call under one fault: its answer, and what it did."""
    answer = faulty(kind).call([*MARK[:3], str(path)], stdin=b"was-here")
    return answer, path.read_bytes() if path.exists() else b""


@pytest.mark.parametrize("kind", UNSENT)
def test_what_was_never_sent_did_nothing(kind: str, tmp_path: Path) -> None:
    answer, did = marked(tmp_path / "mark", kind)
    assert isinstance(answer, NoAnswer) and (answer.sent, answer.kind, did) == (False, kind, b"")
    assert isinstance(faulty(kind).put(__file__, str(tmp_path / "x")), NoAnswer) and not (tmp_path / "x").exists()
    assert isinstance(faulty(kind).get(__file__, str(tmp_path / "y")), NoAnswer) and not (tmp_path / "y").exists()


@pytest.mark.parametrize("kind", CALLS)
def test_what_was_sent_was_done_and_comes_back_otherwise(kind: str, tmp_path: Path) -> None:
    answer, did = marked(tmp_path / "mark", kind)
    assert did == {"twice": b"was-here" * 2}.get(kind, b"was-here") or (kind == "reset" and b"was-here".startswith(did))
    if kind in ("unheard", "reset"):
        assert isinstance(answer, NoAnswer) and answer.sent
    else:
        assert isinstance(answer, Ended)
        assert (answer.stdout == b"0123456789\n") == (kind == "twice")
        assert kind != "chatter" or answer.stdout.endswith(b"0123456789\n")


@pytest.mark.parametrize("kind", ["unheard", "cut", "flipped"])
def test_a_file_that_comes_home_damaged_or_in_part(kind: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(bytes(1000))
    answer = faulty(kind).get(str(tmp_path / "there"), str(tmp_path / "here"))
    here = (tmp_path / "here").read_bytes()
    assert isinstance(answer, NoAnswer) == (kind != "flipped")
    assert (len(here) == 1000) == (kind != "cut")
    assert (here == bytes(len(here))) == (kind != "flipped")


def test_no_more_faults_than_planned_and_each_is_written_down(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    line = Faulty(local.Backend(), Plan("seed", 1.0, 3, log=log))
    for _ in range(9):
        line.call(["true"])
    assert len(line.injected) == 3 and len(Path(log).read_text().splitlines()) == 3
    assert isinstance(line.call(["true"]), Ended) and os.path.getsize(log) > 0
