"""Spares of checkpoints that are written over in place."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run.root import Root
from sojourn.box.supervise import spares
from tests.box.rig import Rig, found, heard, kill, log, until
from tests.box.test_persist import archive


def rest(path: Path, for_s: float = 2.0) -> None:
    """Let it have been written so long ago."""
    os.utime(path, (time.time() - for_s, time.time() - for_s))


def test_a_checkpoint_torn_while_it_was_written_over_gets_its_spare_back(rig: Rig) -> None:
    script = "cp ../../whole.pt model.pt; touch saved; sleep 600"
    root = rig.place(script, outputs=["model.pt"])
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    spare = os.path.join(root.spares(1), "model.pt")
    assert until(lambda: os.path.exists(spare))
    model = Path(root.attempt(1), "model.pt")
    model.write_bytes(archive(b"weights")[:50])  # as far as the next save came
    kill({heard(root, "started")["pid"]}, signal.SIGKILL)
    assert until(lambda: found(root, "sealed"))
    assert model.read_bytes() == archive(b"weights")
    assert Path(root.attempt(1), ".torn-model.pt").read_bytes() == archive(b"weights")[:50]
    answer = rig.call("manifest", run="r")
    assert [row["path"] for row in answer["manifest"]["files"] if row["role"] == "output"] == ["model.pt"]


def test_every_version_that_comes_to_rest_is_spared(rig: Rig) -> None:
    root = rig.place(
        "cp ../../one.pt model.pt; until [ -e ../../go ]; do sleep 0.05; done; cp ../../two.pt model.pt; sleep 600"
    )
    Path(root.path, "one.pt").write_bytes(archive(b"one"))
    Path(root.path, "two.pt").write_bytes(archive(b"two"))
    rig.supervise(root)
    spare = Path(root.spares(1), "model.pt")
    assert until(lambda: spare.exists() and spare.read_bytes() == archive(b"one"))
    Path(root.path, "go").touch()
    assert until(lambda: spare.read_bytes() == archive(b"two"))


def test_checkpoints_with_names_of_their_own_need_no_spares(rig: Rig) -> None:
    root = rig.place("mv ../../three out; sleep 600")  # at once: one alone may be overwritten next
    three = Path(root.path, "three")
    three.mkdir()
    for n in (1, 2, 3):
        (three / f"epoch_{n}.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    until(lambda: Path(root.attempt(1), "out").exists())
    time.sleep(2.0)
    assert not os.path.exists(root.spares(1))


def test_a_job_whose_saves_are_protected_needs_no_spares(rig: Rig) -> None:
    root = rig.place("cp ../../whole.pt model.pt; sleep 600", protect="saves")
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    heard(root, "beat")
    time.sleep(2.0)
    assert not os.path.exists(root.spares(1))


def test_a_spare_is_only_made_of_what_is_whole_and_stays_as_it_is(tmp_path: Path) -> None:
    root = Root(str(tmp_path / "runs" / "r"))
    folder = Path(root.attempt(1))
    folder.mkdir(parents=True)
    (folder / "torn.pt").write_bytes(archive(b"weights")[:-1])
    rest(folder / "torn.pt")
    assert spares.make(root, 1, "torn.pt") != 0
    (folder / "whole.pt").write_bytes(archive(b"weights"))
    assert spares.make(root, 1, "whole.pt") != 0, "just written"
    rest(folder / "whole.pt")
    assert spares.make(root, 1, "whole.pt") == 0
    assert os.listdir(root.spares(1)) == ["whole.pt"]
    assert spares.make(root, 1, "absent.pt") != 0


def test_of_a_format_that_does_not_say_where_it_ends_only_time_tells(tmp_path: Path) -> None:
    root = Root(str(tmp_path / "runs" / "r"))
    Path(root.attempt(1)).mkdir(parents=True)
    for name, data in (("model.pt", archive(b"weights")), ("model.pkl", b"\x80\x04K\x01.")):
        Path(root.attempt(1), name).write_bytes(data)
        rest(Path(root.attempt(1), name), 0.3)
    assert [spares.make(root, 1, name) == 0 for name in ("model.pt", "model.pkl")] == [True, False]
    rest(Path(root.attempt(1), "model.pkl"))
    assert spares.make(root, 1, "model.pkl") == 0


def test_a_disk_smaller_than_what_stays_free_on_a_large_one_has_spares_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(str(tmp_path / "runs" / "r"))
    model = Path(root.attempt(1), "model.pt")
    model.parent.mkdir(parents=True)
    model.write_bytes(archive(b"weights"))
    rest(model)
    real = os.statvfs(root.path)
    for free, is_made in ((6, True), (4, False)):  # percent of a disk of 512 MiB
        blocks = (512 << 20) // real.f_frsize
        small = os.statvfs_result([*real[:2], blocks, blocks, blocks * free // 100, *real[5:10]])
        monkeypatch.setattr(os, "statvfs", lambda path, small=small: small)
        assert (spares.make(root, 1, "model.pt") == 0) is is_made


SAVING = """
import os, sys, time
def save(n, path="model.pt"):
    data = open("../../%s.pt" % n, "rb").read()
    with open(path, "wb") as f:
        f.write(data[:-40]); f.flush(); time.sleep(0.02); f.write(data[-40:])
