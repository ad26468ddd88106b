"""What a run owes under all of its attempts: what stands, what stands in for it, what is gone."""

import json
import mmap
import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from sojourn.box.run import roster
from sojourn.box.run.root import Root
from sojourn.box.system import hashing
from sojourn.wire import atomic, events, manifest
from sojourn.wire.manifest import digest_of
from tests.box.rig import Rig, shown


def run_of(rig: Rig, states: List[str], files: Dict[str, str], **spec: Any) -> Root:
    """A run with an attempt for each of `states` ("" = it has no end) and with `files` (path in the root: content)."""
    root = rig.place("true", **dict({"outputs": ["out/*"]}, **spec))
    lines = []
    for number, state in enumerate(states, 1):
        os.makedirs(root.attempt(number), exist_ok=True)
        lines += [("attempt", number, {}), ("started", number, {"pid": 1, "start": 1})]
        lines += [("ended", number, {"state": state})] if state else []
    with open(root.events, "ab") as f:
        for seq, (kind, number, fields) in enumerate(lines, 1):
            f.write(events.line(seq, "2026-01-01T00:00:00Z", kind, number, fields))
    for path, text in files.items():
        full = Path(root.path, path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
    return root


def taken(rig: Rig, **fields: Any) -> Dict[str, Any]:
    """A manifest taken now; twice, since two looks at the same files must have one digest."""
    first, second = (rig.call("manifest", run="r", fresh=True, **fields) for _ in range(2))
    assert first["ok"], first
    assert first["manifest"]["digest"] == second["manifest"]["digest"] == digest_of(first["manifest"])
    document: Dict[str, Any] = first["manifest"]
    return document


def sources(rows: List[Dict[str, Any]], role: str = "output") -> List[str]:
    return [row["from"] for row in rows if row["role"] == role]


def test_a_file_that_only_an_older_attempt_made_is_owed(rig: Rig) -> None:
    run_of(rig, ["killed", "failed", "failed"], {"attempts/1/out/ckpt.pt": "9.6 MB"})
    document = taken(rig)
    assert sources(document["files"]) == ["attempts/1/out/ckpt.pt"] and document["missing"] == []


def test_without_a_success_the_newest_is_owed_and_older_ones_stand_in_for_it(rig: Rig) -> None:
    files = {"attempts/%d/out/a" % n: "of %d" % n for n in (1, 2, 10)}
    run_of(rig, ["failed"] * 10, dict(files, **{"out/a": "of the root"}))
    document = taken(rig)
    assert sources(document["files"]) == ["attempts/10/out/a"] and document["superseded"] == 0
    assert sources(document["earlier"]) == ["out/a", "attempts/2/out/a", "attempts/1/out/a"]


def test_one_content_under_many_attempts_is_one_candidate(rig: Rig) -> None:
    run_of(rig, ["failed"] * 3, {"attempts/%d/out/a" % n: "the same" for n in (1, 2, 3)})
    document = taken(rig)
    assert sources(document["files"]) == ["attempts/3/out/a"] and document["earlier"] == []


def test_a_success_stands_alone_and_counts_what_it_replaced(rig: Rig) -> None:
    files = {"attempts/1/out/a": "old", "attempts/2/out/a": "new", "attempts/3/out/a": "last", "out/b": "root"}
    files.update({"attempts/1/out/c": "only here", "attempts/2/out/b": "other"})
    run_of(rig, ["failed", "failed", "succeeded"], files)
    document = taken(rig)
    assert sources(document["files"]) == ["attempts/3/out/a", "out/b", "attempts/1/out/c"]
    assert document["earlier"] == [] and document["superseded"] == 3


def test_a_success_that_a_later_attempt_followed_supersedes_nothing(rig: Rig) -> None:
    run_of(rig, ["succeeded", "killed"], {"attempts/1/out/a": "done", "attempts/2/out/a": "half"})
    document = taken(rig)
    assert sources(document["files"]) == ["attempts/2/out/a"] and sources(document["earlier"]) == ["attempts/1/out/a"]


def test_code_as_it_was_pushed_does_not_hide_what_an_earlier_attempt_made_of_it(rig: Rig) -> None:
    code = rig.snapshot({"out/result.json": b"committed", "out/untouched": b"x"})
    files = {"attempts/1/out/result.json": "computed", "attempts/2/out/result.json": "committed"}
    files.update({"attempts/1/out/untouched": "x", "attempts/2/out/untouched": "x"})
    run_of(rig, ["killed", "failed"], files, code=code)
    document = taken(rig)
    assert sources(document["files"]) == ["attempts/1/out/result.json", "attempts/2/out/untouched"]
    assert sources(document["earlier"]) == ["attempts/2/out/result.json"]


def test_a_success_that_left_code_as_it_was_pushed_replaces_nothing_that_was_made(rig: Rig) -> None:
    code = rig.snapshot({"best.pt": b"as pushed"})
    files = {"attempts/1/best.pt": "trained", "attempts/2/best.pt": "as pushed"}
    run_of(rig, ["killed", "succeeded"], files, outputs=["best.pt"], code=code)
    assert sources(taken(rig)["files"]) == ["attempts/1/best.pt"]


def test_the_newest_checkpoint_of_an_unfinished_run_is_owed_and_the_one_before_stands_in(rig: Rig) -> None:
    names = ["ckpt-t000001-s00000099.pt", "ckpt-t000002-s00000010.pt", "ckpt-t000002-s00000009.pt"]
    files = {"checkpoints/" + name: name for name in names}
    files.update({"checkpoints/latest.json": "{}", "checkpoints/.ckpt-t000003-s00000001.pt.7.tmp": "half"})
    run_of(rig, ["killed", "killed"], files)
    document = taken(rig)
    row, before = document["files"][0], document["earlier"][0]
    assert len(document["files"]) == len(document["earlier"]) == 1, shown(document)
    assert (row["path"], row["set"], row["role"]) == ("checkpoints/" + names[1], names[1], "checkpoint")
    assert (before["path"], before["set"], before["role"]) == ("checkpoints/" + names[2], names[2], "checkpoint")


def test_a_folder_counts_as_a_checkpoint_with_its_seal_alone(rig: Rig) -> None:
    whole, half = "ckpt-t000001-s00000005-1", "ckpt-t000001-s00000009"
    files = {"checkpoints/%s/%s" % (whole, name): name for name in ("a.distcp", ".metadata", "sojourn-seal.json")}
    run_of(rig, ["killed"], dict(files, **{"checkpoints/%s/a.distcp" % half: "half"}))
    document = taken(rig)
    assert [row["path"] for row in document["files"]] == sorted(files)
    assert {row["set"] for row in document["files"]} == {whole} and document["earlier"] == []


def test_a_checkpoint_that_is_an_output_too_is_one_row(rig: Rig) -> None:
    name = "ckpt-t000001-s00000005.pt"
    run_of(rig, ["killed"], {"checkpoints/" + name: "x"}, outputs=["checkpoints/*.pt"])
    rows = taken(rig)["files"]
    assert [(row["role"], row["set"]) for row in rows] == [("output", name)]


def test_a_run_that_has_succeeded_owes_no_checkpoint(rig: Rig) -> None:
    run_of(rig, ["killed", "succeeded"], {"checkpoints/ckpt-t000001-s00000005.pt": "x"})
    document = taken(rig)
    assert document["files"] == document["earlier"] == []


def test_what_was_sealed_and_is_nowhere_any_more_is_gone_and_stays_so_through_the_next_seal(rig: Rig) -> None:
    root = rig.place("mkdir out; echo 1 > out/a; echo 2 > out/b; exit 3", outputs=["out/*"])
    rig.finish(root)
    sealed = rig.call("manifest", run="r")["manifest"]
    os.unlink(os.path.join(root.attempt(1), "out/a"))
    document = taken(rig)
    assert document["gone"] == [{key: sealed["files"][-2][key] for key in ("path", "bytes", "sha256")}]
    assert document["digest"] != sealed["digest"]
    atomic.write_json(root.manifest, document)  # as the next seal would be
    assert taken(rig)["gone"] == document["gone"] and taken(rig)["digest"] == document["digest"]


def test_an_output_that_was_rewritten_after_the_seal_says_so(rig: Rig) -> None:
    root = rig.place("echo 1 > a; echo 2 > b; exit 3", outputs=["a", "b"])
    rig.finish(root)
    sealed = {row["path"]: row["sha256"] for row in rig.call("manifest", run="r")["manifest"]["files"]}
    Path(root.attempt(1), "a").write_text("other\n")
    for _ in range(2):  # also when that was sealed in its turn
        document = taken(rig)
        assert [row.get("sealed") for row in document["files"][:2]] == [sealed["a"], None]
        atomic.write_json(root.manifest, document)
    Path(root.attempt(1), "a").write_text("1\n")
    assert "sealed" not in taken(rig)["files"][0]


def test_older_checkpoints_that_a_training_pruned_are_not_gone(rig: Rig) -> None:
    old, new = "checkpoints/ckpt-t000001-s00000005.pt", "checkpoints/ckpt-t000002-s00000009.pt"
    root = run_of(rig, ["killed"], {old: "x"}, outputs=["checkpoints/*.pt"])
    atomic.write_json(root.manifest, taken(rig))
    os.rename(os.path.join(root.path, old), os.path.join(root.path, new))
    assert taken(rig)["gone"] == []
    os.unlink(os.path.join(root.path, new))
    assert [row["path"] for row in taken(rig)["gone"]] == [old]


def test_a_seal_of_an_earlier_keeper_is_complete_for_its_attempt_alone_so_the_run_is_listed_again(rig: Rig) -> None:
    root = run_of(rig, ["killed", "failed"], {"attempts/1/out/a": "1"})
    old = {"schema": "sojourn/manifest/v1", "run": "r", "attempt": 2, "files": [], "missing": ["out/*"], "refused": []}
    atomic.write_json(root.manifest, dict(old, digest=digest_of(old)))
    answer = rig.call("manifest", run="r")
    assert answer["sealed"] is False and sources(answer["manifest"]["files"]) == ["attempts/1/out/a"]


def test_only_a_file_whose_whole_stat_is_known_is_not_read_again(rig: Rig) -> None:
    root = run_of(rig, ["failed"], {"attempts/1/out/a": "aaaa", "attempts/1/out/b": "bbbb"})
    rows = taken(rig)["files"]
    claim = "f" * 64  # shows which of them was believed
    known = {row["from"]: {"stat": row["stat"], "bytes": row["bytes"], "sha256": claim} for row in rows}
    path = Path(root.attempt(1), "out/b")
    before = path.stat()
    path.write_text("BBBB")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # everything as before but the time of the change
    now = taken(rig, known=known)["files"]
    assert now[0]["sha256"] == claim and now[1]["sha256"] not in (claim, rows[1]["sha256"])


@pytest.mark.campaign
def test_the_next_seal_does_not_read_again_what_an_earlier_one_hashed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rig.place("echo 1 > a; exit 3", outputs=["a"])
    rig.finish(root)
    rows = taken(rig)["files"]
    spec = json.loads(Path(root.run).read_text())
    monkeypatch.setattr(hashing, "_telling_devices", lambda: {row["stat"][0] for row in rows})
    read: List[str] = []
    plain = manifest.sha256_stream
    monkeypatch.setattr(manifest, "sha256_stream", lambda f, **how: (read.append(f.name), plain(f, **how))[1])
    atomic.write_json(root.manifest, dict(json.loads(Path(root.manifest).read_text()), files=rows))
    again = roster.take_manifest(root, spec, 1, "2026-01-01T00:00:00Z", roster.hashed_before(root))
    assert read == [] and [row["sha256"] for row in again["files"]] == [row["sha256"] for row in rows]
    Path(root.attempt(1), "a").write_text("2\n")
    again = roster.take_manifest(root, spec, 1, "2026-01-01T00:00:00Z", roster.hashed_before(root))
    assert len(read) == 1 and again["files"][0]["sha256"] != rows[0]["sha256"]


@pytest.mark.parametrize("count", [1, 20], ids=["synced alone", "synced with its whole disk"])
def test_what_changed_through_a_mapping_of_memory_is_read_again(rig: Rig, count: int) -> None:
    paths = ["attempts/1/out/%02d" % n for n in range(count)]
    root = run_of(rig, ["failed"], dict.fromkeys(paths, "0" * 4096))
    with open(os.path.join(root.path, paths[-1]), "r+b") as f, mmap.mmap(f.fileno(), 4096) as memory:
        memory[0] = 1
        before = [row for row in taken(rig)["files"] if row["role"] == "output"]
        memory[0] = 2
        known = {row["from"]: {key: row[key] for key in ("stat", "bytes", "sha256")} for row in before}
        after = [row for row in taken(rig, known=known)["files"] if row["role"] == "output"]
    assert [a["sha256"] == b["sha256"] for a, b in zip(after, before)] == [True] * (count - 1) + [False]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("known", [7, {"attempts/1/out/a": 7}, {"attempts/1/out/a": {"stat": None, "sha256": "../x"}}])
def test_a_strange_claim_about_files_is_passed_over(rig: Rig, known: Any) -> None:
    run_of(rig, ["failed"], {"attempts/1/out/a": "aaaa"})
    assert taken(rig, known=known)["files"] == taken(rig)["files"]


@pytest.mark.campaign
def test_removing_a_run_compares_what_every_attempt_has(rig: Rig) -> None:
    root = run_of(rig, ["failed", "failed"], {"attempts/1/out/a": "1"})
    atomic.write_json(root.want, {"attempt": 2})
    digest = taken(rig)["digest"]
    Path(root.attempt(1), "out/a").write_text("changed")
    said = rig.call("remove", kind="runs", name="r", identity="same", manifest=digest)
    assert (said["ok"], said.get("code")) == (False, "changed"), said
    said = rig.call("remove", kind="runs", name="r", identity="same", manifest=taken(rig)["digest"])
    assert said["ok"] and not os.path.exists(root.path), said


OURS = ".saving-2-17-4711-0a1b2c3d-44556677"


def test_an_unfinished_save_of_the_hook_is_no_output_and_never_was_one(rig: Rig) -> None:
    files = {"attempts/1/out/a": "made", f"attempts/1/out/{OURS}/a": "half", "attempts/1/out/.saving-mine/a": "mine"}
    root = run_of(rig, ["killed"], files, outputs=["out", "out/.saving-*/a", f"other/{OURS}"])
    assert sources(taken(rig)["files"]) == ["attempts/1/out/.saving-mine/a", "attempts/1/out/a"]
    sealed = atomic.read_json(root.manifest) or {}
    assert not [row for row in sealed.get("files", []) if OURS in row["path"]]
    os.unlink(os.path.join(root.attempt(1), "out", OURS, "a"))
    assert taken(rig)["gone"] == []


def test_only_unfinished_saves_are_an_output_that_was_never_made(rig: Rig) -> None:
    run_of(rig, ["killed"], {f"attempts/1/out/{OURS}/a": "half"}, outputs=["out"])
    assert taken(rig)["missing"] == ["out"]


def test_a_torn_file_that_was_set_aside_is_no_output_and_a_whole_one_is(rig: Rig) -> None:
    files = {
        "persist/kept/out/.torn-m.safetensors": "half",
        "persist/kept/out/.torn-m.bin": "whole",
        "attempts/1/x": "",
    }
    run_of(rig, ["killed"], files, outputs=["out"])
    assert sources(taken(rig)["files"]) == ["persist/kept/out/.torn-m.bin"]
