"""The border: what passes has its types and its bounds, and everything else is refused in one clean line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.backends.keeper import decode
from sojourn.backends.keeper.answer_shapes import ANSWERS
from sojourn.backends.keeper.client import Keeper, KeeperRefused, NoFrames
from sojourn.backends.keeper.decode import BadAnswer
from sojourn.backends.keeper.process import NotLaunched
from sojourn.backends.keeper.shapes import Wrong
from sojourn.backends.launcher import setsid
from sojourn.backends.slurm import output as slurm_output
from sojourn.box.call import _OPS
from sojourn.core.values import Ended, NoAnswer, Site
from sojourn.wire import framing

NOW = {"ok": True, "now": "2026-11-21T10:00:00.000Z", "boot_id": "b", "pid1_start": 1, "by": "/usr/bin/python3"}
ARGV = ["/usr/bin/python3", "-I", "-S", "/b/keepers/keeper-1.pyz", "supervise", "--root", "/b/runs/a"]
RUN = {"id": "a", "root": "/b/runs/a", "attempt": 1, "keeper": "alive", "payload": "alive", "offset": 3, "more": False}
ASKED: dict[str, dict[str, Any]] = {
    "have": {"names": ["a"]},
    "place": {"run": {"run": "a"}},
    "since": {"runs": {"a": 0}},
    "proven": {"run": "a"},
    "manifest": {"run": "a"},
    "remove": {"kind": "runs", "name": "a"},
    "reap": {"victims": [[2, 3]]},
    "bundle": {"run": "a"},
    "withdraw": {"runs": ["a"]},
    "forget_secrets": {"runs": ["a"]},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def since(row: Any, *blobs: bytes, **asked: Any) -> Any:
    return decode.decode("since", {"runs": {"a": 0}, **asked}, {**NOW, "runs": [row]}, blobs)


def test_every_op_of_the_keeper_has_its_shape() -> None:
    assert set(_OPS) <= set(ANSWERS)


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("op", sorted(ANSWERS))
@given(ANYTHING, st.lists(st.binary(max_size=20), max_size=2))
def test_whatever_is_said_is_decoded_or_wrong(op: str, value: Any, blobs: list[bytes]) -> None:
    for whole in (value, {**NOW, **value} if isinstance(value, dict) else value):
        try:
            json.dumps(decode.decode(op, ASKED.get(op, {}), whole, blobs), allow_nan=False)
        except Wrong as wrong:
            assert str(wrong).isprintable() and len(str(wrong)) < 800


@pytest.mark.parametrize(
    ("change", "blobs"),
    [
        ({"id": "b"}, [b"{}\n"]),
        ({"id": "../a"}, [b"{}\n"]),
        ({}, []),
        ({}, [b"{}\n", b"{}\n"]),
        ({"offset": 4}, [b"{}\n"]),
        ({"offset": -3}, [b"{}\n"]),
        ({}, [b"{} "]),
        ({"keeper": "gone"}, [b"{}\n"]),
        ({"keeper": "gone", "argv": ["rm", "-rf", "/"]}, [b"{}\n"]),
        ({"root": "/b/runs/../a"}, [b"{}\n"]),
        ({"root": "/b/runs/other"}, [b"{}\n"]),
        ({"log_bytes": float("nan")}, [b"{}\n"]),
        ({"log_age_s": 1 << 400}, [b"{}\n"]),
        ({"attempt": True}, [b"{}\n"]),
    ],
)
def test_a_row_that_does_not_fit_its_question_is_wrong(change: dict[str, Any], blobs: list[bytes]) -> None:
    since(RUN, b"{}\n")
    with pytest.raises(Wrong):
        since({**RUN, **change}, *blobs)


def test_a_progress_file_that_is_none_speaks_against_no_box() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    assert since({**RUN, "progress": {"step": deep}}, b"{}\n")["runs"][0]["progress"] is None


def test_more_events_than_the_limit_are_refused_and_the_limit_reaches_the_box() -> None:
    events = b"x" * (2 << 20) + b"\n"
    with pytest.raises(Wrong, match="limit"):
        since({**RUN, "offset": len(events)}, events, limit_bytes=1000)
    asked = []

    class Hearing:
        def call(self, argv: Any, *, stdin: bytes = b"", **how: Any) -> NoAnswer:
            asked.append((next(framing.frames(stdin))[1], how["limit_bytes"]))
            return NoAnswer(sent=True, kind="timeout", detail="")

    Keeper(Hearing(), Site("here", base="/b", python="/p")).ask("since", runs={}, limit_bytes=1000)  # type: ignore[arg-type]
    assert asked[0][0]["limit_bytes"] == 1000 and 1000 < asked[0][1] < 4 << 20


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"offset": 5}, (0, 9)), ({"offset": 0}, (4, 9)), ({"tail_lines": 2}, (10, 9)), ({"offset": 9}, (9, 5))],
)
def test_bytes_from_elsewhere_in_a_file_are_wrong(asked: dict[str, int], said: tuple[int, int]) -> None:
    with pytest.raises(Wrong):
        decode.decode("read", {"run": "a", **asked}, {**NOW, "offset": said[0], "size": said[1]}, [b"x"])


@pytest.mark.parametrize(
    ("asked", "said", "may"),
    [
        ("", "/home/me/.local/share/sojourn", True),
        ("", "/home/me/.ssh", False),
        ("/data/s", "/data/s", True),
        ("/data/s", "/data/other", False),
        ("~/runs", "/home/me/runs", True),
        ("~/runs", "/home/me/.ssh", False),
    ],
)
def test_a_base_is_the_one_that_was_asked_for(asked: str, said: str, may: bool) -> None:
    assert decode.is_base(asked, said) is may


class Replying:
    def __init__(self, ended: Ended) -> None:
        self.ended, self.puts = ended, list[str]()

    def call(self, argv: Any, **how: Any) -> Ended:
        return self.ended

    def put(self, local: str, remote: str, **how: Any) -> None:
        self.puts.append(remote)


def test_a_bad_answer_says_which_site_which_question_and_what() -> None:
    there = Replying(Ended(0, framing.pack_json({**NOW, "runs": [{**RUN, "id": "\x1b[2J" * 100}]}), b""))
    with pytest.raises(BadAnswer) as bad:
        Keeper(there, Site("gpu1", base="/b", python="/p")).ask("since", runs={"a": 0})  # type: ignore[arg-type]
    words = bad.value.message
    assert bad.value.exit_status == 5 and "gpu1" in words and "`since`" in words and "runs.0.id" in words
    assert words.isprintable() and len(words) < 300


@pytest.mark.parametrize("where", [b"/home/me/.ssh", b"/b/../etc", b"relative", b"/b\x00"])
def test_a_keeper_is_put_nowhere_but_below_the_base(where: bytes) -> None:
    there = Replying(Ended(126, b"sojourn:no-keeper\n" + where, b""))
    with pytest.raises(BadAnswer):
        Keeper(there, Site("gpu1", base="/b", python="/p")).ask("hello")  # type: ignore[arg-type]
    assert there.puts == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"ok": False, "code": "\x1b[2J", "message": "x"}, BadAnswer),
        ({"ok": False, "code": "other-argv", "message": "x", "argv": ["rm"]}, BadAnswer),
        ({"ok": False, "code": "no-such-run", "message": "x" * 100_000}, KeeperRefused),
        ([], BadAnswer),
    ],
)
def test_a_refusal_is_decoded_too(said: Any, error: type[Exception]) -> None:
    there = Replying(Ended(0, framing.pack_json(said), b""))
    with pytest.raises(error) as no:
        Keeper(there, Site("gpu1", base="/b", python="/p")).ask("hello")  # type: ignore[arg-type]
    assert len(str(no.value)) < 4000


def test_a_frame_of_too_many_parts_is_refused_before_it_takes_memory() -> None:
    bomb = framing.pack(b'{"ok":true,"x":[' + b"[]," * 4_500_000 + b"[]]}", b"J")
    with pytest.raises(NoFrames, match="larger than any valid one"):
        Keeper(Replying(Ended(0, bomb, b"")), Site("gpu1", base="/b", python="/p")).ask("look")  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [b"\xc2\xb2 1", b"9" * 5000 + b" 1", b"-1 1", b"1 2 b 4"])
def test_a_shell_that_tells_no_pid_started_nothing(told: bytes) -> None:
    with pytest.raises(NotLaunched):
        setsid.Backend().read(Ended(0, told + b"\n", b""), "/b/runs/a")


def test_a_row_of_a_scheduler_cannot_stand_for_a_billion_tasks() -> None:
    assert slurm_output.tasks("4_[0,2-3%2]") == ["4_0", "4_2", "4_3"]
    for row in ("4_[0-999999999]", "4_[" + "9" * 50 + "]", "4_[1-2-3]", "4_[,]"):
        assert slurm_output.tasks(row) == [row]
    assert slurm_output.records("sojourn:rc " + "9" * 5000 + "\n") == {}
