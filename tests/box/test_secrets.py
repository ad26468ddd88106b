"""A run's secrets on the box: only in the environment, 0600 while they are needed, hidden in logs, gone at the end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from sojourn.box.run import secrets
from sojourn.box.run.root import Root
from tests.box.rig import Rig, found, heard, keeper_log, log, until

VALUE = "hush-hush żółty 7f3a9\nsecond line of it"


def place(rig: Rig, script: str, values: dict[str, str], **spec: object) -> Root:
    root = rig.place(script, secrets=sorted(values), **spec)
    answer = rig.call("want", run="r", attempt=1, by="run", secrets=values)
    assert answer["ok"], answer
    return root


def holding(root: Root, value: str) -> list[Path]:
    """Files of the root that hold any line of the value."""
    lines = [line.encode() for line in value.splitlines()]
    files = [path for path in Path(root.path).rglob("*") if path.is_file()]
    return [path for path in files if any(line in path.read_bytes() for line in lines)]


def test_a_secret_is_found_in_the_environment_and_nowhere_when_the_run_is_over(rig: Rig) -> None:
    rig.env["KEY"] = "what the keeper's own environment says does not count"
    root = place(rig, 'printf %s "$KEY" | sha256sum; echo "the key is $KEY!"', {"KEY": VALUE})
    assert os.stat(root.secrets).st_mode & 0o777 == 0o600
    assert rig.finish(root)["state"] == "succeeded"
    assert hashlib.sha256(VALUE.encode()).hexdigest() in log(root)
    assert "the key is ***KEY***" in log(root) and log(root).endswith("*!\n")
    assert holding(root, VALUE) == [] and not os.path.exists(root.secrets)
    assert found(root, "masked")[0]["names"] == {"KEY": 1}
    kinds = [json.loads(line)["kind"] for line in Path(root.events).read_text().splitlines()]
    assert kinds.index("masked") < kinds.index("sealed")


def test_the_sealed_manifest_is_that_of_the_masked_log(rig: Rig) -> None:
    root = place(rig, 'echo "$KEY"', {"KEY": VALUE})
    rig.finish(root)
    row = next(r for r in json.loads(Path(root.manifest).read_text())["files"] if r["role"] == "log")
    assert row["sha256"] == hashlib.sha256(Path(root.log(1)).read_bytes()).hexdigest()
    assert rig.call("manifest", run="r", fresh=True)["manifest"]["digest"] == found(root, "sealed")[0]["manifest"]


def test_setup_finds_the_secrets_too(rig: Rig) -> None:
    root = place(rig, "true", {"KEY": "for-the-index"}, setup='test "$KEY" = for-the-index && echo "with $KEY"')
    assert rig.finish(root)["state"] == "succeeded", log(root)
    assert "with ***KEY***" in log(root)


def test_while_it_runs_a_log_is_read_masked_piece_by_piece(rig: Rig) -> None:
    root = place(rig, 'echo "a $KEY b"; printf "%s" "${KEY%?}"; sleep 60', {"KEY": VALUE})
    rig.supervise(root)
    heard(root, "started")
    until(lambda: os.path.exists(root.log(1)))
    raw = until(lambda: (data := Path(root.log(1)).read_bytes()).count(b"second") == 2 and data)
    whole = rig.call("read", run="r", log=1)["blobs"][0]
    assert whole.startswith(b"a ***KEY***") and b"hush" not in whole and b"second" not in whole
    assert len(whole) == len(b"a " + VALUE.encode() + b" b\n")  # what may become the key is kept back
    pieces, at = b"", 0
    while piece := rig.call("read", run="r", log=1, offset=at, length=7)["blobs"][0]:
        pieces, at = pieces + piece, at + len(piece)
    assert pieces == whole
    tail = rig.call("read", run="r", log=1, tail_lines=1)["blobs"][0]
    assert b"second" not in tail and raw.endswith(b"second line of i")
    os.kill(found(root, "started")[0]["pid"], signal.SIGKILL)
    heard(root, "sealed")
    assert b"second line of i" in rig.call("read", run="r", log=1)["blobs"][0]  # it never became the key


def test_the_file_of_secrets_is_neither_read_nor_an_output(rig: Rig) -> None:
    outputs = ["*.json", "copy", "**"]
    root = place(rig, 'ln -s "$SOJOURN_RUN_DIR/secrets.json" copy; sleep 60', {"KEY": "hush-hush"}, outputs=outputs)
    rig.supervise(root)
    until(lambda: os.path.islink(root.attempt(1) + "/copy"))
    for path in ("secrets.json", "attempts/1/copy"):
        answer = rig.call("read", run="r", path=path)
        assert (answer["ok"], answer["code"]) == (False, "unsafe-path")
    document = rig.call("manifest", run="r", fresh=True)["manifest"]
    assert [row["path"] for row in document["files"]] == []  # no log either, while it may hold them
    assert {"path": "copy", "why": "the run's secrets"} in document["refused"]


def test_the_keeper_itself_goes_on_with_them_and_they_go_at_the_end(rig: Rig) -> None:
    script = 'test ${#KEY} = 9; echo "$SOJOURN_ATTEMPT $KEY"; test $SOJOURN_ATTEMPT = 2 || exit 75'
    root = place(rig, script, {"KEY": "hush-hush"}, retry={"attempts": 2, "on": ["preempted"]})
    assert rig.finish(root)["state"] == "succeeded"
    assert found(root, "ended")[0]["state"] == "preempted"
    assert log(root, 1) == "1 ***KEY***"[:11] + "\n" and log(root, 2) == "2 ***KEY***"[:11] + "\n"
    assert holding(root, "hush-hush") == []


def test_where_keeper_and_payload_were_killed_the_next_keeper_removes_them(rig: Rig) -> None:
    root = place(rig, 'echo "$KEY"; sleep 60', {"KEY": "hush-hush"})
    keeper = rig.supervise(root)
    pid = heard(root, "started")["pid"]
    until(lambda: "hush" in Path(root.log(1)).read_text() if os.path.exists(root.log(1)) else False)
    keeper.kill()
    keeper.wait()
    os.kill(pid, signal.SIGKILL)
    assert os.path.exists(root.secrets)
    rig.finish(root)
    assert holding(root, "hush-hush") == []


def test_an_attempt_whose_secret_is_gone_says_so_and_runs_nothing(rig: Rig) -> None:
    root = rig.place("echo ran", secrets=["KEY"])
    ended = rig.finish(root)
    assert (ended["state"], ended["why"]) == ("failed", "prepare") and "the secret KEY" in ended["detail"]
    assert not os.path.exists(root.log(1)) or "ran" not in log(root)


def test_values_for_a_later_attempt_do_not_reach_the_one_that_lives(rig: Rig) -> None:
    root = place(rig, 'while test ! -e "$SOJOURN_RUN_DIR/go"; do sleep 0.05; done; echo "$KEY"', {"KEY": "first-value"})
    rig.supervise(root)
    heard(root, "started")
    assert rig.call("want", run="r", attempt=1, secrets={"KEY": "other-value"})["ok"]
    assert secrets.read_secrets(root) == {"KEY": "first-value"}
    Path(root.path, "go").touch()
    heard(root, "sealed")
    assert holding(root, "first-value") == []


@pytest.mark.parametrize("given", [["hush-hush"], {"KEY": 7}, {"OTHER": "hush-hush"}, {"KEY": "hush-hush\0"}])
def test_what_is_no_set_of_named_texts_is_refused_without_showing_it(rig: Rig, given: object) -> None:
    rig.place("true", secrets=["KEY"])
    answer = rig.call("want", run="r", attempt=1, secrets=given)
    assert not answer["ok"] and answer["code"] == "bad-request" and "hush" not in json.dumps(answer)


def test_a_value_that_is_not_utf8_arrives_byte_by_byte(rig: Rig) -> None:
    value = os.fsdecode(b"caf\xe9-\xff-token")
    root = place(rig, 'printf %s "$KEY" | sha256sum; echo "$KEY"', {"KEY": value})
    rig.finish(root)
    assert hashlib.sha256(os.fsencode(value)).hexdigest() in log(root)
    assert b"\xff-token" not in Path(root.log(1)).read_bytes() and "Traceback" not in keeper_log(root)


def test_a_command_line_left_behind_is_noted_without_the_secret_in_it(rig: Rig) -> None:
    root = place(rig, 'setsid bash -c ": $KEY; sleep 60" & sleep 0.3', {"KEY": "hush-hush"}, grace_s=0.5)
    rig.finish(root)
    assert any("left behind" in event["why"] for event in found(root, "signal"))
    assert holding(root, "hush-hush") == []