"""


@pytest.mark.campaign
def test_a_script_that_saves_twice_a_second_has_a_spare_of_a_second_ago(rig: Rig) -> None:
    root = rig.place('exec python3 -c "$S"', envs={"S": SAVING + "while 1: save('one'); time.sleep(0.4)"})
    Path(root.path, "one.pt").write_bytes(archive(b"one"))
    rig.supervise(root)
    spare = os.path.join(root.spares(1), "model.pt")
    assert until(lambda: os.path.exists(spare))
    was = os.stat(spare).st_mtime_ns
    assert until(lambda: os.stat(spare).st_mtime_ns != was)
    assert until(lambda: time.time_ns() - os.stat(spare).st_mtime_ns < 1.5e9)


def test_a_name_without_a_number_will_be_written_over(rig: Rig) -> None:
    root = rig.place("cp ../../whole.pt last.pt; cp ../../whole.pt epoch_1.pt; cp ../../whole.pt epoch_2.pt; sleep 600")
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    assert until(lambda: os.path.exists(os.path.join(root.spares(1), "last.pt")))
    time.sleep(1.0)
    assert os.listdir(root.spares(1)) == ["last.pt"]


def test_weights_that_were_pushed_have_no_spare_until_they_are_written_over(rig: Rig) -> None:
    code = rig.snapshot({"pretrained.pt": archive(b"somebody's")})
    root = rig.place(
        "until [ -e ../../go ]; do sleep 0.05; done; cp ../../whole.pt pretrained.pt; sleep 600", code=code
    )
    Path(root.path, "whole.pt").write_bytes(archive(b"mine"))
    rig.supervise(root)
    heard(root, "beat")
    time.sleep(1.0)
    spare = Path(root.spares(1), "pretrained.pt")
    assert not spare.exists()
    Path(root.path, "go").touch()
    assert until(lambda: spare.exists() and spare.read_bytes() == archive(b"mine"))


def test_what_a_protected_job_writes_over_without_the_hook_has_a_spare(rig: Rig) -> None:
    loop = (
        "for n in 1 2 3; do cp ../../whole.pt new; mv new model.pt; cp ../../whole.pt raw.pt; sleep 1; done; sleep 600"
    )
    root = rig.place(loop, protect="saves")
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    assert until(lambda: os.path.exists(os.path.join(root.spares(1), "raw.pt")))
    assert os.listdir(root.spares(1)) == ["raw.pt"]


@pytest.mark.campaign
def test_a_save_torn_before_its_attempt_had_a_spare_gets_that_of_the_attempt_before(rig: Rig) -> None:
    script = "mkdir -p out; [ -s out/model.pt ] || cp ../../whole.pt out/model.pt; sleep 600"
    root = rig.place(script, persist=["out"])
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    assert until(lambda: os.path.exists(os.path.join(root.spares(1), "out/model.pt")))
    model = Path(root.attempt(2), "out/model.pt")
    kill({heard(root, "started")["pid"]}, signal.SIGKILL)
    assert until(lambda: found(root, "sealed"))
    Path(root.path, "persist/spares/1/out/.new-model.pt").mkdir()  # no copy can be made from now on
    assert rig.call("want", run=root.id, attempt=2, by="resume")["ok"]
    rig.supervise(root)
    assert until(lambda: len(found(root, "started")) == 2)
    model.write_bytes(archive(b"weights")[:50])
    kill({found(root, "started")[-1]["pid"]}, signal.SIGKILL)
    assert until(lambda: len(found(root, "sealed")) == 2)
    assert model.read_bytes() == archive(b"weights")


@pytest.mark.campaign
def test_a_copy_holds_no_lock_of_its_keeper(rig: Rig) -> None:
    root = rig.place("cp ../../whole.pt model.pt; touch saved; sleep 600")
    Path(root.path, "whole.pt").write_bytes(archive(bytes(80 << 20)))
    keeper = rig.supervise(root)
    coming = os.path.join(root.spares(1), ".new-model.pt")
    assert until(lambda: os.path.exists(coming))
    keeper.kill()
    keeper.wait()
    rig.supervise(root)
    assert until(lambda: found(root, "adopted"))


def test_what_the_script_removed_itself_does_not_come_back(tmp_path: Path) -> None:
    root = Root(str(tmp_path / "runs" / "r"))
    folder, kept = Path(root.attempt(1)), Path(root.spares(1))
    folder.mkdir(parents=True)
    kept.mkdir(parents=True)
    (kept / "step_1.pt").write_bytes(archive(b"1"))
    (folder / "step_2.pt").write_bytes(archive(b"2"))
    assert spares.mend(root, 1, 1) == []
    (folder / "step_2.pt").unlink()
    assert spares.mend(root, 1, 1) == ["step_1.pt"]


KEEP_ONE = """
import os, sys, time
data, last = open("../../whole.pt", "rb").read(), ""
os.mkdir("ckpts")
for step in range(1, 6):
    path = "ckpts/step=%d.pt" % step
    open(path, "wb").write(data)
    if last:
        os.unlink(last)
    last = path
    while not os.path.exists("../../persist/spares/1/" + path):
        time.sleep(0.05)
