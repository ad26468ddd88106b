"""What one call answers: the box's facts, what somebody wants, what happened since."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List

import pytest

from sojourn.wire import events, framing
from tests.box.rig import Rig, found, heard, kill, until


def ended_run(rig: Rig, name: str = "r", script: str = "true") -> None:
    rig.finish(rig.place(script, run=name))


def test_hello_tells_the_box(rig: Rig) -> None:
    said = rig.call("hello")
    assert said["ok"] and said["base"] == str(rig.base) and said["keeper"] == str(rig.keeper)
    assert said["cpus"] >= 1 and said["memory_bytes"] > 1 << 20 and said["host"] and said["user"]
    assert set(said["cgroup"]) == {"version", "memory_limit_bytes", "cpu_quota"}
    room = said["disks"][str(rig.base)]
    assert 0 < room["free_bytes"] <= room["total_bytes"] and "free_inodes" in room
    assert said["has"]["bash"] is True and said["gpus"] == [] or said["gpus"][0]["name"]
    assert said["now"].endswith("Z") and said["boot_id"] and said["pid1_start"] >= 0


def test_a_damaged_keeper_says_so_instead_of_working(rig: Rig) -> None:
    with open(rig.keeper, "ab") as f:
        f.write(b"\n")
    said = rig.call("hello")
    assert (said["ok"], said["code"], said["keeper"]) == (False, "keeper-damaged", str(rig.keeper))


@pytest.mark.parametrize(
    "stdin, code",
    [
        (b"", "bad-request"),
        (b"GET / HTTP/1.1\r\n\r\n", "bad-request"),
        (framing.pack_json(["op"]), "bad-request"),
        (framing.pack(b"bytes"), "bad-request"),
        (framing.pack_json({"op": "rm -rf"}), "unknown-op"),
        (framing.pack_json({"op": "place"}), "bad-request"),
        (framing.pack_json({"op": "hello"})[:-1], "bad-request"),
    ],
)
def test_whatever_comes_in_an_answer_goes_out(rig: Rig, stdin: bytes, code: str) -> None:
    argv = [sys.executable, "-I", "-S", str(rig.keeper), "call"]
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=60)
    ((kind, said),) = list(framing.frames(done.stdout))
    assert (done.returncode, kind, said["ok"], said["code"]) == (0, b"J", False, code)
    assert "now" in said


def test_an_unknown_op_names_those_that_are_known_so_that_a_newer_client_can_do_without(rig: Rig) -> None:
    assert "since" in rig.call("weave")["ops"]


def test_placing_twice_is_harmless_and_another_job_of_that_name_is_refused(rig: Rig) -> None:
    root = rig.place("echo first")
    again = rig.call("place", run={"run": "r", "identity": "same", "argv": ["true"]}, want={"attempt": 1, "by": "run"})
    assert (again["ok"], again["placed"], again["root"]) == (True, False, root.path)
    other = rig.call("place", run={"run": "r", "identity": "other", "argv": ["true"]}, want={"attempt": 1})
    assert (other["ok"], other["code"], other["identity"]) == (False, "name-taken", "same")
    assert "echo first" in json.loads(Path(root.run).read_text())["argv"][-1]


def test_twenty_clients_placing_at_once_make_one_run(rig: Rig) -> None:
    answers: List[Dict[str, Any]] = []

    def place(number: int) -> None:
        spec = {"run": "r", "identity": "id-%d" % number, "argv": ["true"]}
        answers.append(rig.call("place", run=spec, want={"attempt": 1, "by": "run", "token": str(number)}))

    threads = [threading.Thread(target=place, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [answer for answer in answers if answer["ok"]]
    assert len(winners) == 1 and winners[0]["placed"]
    assert {answer["code"] for answer in answers if not answer["ok"]} == {"name-taken"}
    assert {answer.get("identity") for answer in answers} == {winners[0]["identity"]}
    assert sorted(os.listdir(winners[0]["root"])) == sorted(
        ["attempts", "checkpoints", "exits", "logs", "progress", "run.json", "want.json"]
    )


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", "A", "x\n", "-x", "x" * 64, "a..b", "\u00e9"])
def test_a_name_that_could_lead_elsewhere_is_no_name(rig: Rig, name: str) -> None:
    for op in ("place", "want", "stop", "manifest", "read"):
        said = rig.call(op, run={"run": name, "argv": ["true"]} if op == "place" else name, attempt=1)
        assert (said["ok"], said["code"]) == (False, "bad-name")
    assert not (rig.base / "runs").exists()


def test_what_is_wanted_only_grows_and_by_one(rig: Rig) -> None:
    ended_run(rig)
    assert rig.call("want", run="r", attempt=1, by="run")["attempt"] == 1
    refused = rig.call("want", run="r", attempt=3, by="resume")
    assert (refused["ok"], refused["code"], refused["last"]) == (False, "bad-want", 1)
    assert rig.call("want", run="r", attempt=2, by="resume", token="mine")["attempt"] == 2
    lower = rig.call("want", run="r", attempt=1, by="run", token="other")
    assert (lower["attempt"], lower["last"]) == (2, 1)
    assert json.loads((rig.base / "runs/r/want.json").read_text())["token"] == "mine"


def test_calls_for_a_run_that_is_not_here_say_so(rig: Rig) -> None:
    for op in ("want", "stop", "manifest", "read"):
        assert rig.call(op, run="nobody", attempt=1)["code"] == "no-such-run"


def test_the_argv_for_the_launcher_is_the_run_s_own_keeper(rig: Rig) -> None:
    older = rig.base / "keepers" / "keeper-older.pyz"
    older.write_bytes(rig.keeper.read_bytes())
    answer = rig.call(
        "place", run={"run": "r", "identity": "x", "argv": ["true"], "keeper": older.name}, want={"attempt": 1}
    )
    assert answer["argv"][1:4] == ["-I", "-S", str(older)]
    assert answer["argv"][4:] == ["supervise", "--root", answer["root"]]
    older.unlink()
    assert rig.call("want", run="r", attempt=1)["argv"][3] == str(rig.keeper)


def test_since_tells_every_run_of_the_box_in_one_answer(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        ended_run(rig, name)
    said = rig.call("since", runs=None)
    assert [row["id"] for row in said["runs"]] == ["a", "b", "c"] and len(said["blobs"]) == 3
    for row, blob in zip(said["runs"], said["blobs"]):
        kinds = [event["kind"] for event in events.parse(blob)[0]]
        assert kinds[0] == "attempt" and kinds[-1] == "sealed" and row["offset"] == len(blob)
        assert (row["keeper"], row["payload"], row["more"], row["identity"]) == ("gone", "gone", False, "same")
        assert row["log_bytes"] == 0 and row["log_age_s"] >= 0 and row["beat_age_s"] >= 0


def test_since_gives_only_what_is_new_in_whole_lines_and_gets_on_however_small_the_limit(rig: Rig) -> None:
    ended_run(rig)
    whole = (rig.base / "runs/r/events.jsonl").read_bytes()
    got, offset = b"", 0
    for _ in range(100):
        said = rig.call("since", runs={"r": offset}, limit_bytes=10)
        (row,) = said["runs"]
        got += said["blobs"][0]
        offset = row["offset"]
        assert got.endswith(b"\n") and row["more"] == (got != whole)
        if not row["more"]:
            break
    assert got == whole
    assert rig.call("since", runs={"r": offset})["blobs"] == [b""]


def test_since_leaves_out_what_is_not_here_and_waits_for_no_torn_line(rig: Rig) -> None:
    ended_run(rig)
    path = rig.base / "runs/r/events.jsonl"
    size = path.stat().st_size
    with open(path, "ab") as f:
        f.write(b'{"v":1,"seq":99,"ki')
    said = rig.call("since", runs={"r": 0, "nobody": 0})
    assert [row["id"] for row in said["runs"]] == ["r"]
    assert said["runs"][0]["offset"] == size


def test_an_offset_beyond_the_file_is_answered_from_the_start(rig: Rig) -> None:
    ended_run(rig)
    said = rig.call("since", runs={"r": 10_000_000})
    assert events.parse(said["blobs"][0])[0][0]["seq"] == 1


def test_pulses_are_told_apart(rig: Rig) -> None:
    def pulses() -> "tuple[str, str]":
        (row,) = rig.call("since", runs={"r": 0})["runs"]
        return row["keeper"], row["payload"]

    root = rig.place("exec sleep 600")
    assert pulses() == ("none", "none")
    keeper = rig.supervise(root)
    started = heard(root, "started")
    assert pulses() == ("alive", "alive")
    keeper.kill()
    keeper.wait()
    assert pulses() == ("gone", "alive")
    kill({started["pid"]})
    until(lambda: pulses() == ("gone", "gone"))
    keeper_json = Path(root.keeper)
    keeper_json.write_text(keeper_json.read_text().replace('"host": "', '"host": "not-'))
    assert pulses() == ("unknown", "unknown")  # it ran on another machine: what we see here proves nothing
    assert not found(root, "ended")


def test_have_tells_what_is_missing_by_kind(rig: Rig) -> None:
    digest = rig.snapshot({"a": b"1"})
    assert rig.call("have", kind="snapshots", names=[digest, "f" * 64])["missing"] == ["f" * 64]
    assert rig.call("have", kind="keepers", names=[rig.keeper.name, "keeper-x.pyz"])["missing"] == ["keeper-x.pyz"]
    assert rig.call("have", kind="train", names=["train-x.zip"])["missing"] == ["train-x.zip"]
    assert rig.call("have", kind="envs", names=["0" * 64])["missing"] == ["0" * 64]
    assert rig.call("have", kind="runs", names=[])["code"] == "bad-request"
    assert rig.call("have", kind="keepers", names=["../runs"])["code"] == "unsafe-path"


def test_a_locale_that_knows_no_utf8_does_not_matter(rig: Rig) -> None:
    rig.place("true")
    request = framing.pack_json({"op": "since", "runs": None})
    env = dict(os.environ, LC_ALL="C", LANG="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    argv = [sys.executable, "-I", "-S", "-X", "utf8=0", str(rig.keeper), "call"]
    done = subprocess.run(argv, input=request, capture_output=True, env=env, timeout=60)
    ((_, said), _) = list(framing.frames(done.stdout))
    assert said["runs"][0]["root"] == str(rig.base / "runs/r")


def test_the_keeper_says_its_version_and_refuses_words_it_does_not_know(rig: Rig) -> None:
    argv = [sys.executable, "-I", "-S", str(rig.keeper)]
    said = subprocess.run(argv + ["--version"], capture_output=True, timeout=60)
    assert said.returncode == 0 and rig.keeper.name.encode() in said.stdout
    for words in ([], ["supervise"], ["supervise", "--root"], ["dance"]):
        assert subprocess.run(argv + words, capture_output=True, timeout=60).returncode == 2
