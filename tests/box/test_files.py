"""Files of a run: what a glob hits, what a manifest holds, what may be read."""

import hashlib
import os
import socket
from pathlib import Path
from typing import Any, Dict, List

import pytest

from sojourn.box.run.root import Root
from sojourn.box.system import globs
from sojourn.wire import globs as client
from sojourn.wire.manifest import roster_digest
from tests.box.rig import Rig, found, shown

AWKWARD = ["a b.txt", 'it\'s "so".txt', "line\nbreak.txt", "n\u00e4chste.txt", "-rf.txt", "$(x).txt", "*.txt", "\\.txt"]


def tree(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


@pytest.mark.parametrize(
    "glob, hit",
    [
        ("a.txt", ["a.txt"]),
        ("./a.txt", ["a.txt"]),
        ("*.txt", ["a.txt", "b.txt"]),
        ("?.txt", ["a.txt", "b.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"]),
        ("sub/*.txt", ["sub/c.txt"]),
        ("*/c.txt", ["sub/c.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ("**", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        (".", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt", ".hidden/e.txt"]),
        (".hidden", [".hidden/e.txt"]),
        ("sub", ["sub/c.txt", "sub/deep/d.txt"]),
        ("sub/", ["sub/c.txt", "sub/deep/d.txt"]),
        ("sub/**/d.txt", ["sub/deep/d.txt"]),
        (".hidden/*", [".hidden/e.txt"]),
        ("*/e.txt", []),
        ("../*", []),
        ("sub/../a.txt", []),
        ("/etc/passwd", []),
        ("A.TXT", []),
        ("nothing/*", []),
    ],
)
def test_globs_mean_what_job_files_mean(tmp_path: Path, glob: str, hit: List[str]) -> None:
    tree(tmp_path, "a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt", ".hidden/e.txt")
    assert sorted(set(globs.hits(str(tmp_path), glob))) == sorted(hit)


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A root with links of all kinds."""
    tree(tmp_path / "elsewhere", "m.json", "a/m.json")
    root = tree(tmp_path / "root", "out/a.json", "out/exp3/m.json", "big/m.json", "big/sub/n.json", ".dot/m.json")
    (root / "out/latest").symlink_to("exp3")
    (root / "out/best").symlink_to("../big")
    (root / "out/up").symlink_to("..")
    (root / "out/self").symlink_to(".")
    (root / "out/circle").symlink_to("circle")
    (root / "out/ext").symlink_to(tmp_path / "elsewhere")
    (root / "big/sub/twin").symlink_to("../../big")
    return root


BIG = ["out/best/m.json", "out/best/sub/n.json"]
IN_OUT = ["out/a.json", "out/circle", "out/exp3/m.json", "out/ext"]


@pytest.mark.parametrize(
    "glob, hit",
    [
        ("out/latest/m.json", ["out/latest/m.json"]),
        ("out/latest", ["out/latest/m.json"]),
        ("out/[kl]*/m.json", ["out/latest/m.json"]),
        ("out/*/m.json", ["out/best/m.json", "out/exp3/m.json", "out/ext", "out/latest/m.json"]),
        ("out/*/n.json", []),
        ("out/*/sub/n.json", [BIG[1]]),
        ("out/best/sub/twin/sub/twin/m.json", ["out/best/sub/twin/sub/twin/m.json"]),
        ("big/**/m.json", ["big/m.json"]),
        ("big", ["big/m.json", "big/sub/n.json"]),
        ("out/ext/m.json", ["out/ext"]),
        ("out/ext/none.json", []),
        ("out/ext/**/none.json", ["out/ext"]),
        ("out/self/a.json", ["out/self/a.json"]),
        ("out/circle/a.json", []),
        ("out", [*IN_OUT, *BIG, "out/up/.dot/m.json"]),
        ("out/*", [*IN_OUT, *BIG, "out/up/.dot/m.json"]),
        ("out/**/*.json", ["out/a.json", "out/exp3/m.json", "out/ext", *BIG]),
    ],
)
def test_links_inside_the_root_are_followed_once_and_others_stand_for_themselves(
    linked: Path, glob: str, hit: List[str]
) -> None:
    unseen: Dict[str, str] = {}
    assert sorted(set(globs.hits(str(linked), glob, unseen=unseen))) == sorted(hit)
    assert unseen == {}


def test_links_among_many_folders_take_no_time(tmp_path: Path) -> None:
    for a in range(12):
        (tmp_path / "pool" / str(a)).mkdir(parents=True)
        for b in range(12):
            (tmp_path / "pool" / str(a) / ("to%d" % b)).symlink_to("../%d" % b)
    tree(tmp_path, "pool/3/x.pt")
    for glob in ("**/x.pt", "pool", "**/**/**/x.pt"):
        assert list(globs.hits(str(tmp_path), glob)) == ["pool/3/x.pt"]


@pytest.mark.parametrize("glob", ["lr=[0.1]/m.json", "lr=[0.1]", "*/m.json", "{a,b}?/m.json", "lr=[0.1]/*"])
def test_a_name_with_the_letters_of_patterns_is_that_name_and_then_a_pattern(tmp_path: Path, glob: str) -> None:
    tree(tmp_path, "lr=[0.1]/m.json", "{a,b}?/m.json", "lr=0/m.json", "{a,b}c/m.json")
    found = set(globs.hits(str(tmp_path), glob))
    assert found >= {path for path in ("lr=[0.1]/m.json", "{a,b}?/m.json") if path.startswith(glob[:2].strip("*/"))}
    assert found == {path for path in found if client.covers(glob, path)}


def made(rig: Rig, script: str, outputs: List[str]) -> Root:
    root = rig.place(script, outputs=outputs)
    rig.finish(root)
    return root


def manifest(rig: Rig, fresh: bool = False) -> Dict[str, Any]:
    answer = rig.call("manifest", run="r", fresh=fresh)
    assert answer["ok"], answer
    value: Dict[str, Any] = answer["manifest"]
    return value


def outputs_of(document: Dict[str, Any]) -> Dict[str, str]:
    return {row["path"]: row["from"] for row in document["files"] if row["role"] == "output"}


def test_outputs_are_looked_up_in_the_working_copy_first_and_then_in_the_root(rig: Rig) -> None:
    script = 'mkdir -p checkpoints; echo own > both.txt; echo far > "$SOJOURN_RUN_DIR/both.txt"; '
    script += 'echo 1 > "$SOJOURN_CHECKPOINT_DIR/best.pt"; echo 2 > checkpoints/last.pt'
    made(rig, script, ["both.txt", "checkpoints/*.pt", "never.*"])
    document = manifest(rig)
    assert outputs_of(document) == {
        "both.txt": "attempts/1/both.txt",
        "checkpoints/best.pt": "checkpoints/best.pt",
        "checkpoints/last.pt": "attempts/1/checkpoints/last.pt",
    }
    assert document["missing"] == ["never.*"]
    assert document["digest"] == roster_digest(document["files"])


def test_our_own_files_are_never_outputs(rig: Rig) -> None:
    made(rig, "echo 1 > mine.json", ["*.json", "**/*.json", "logs/*", "attempts/**", "*"])
    assert set(outputs_of(manifest(rig))) == {"mine.json"}


def test_logs_of_every_attempt_are_in_the_manifest(rig: Rig) -> None:
    rig.finish(rig.place("echo $SOJOURN_ATTEMPT; exit 75", retry={"attempts": 2, "on": ["preempted"]}))
    logs = [(row["path"], row["bytes"]) for row in manifest(rig)["files"] if row["role"] == "log"]
    assert logs == [("logs/1.log", 2), ("logs/2.log", 2)]


def test_awkward_names_come_through(rig: Rig) -> None:
    code = rig.snapshot({name: name.encode() for name in AWKWARD})
    root = rig.place("true", code=code, outputs=["*.txt"])
    rig.finish(root)
    document = manifest(rig)
    assert sorted(outputs_of(document)) == sorted(AWKWARD)
    for row in document["files"]:
        if row["role"] == "output":
            assert row["sha256"] == hashlib.sha256(row["path"].encode()).hexdigest()
            read = rig.call("read", run="r", path=row["from"])
            assert read["blobs"] == [row["path"].encode()]


def test_what_cannot_be_taken_home_is_refused_by_name_and_never_passed_over(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for you")
    script = "ln -s %s out1; ln -s nowhere out2; mkfifo out3; echo ok > out4; ln -s out4 out5; ln -s /etc out6; " % (
        "'%s'" % (tmp_path / "secret")
    )
    script += "printf x > $'out\\xff'"
    root = made(rig, script, ["out*"])
    document = manifest(rig)
    assert outputs_of(document) == {"out4": "attempts/1/out4", "out5": "attempts/1/out4"}
    why = {row["path"]: row["why"] for row in document["refused"]}
    assert set(why) == {"out1", "out2", "out3", "out6", "out\\xff"}, shown(document)
    assert "out of the run" in why["out1"] and "not a regular" in why["out3"] and "UTF-8" in why["out\\xff"]
    assert found(root, "sealed")[0]["refused"] == sorted(why)


def test_a_socket_or_an_unreadable_name_is_no_output(rig: Rig) -> None:
    root = rig.place("true", outputs=["s"])
    rig.finish(root)
    os.chdir(root.attempt(1))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("s")
    os.chdir("/")
    assert [row["path"] for row in manifest(rig, fresh=True)["refused"]] == ["s"]


def test_a_sealed_manifest_stays_and_a_fresh_one_reads_every_byte_again(rig: Rig) -> None:
    root = made(rig, "printf aaaa > out.bin", ["out.bin"])
    sealed = rig.call("manifest", run="r")
    assert sealed["sealed"] is True
    path = Path(root.attempt(1), "out.bin")
    before = path.stat()
    path.write_bytes(b"bbbb")  # same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # and same time
    assert manifest(rig)["digest"] == sealed["manifest"]["digest"]
    fresh = rig.call("manifest", run="r", fresh=True)
    assert fresh["sealed"] is False and fresh["manifest"]["digest"] != sealed["manifest"]["digest"]


def test_a_manifest_of_a_living_run_is_taken_now(rig: Rig) -> None:
    root = rig.place("echo 1 > out.bin; sleep 600", outputs=["out.bin"])
    rig.supervise(root)
    from tests.box.rig import until

    until(lambda: os.path.exists(os.path.join(root.attempt(1), "out.bin")))
    answer = rig.call("manifest", run="r")
    assert answer["sealed"] is False and outputs_of(answer["manifest"]) == {"out.bin": "attempts/1/out.bin"}


def test_a_sealed_manifest_of_an_older_attempt_is_not_given_for_the_newest(rig: Rig) -> None:
    root = made(rig, "echo $SOJOURN_ATTEMPT > out.bin; exit 75", ["out.bin"])
    rig.call("want", run="r", attempt=2, by="resume")
    os.mkdir(root.attempt(2))
    answer = rig.call("manifest", run="r")
    assert answer["sealed"] is False and outputs_of(answer["manifest"]) == {"out.bin": "attempts/1/out.bin"}


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    "path", ["../../../../etc/passwd", "/etc/passwd", "logs/../run.json", "out", "dir/x", "", "./a", "a\0b"]
)
def test_nothing_outside_the_root_can_be_read(rig: Rig, path: str) -> None:
    made(rig, "ln -s /etc/passwd out; ln -s /etc dir", [])
    said = rig.call("read", run="r", path="attempts/1/" + path if path in ("out", "dir/x") else path)
    assert (said["ok"], said["code"]) in ((False, "unsafe-path"), (False, "no-such-file")), said
    assert said["blobs"] == []


def test_logs_are_read_by_number_offset_and_lines(rig: Rig) -> None:
    made(rig, "for i in 1 2 3 4 5; do echo line $i; done; printf end", [])
    assert rig.call("read", run="r", log=1)["blobs"] == [b"line 1\nline 2\nline 3\nline 4\nline 5\nend"]
    tail = rig.call("read", run="r", log=0, tail_lines=2)
    assert (tail["blobs"], tail["offset"], tail["size"]) == ([b"line 5\nend"], 28, 38)
    part = rig.call("read", run="r", log=1, offset=7, length=6)
    assert (part["blobs"], part["offset"]) == ([b"line 2"], 7)
    assert rig.call("read", run="r", log=1, tail_lines=100)["offset"] == 0
    assert rig.call("read", run="r", log=1, tail_lines=0)["blobs"] == [b""]
    assert rig.call("read", run="r", log=1, offset=10_000)["offset"] == 0  # rotated since: from the start again
    assert rig.call("read", run="r", log=9)["code"] == "no-such-file"


def test_a_tail_of_a_long_log_reads_only_its_end(rig: Rig) -> None:
    made(rig, "seq 1 200000", [])
    tail = rig.call("read", run="r", log=1, tail_lines=3)
    assert tail["blobs"] == [b"199998\n199999\n200000\n"]
    short = rig.call("read", run="r", log=1, tail_lines=150_000, length=1000)
    assert len(short["blobs"][0]) == 1000
