"""Several questions in one call: done in order, up to the first that is refused."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from sojourn.wire import framing, manifest
from tests.box.rig import Rig, found, heard

SETTLE_S = 0.2


def batch(rig: Rig, *ops: Dict[str, Any], blobs: Tuple[bytes, ...] = ()) -> Tuple[List[Dict[str, Any]], List[bytes]]:
    """The answers, and all byte frames."""
    request = framing.pack_json({"op": "batch", "ops": list(ops)}) + b"".join(framing.pack(blob) for blob in blobs)
    argv = [sys.executable, "-I", "-S", str(rig.keeper), "call"]
    done = subprocess.run(argv, input=request, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    (_, head), *rest = framing.frames(done.stdout)
    assert head["ok"] and head["now"], head
    return head["answers"], [data for _, data in rest]


def spec(script: str, run: str = "r") -> Dict[str, Any]:
    argv = ["bash", "-eo", "pipefail", "-c", script]
    return {"run": run, "name": run, "argv": argv, "identity": "same", "beat_s": 0.1, "grace_s": 2.0, "outputs": []}


def begin(
    rig: Rig, script: str, wait_s: float = 30.0, words: Any = None, settle_s: float = SETTLE_S
) -> List[Dict[str, Any]]:
    """Place, start the keeper as `setsid` would, and stay until it is proven."""
    argv = rig.call("hello", run="r")["argv"]
    words = words or ["sh", "-c", 'setsid "$@" </dev/null >/dev/null 2>&1 & echo $!', "sojourn", *argv]
    return batch(
        rig,
        {"op": "place", "run": spec(script), "want": {"attempt": 1, "by": "run"}},
        {"op": "command", "run": "r", "argv": argv, "words": words, "timeout_s": 20},
        {"op": "proven", "run": "r", "attempt": 1, "settle_s": settle_s, "wait_s": wait_s},
    )[0]


@pytest.fixture
def pushed() -> Tuple[bytes, str, List[Dict[str, Any]]]:
    """An archive, its digest and its roster."""
    data, pack = b"print(1)\n", io.BytesIO()
    with tarfile.open(fileobj=pack, mode="w") as tar:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    rows = [{"path": "train.py", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "role": "f"}]
    return pack.getvalue(), manifest.roster_digest(rows), rows


def test_each_op_has_its_answer_and_its_frames(rig: Rig) -> None:
    rig.finish(rig.place())
    answers, blobs = batch(
        rig, {"op": "hello"}, {"op": "since", "runs": {"r": 0}}, {"op": "have", "kind": "train", "names": ["x"]}
    )
    assert [answer["ok"] for answer in answers] == [True, True, True]
    assert [answer["frames"] for answer in answers] == [0, 1, 0]
    assert answers[1]["runs"][0]["offset"] == len(blobs[0]) and answers[2]["missing"] == ["x"]


def test_what_comes_after_a_refusal_is_not_done(rig: Rig) -> None:
    place = {"op": "place", "run": spec("true"), "want": {"attempt": 1, "by": "run"}}
    answers, _ = batch(rig, {"op": "have", "kind": "train", "names": []}, {"op": "read", "run": "r", "log": 1}, place)
    assert [answer["ok"] for answer in answers] == [True, False] and answers[1]["code"] == "no-such-run"
    assert not (rig.base / "runs/r").exists()


@pytest.mark.parametrize("ops", [None, "x", [1], [{"op": "batch", "ops": []}], [{"op": "nothing"}]])
def test_a_batch_that_is_none_is_refused(rig: Rig, ops: Any) -> None:
    said = rig.call("batch", ops=ops)
    last = said if not said["ok"] else said["answers"][-1]
    assert (last["ok"], last["code"]) in ((False, "bad-request"), (False, "unknown-op"))


def test_a_snapshot_comes_along_with_the_question(rig: Rig, pushed: Tuple[bytes, str, List[Dict[str, Any]]]) -> None:
    pack, digest, rows = pushed
    ask = {"op": "unpack", "digest": digest, "roster": rows}
    for made in (True, False):  # again: it is there, and its frame is taken all the same
        (said, then), _ = batch(rig, ask, {"op": "have", "kind": "snapshots", "names": [digest]}, blobs=(pack,))
        assert said["ok"] and said["made"] is made and then["missing"] == []
    assert (rig.base / "snapshots" / digest / "tree/train.py").read_bytes() == b"print(1)\n"
    assert os.listdir(rig.base / "staging") == []


@pytest.mark.parametrize(
    "spoil", [lambda pack: pack.replace(b"(1)", b"(2)"), lambda pack: pack[:100], lambda pack: b""]
)
def test_a_snapshot_that_came_damaged_is_not_made(
    rig: Rig, pushed: Tuple[bytes, str, List[Dict[str, Any]]], spoil: Any
) -> None:
    pack, digest, rows = pushed
    (said,), _ = batch(rig, {"op": "unpack", "digest": digest, "roster": rows}, blobs=(spoil(pack),))
    assert (said["ok"], said["code"]) == (False, "hash-mismatch")
    assert not (rig.base / "snapshots" / digest).exists()


def test_a_snapshot_that_did_not_come_is_not_made(rig: Rig, pushed: Tuple[bytes, str, List[Dict[str, Any]]]) -> None:
    _, digest, rows = pushed
    (said,), _ = batch(rig, {"op": "unpack", "digest": digest, "roster": rows})
    assert (said["ok"], said["code"]) == (False, "bad-request")


def test_one_call_places_starts_and_sees_it_live(rig: Rig) -> None:
    placed, started, proven = begin(rig, "sleep 60")
    assert placed["ok"] and started["rc"] == 0
    assert proven["proven"] is True and proven["runs"][0]["payload"] == "alive"
    assert len(found(_root(rig), "started")) == 1


def test_what_ends_at_once_is_answered_with_its_end(rig: Rig) -> None:
    _, _, proven = begin(rig, "exit 3", settle_s=60.0)  # its end comes first, however slow its shell is
    assert proven["proven"] is False
    assert [event["rc"] for event in found(_root(rig), "ended")] == [3]


def test_what_does_not_begin_is_waited_for_no_longer_than_was_asked(rig: Rig) -> None:
    _, started, proven = begin(rig, "true", wait_s=0.1, words=["true"])
    assert started["rc"] == 0 and proven["proven"] is False and proven["runs"][0]["attempt"] == 0


def test_an_attempt_that_is_known_to_have_begun_needs_no_new_event(rig: Rig) -> None:
    begin(rig, "sleep 60")
    size = os.path.getsize(_root(rig).events)
    asked = {"op": "proven", "run": "r", "attempt": 1, "settle_s": SETTLE_S, "wait_s": 30, "offset": size}
    assert rig.call(**asked, is_begun=True)["proven"] is True


def test_a_keeper_is_started_only_as_the_box_says(rig: Rig, tmp_path: Path) -> None:
    argv = rig.call("hello", run="r")["argv"]
    rig.place("true")
    said = rig.call(
        "command", run="r", argv=[*argv[:-1], "/elsewhere"], words=["touch", str(tmp_path / "x")], timeout_s=9
    )
    assert (said["ok"], said["code"], said["argv"]) == (False, "other-argv", argv)
    assert not (tmp_path / "x").exists()


def test_a_launcher_that_does_not_come_back_or_fails_is_said_and_nothing_is_waited_for(rig: Rig) -> None:
    argv = rig.call("hello", run="r")["argv"]
    rig.place("true")
    ask = {"op": "command", "run": "r", "argv": argv, "timeout_s": 20}
    late = rig.call(**{**ask, "words": ["sleep", "60"], "timeout_s": 0.1})
    assert (late["code"], late["rc"]) == ("command-failed", -1) and "no end" in late["err"]
    bad = {**ask, "words": ["sh", "-c", "echo out; echo why >&2; exit 3"]}
    wait = {"op": "proven", "run": "r", "attempt": 1, "settle_s": 60, "wait_s": 60}
    (said,), _ = batch(rig, bad, wait)
    assert (said["code"], said["rc"], said["out"], said["err"]) == ("command-failed", 3, "out\n", "why\n")
    assert rig.call(**bad, may_fail=True)["rc"] == 3


def test_a_run_whose_events_have_grown_is_told_though_nobody_asked_for_it(rig: Rig) -> None:
    rig.finish(rig.place())
    rig.finish(rig.place(run="s"))
    sizes = {run: os.path.getsize(rig.base / "runs" / run / "events.jsonl") for run in "rs"}
    assert rig.call("since", runs={}, moved={**sizes, "nobody": 0})["runs"] == []
    said = rig.call("since", runs={}, moved={"r": sizes["r"] - 1, "s": sizes["s"]})
    assert [row["id"] for row in said["runs"]] == ["r"] and said["runs"][0]["offset"] == sizes["r"]


def test_where_no_keeper_lives_the_answer_says_how_to_start_one(rig: Rig) -> None:
    root = rig.place("sleep 60")
    (row,) = rig.call("since", runs={"r": 0})["runs"]
    assert row["argv"] == rig.call("want", run="r", attempt=1)["argv"]
    rig.supervise(root)
    heard(root, "beat")
    assert "argv" not in rig.call("since", runs={"r": 0})["runs"][0]


def _root(rig: Rig) -> Any:
    from sojourn.box.run.root import Root

    return Root(str(rig.base / "runs/r"))
