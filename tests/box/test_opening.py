"""Whatever a job lays in its root, no question about it waits for ever, and none is answered from outside the root."""

import os
import threading
from pathlib import Path

import pytest

from sojourn.box.run.root import read_fields
from sojourn.box.system import opening
from tests.box.rig import Rig
from tests.box.test_roster import run_of, taken


def test_pipes_devices_and_links_in_the_place_of_our_files_hold_up_no_question(rig: Rig) -> None:
    root = run_of(rig, ["failed"], {"attempts/1/out/a": "1"})
    Path(root.logs).mkdir(exist_ok=True)
    for path in (root.manifest, root.log(1), root.exit(1), os.path.join(root.attempt(1), "out/pipe"), root.keeper):
        if os.path.lexists(path):
            os.unlink(path)
        os.mkfifo(path)
    os.symlink("/dev/zero", os.path.join(root.attempt(1), "out/zero"))
    os.symlink("/proc/kmsg", os.path.join(root.attempt(1), "out/kmsg"))
    document = taken(rig)
    assert [row["from"] for row in document["files"]] == ["attempts/1/out/a"]
    assert {row["path"] for row in document["refused"]} == {"out/pipe", "out/zero", "out/kmsg", "logs/1.log"}
    for path in ("attempts/1/out/pipe", "attempts/1/out/zero", "attempts/1/out/kmsg", "logs/1.log"):
        said = rig.call("read", run="r", path=path)
        assert (said["ok"], said["code"], said["blobs"]) == (False, "unsafe-path", []), said
    os.unlink(root.events)
    os.mkfifo(root.events)
    for op in ("survey", "since", "roots"):
        assert rig.call(op, runs=None)["ok"]
    os.unlink(root.run)
    os.mkfifo(root.run)
    assert read_fields(root.run) == {} and rig.call("survey")["ok"]
    os.unlink(root.keeper)  # the rig's own end reads it as it comes


def test_what_is_put_in_the_place_of_a_file_after_it_was_looked_at_is_not_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "d", outside):
        folder.mkdir(parents=True)
        (folder / "f").write_text("x")
    why, real = opening.below(str(root), str(root / "d/f"))
    assert why == ""
    (root / "d").rename(root / "e")
    (root / "d").symlink_to(outside)  # what lies between the root and the file
    with pytest.raises(OSError, match="out of the run"):
        opening.open_below(str(root), real)
    (root / "d").unlink()
    (root / "e").rename(root / "d")
    (root / "d/f").unlink()
    os.mkfifo(root / "d/f")
    with pytest.raises(OSError, match="regular"):
        opening.open_below(str(root), real)


def test_a_file_that_grows_all_the_time_is_told_up_to_where_it_was(rig: Rig) -> None:
    root = run_of(rig, ["failed"], {"attempts/1/out/grows": "x" * (1 << 20)})
    path = os.path.join(root.attempt(1), "out/grows")
    is_over = threading.Event()

    def grow() -> None:  # a hole, so that it is long to read and takes no room
        size = 128 << 20
        while not is_over.is_set():
            size += 1
            os.truncate(path, size)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        row = rig.call("manifest", run="r", fresh=True)["manifest"]["files"][0]
    finally:
        is_over.set()
        writer.join()
    assert row["bytes"] == row["stat"][2] <= os.path.getsize(path) and row["changed"] is True