print("all spared", flush=True)
time.sleep(600)
"""


def test_a_script_that_keeps_one_checkpoint_has_one_spare(rig: Rig) -> None:
    root = rig.place('exec python3 -c "$S"', envs={"S": KEEP_ONE})
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    spares_there, most = Path(root.spares(1), "ckpts"), 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, len(list(spares_there.glob("*"))))
        return "all spared" in log(root)

    assert until(is_over)
    assert most <= 1 and os.listdir(spares_there) == ["step=5.pt"]


@pytest.mark.campaign
def test_the_spare_of_the_only_checkpoint_goes_once_the_script_has_removed_it(rig: Rig) -> None:
    root = rig.place("cp ../../whole.pt model.pt; until [ -e ../../go ]; do sleep 0.05; done; rm model.pt; sleep 600")
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.supervise(root)
    spare = Path(root.spares(1), "model.pt")
    assert until(spare.exists)
    Path(root.path, "go").touch()
    assert until(lambda: not Path(root.attempt(1), "model.pt").exists())
    assert spare.exists(), "it may be about to write it again"
    assert until(lambda: not spare.exists())


class Desk:
    """A keeper, as far as `Spares` needs one."""

    beat_s = 0.1

    def __init__(self, root: Root, **spec: Any) -> None:
        self.root, self.spec = root, spec
        self.reaped: dict[int, int] = {}


def spared(tmp_path: Path, *names: str) -> Root:
    """A run whose files have a spare each."""
    root = Root(str(tmp_path / "runs" / "r"))
    Path(root.attempt(1)).mkdir(parents=True)
    for name in names:
        Path(root.attempt(1), name).write_bytes(archive(b"weights"))
        rest(Path(root.attempt(1), name))
        assert spares.make(root, 1, name) == 0
    return root


def test_a_spare_waits_for_what_replaces_its_file_to_be_whole(tmp_path: Path) -> None:
    root = spared(tmp_path, "step_1.pt")
    at, spare = Path(root.attempt(1)), Path(root.spares(1), "step_1.pt")
    one = spares.Spares(Desk(root), 1)  # type: ignore[arg-type]
    (at / "step_1.pt").unlink()
    (at / "step_2.pt").write_bytes(archive(b"weights")[:-9])
    for now_s in (0.0, 100.0):
        one._yield(now_s)
        assert spare.exists()
    assert spares.mend(root, 1, 1) == ["step_1.pt"], "killed now, this is all there is"
    (at / "step_1.pt").unlink()
    (at / "step_2.pt").write_bytes(archive(b"weights"))
    one._yield(101.0)
    assert not spare.exists()


def test_a_file_that_is_gone_for_good_takes_its_spare_along(tmp_path: Path) -> None:
    root = spared(tmp_path, "model.pt")
    spare = Path(root.spares(1), "model.pt")
    one = spares.Spares(Desk(root), 1)  # type: ignore[arg-type]
    Path(root.attempt(1), "model.pt").unlink()
    for now_s, is_there in ((10.0, True), (14.9, True), (15.0, False)):
        one._yield(now_s)
        assert spare.exists() is is_there


def test_spares_give_back_their_room_before_the_disk_is_full_except_of_a_torn_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = spared(tmp_path, "a.pt", "b.pt")
    Path(root.attempt(1), "b.pt").write_bytes(archive(b"weights")[:-9])
    one = spares.Spares(Desk(root), 1)  # type: ignore[arg-type]
    real = os.statvfs(root.path)
    blocks = (512 << 20) // real.f_frsize
    for free, left in ((6, ["a.pt", "b.pt"]), (4, ["b.pt"])):  # percent
        small = os.statvfs_result([*real[:2], blocks, blocks, blocks * free // 100, *real[5:10]])
        monkeypatch.setattr(os, "statvfs", lambda path, small=small: small)
        one._yield(0.0)
        assert sorted(os.listdir(root.spares(1))) == left


def test_spares_take_none_of_the_room_that_the_job_asked_for(tmp_path: Path) -> None:
    root = spared(tmp_path, "a.pt")
    size = os.path.getsize(os.path.join(root.attempt(1), "a.pt"))
    Path(root.attempt(1), "b.pt").write_bytes(archive(b"weights"))
    rest(Path(root.attempt(1), "b.pt"))
    assert spares.make(root, 1, "b.pt", 2 * size - 1) != 0
    assert spares.make(root, 1, "a.pt", size) == 0, "its own spare is replaced"
    assert spares.make(root, 1, "b.pt", 2 * size) == 0
    disk = os.statvfs(root.path)
    free_gib = disk.f_bavail * disk.f_frsize / (1 << 30)
    asked = {"resources": {"disk_size": "%.3f" % (free_gib + 1.0)}}
    assert spares.Spares(Desk(root, **asked), 1)._most_bytes == 0  # type: ignore[arg-type]
    asked = {"resources": {"disk_size": "%.3f" % (free_gib / 2)}}
    assert 0 < spares.Spares(Desk(root, **asked), 1)._most_bytes < free_gib * 0.6 * (1 << 30)  # type: ignore[arg-type]


def test_spares_go_with_the_success_of_the_run(rig: Rig) -> None:
    root = rig.place("cp ../../whole.pt model.pt; until [ -e ../../go ]; do sleep 0.05; done")
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    keeper = rig.supervise(root)
    assert until(lambda: os.path.exists(os.path.join(root.spares(1), "model.pt")))
    Path(root.path, "go").touch()
    assert keeper.wait(60) == 0
    assert not os.path.exists(root.spares(1))
