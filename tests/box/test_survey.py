"""Everything of this user on a box: the box by its own id, every base, every run, whoever started it."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List

import pytest

from sojourn.box.system import identity
from tests.box.rig import PATIENCE_S, Rig, until

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
OTHER = 54321


def survey(rig: Rig, **fields: Any) -> Dict[str, Any]:
    answer = rig.call("survey", **fields)
    assert answer["ok"], answer
    return answer


def ids(answer: Dict[str, Any]) -> Dict[str, List[str]]:
    return {base["base"]: [run["id"] for run in base["runs"]] for base in answer["bases"]}


def test_every_run_of_every_base_is_told_whoever_started_it(rig: Rig, tmp_path: Path) -> None:
    other = Rig(tmp_path / "other") if (tmp_path / "other").mkdir() is None else None
    assert other is not None
    root = rig.place("exit 3", run="mine")
    rig.finish(root)
    other.place("true", run="theirs")
    answer = survey(rig)
    assert ids(answer) == {str(rig.base): ["mine"], str(other.base): ["theirs"]} and answer["more"] is False
    rows = {run["id"]: run for base in answer["bases"] for run in base["runs"]}
    assert (rows["mine"]["state"], rows["mine"]["lives"], rows["mine"]["attempt"]) == ("failed", "", 1)
    assert rows["theirs"]["state"] == "" and "attempt 1 was requested" in rows["theirs"]["lives"]
    assert rows["mine"]["root"] == root.path and rows["mine"]["identity"] == "same"


def test_pages_get_on_however_small_they_are(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Rig(tmp_path / "other")
    for run in ("a", "b"):
        rig.place(run=run)
        other.place(run=run)
    found, after = [], ""
    for _ in range(20):
        answer = survey(rig, after=after, limit_bytes=1)
        found += [(base, run) for base, runs in ids(answer).items() for run in runs]
        after = answer["after"]
        if not answer["more"]:
            break
    assert sorted(found) == sorted((str(one.base), run) for one in (rig, other) for run in ("a", "b"))


def test_a_base_that_is_gone_is_not_told_and_one_without_runs_is(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Rig(tmp_path / "other")
    survey(other)
    assert ids(survey(rig)) == {str(rig.base): [], str(other.base): []}
    shutil.rmtree(other.base)
    assert ids(survey(rig)) == {str(rig.base): []}


def test_two_bases_on_one_host_are_two_boxes_and_a_copy_is_the_same_one(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Rig(tmp_path / "other")
    first, second = survey(rig)["box"], survey(other)["box"]
    assert len(first["id"]) == 32 and first["id"] != second["id"]
    assert [first[key] for key in ("boot_id", "host")] == [second[key] for key in ("boot_id", "host")]
    clone = tmp_path / "clone"
    shutil.copytree(rig.base, clone)
    said = rig.call("survey", base=str(clone))["box"]
    assert (said["id"], said["base"]) == (first["id"], str(clone))
    assert oct(os.stat(rig.base / "box.json").st_mode & 0o777) == "0o600"


def test_two_containers_with_one_root_agree(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = survey(rig)["box"]["id"]
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(tmp_path / "its own"))  # each has a /var/tmp of its own
    assert survey(rig)["box"]["id"] == first == rig.call("hello")["box"]


@AS_ROOT
def test_a_reboot_and_a_new_name_keep_the_id_and_change_the_evidence(rig: Rig, tmp_path: Path) -> None:
    fake = tmp_path / "boot"
    fake.write_text("00000000-1111-2222-3333-444444444444\n")
    before = survey(rig)["box"]
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && hostname another && exec "$@"'
    rig.within = ["unshare", "--mount", "--uts", "sh", "-c", script, str(fake)]
    if subprocess.run([*rig.within, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    after = survey(rig)["box"]
    assert after["id"] == before["id"] and after["host"] == "another"
    assert after["boot_id"] == fake.read_text().strip() != before["boot_id"]


def test_many_at_once_make_one_id_and_note_each_base(tmp_path: Path) -> None:
    told: List[str] = []
    bases = [tmp_path / str(number) for number in range(8)]
    for base in bases:
        base.mkdir()

    def go(number: int) -> None:
        told.append(identity.box_id(str(tmp_path)))
        identity.register(str(bases[number % 8]))

    threads = [threading.Thread(target=go, args=(number,)) for number in range(32)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(told)) == 1 and len(told[0]) == 32
    assert identity.bases(str(tmp_path)) == sorted(map(str, bases))


def test_a_folder_that_somebody_else_could_write_to_is_not_believed_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "registry"
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(place))
    target = tmp_path / "target"
    target.mkdir(0o700)
    place.symlink_to(target)
    identity.register(str(tmp_path))
    assert identity.bases("/nowhere") == [] and list(target.iterdir()) == []
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    identity.register(str(tmp_path))
    assert identity.bases("/nowhere") == [] and list(place.iterdir()) == []
    place.chmod(0o700)
    (place / "bases").symlink_to(target / "made")
    identity.register(str(tmp_path))
    assert identity.bases("/nowhere") == [] and list(target.iterdir()) == []
    (place / "bases").unlink()
    os.mkfifo(place / "bases")
    identity.register(str(tmp_path))
    assert identity.bases("/nowhere") == [] and list(identity.unread(str(tmp_path))) == [str(place)]


def test_a_list_of_bases_that_nobody_can_read_is_told_and_one_that_is_not_there_is_not(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = rig.base.parent / "registry"
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(place))
    assert [entry["error"] for entry in survey(rig)["bases"]] == [""]
    (place / "bases").unlink()
    (place / "bases").mkdir()
    bad, good = survey(rig)["bases"]
    assert (bad["base"], bad["runs"], good["error"]) == (str(place), [], "") and "list of bases" in bad["error"]


def test_a_list_of_bases_that_is_full_keeps_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(tmp_path / "registry"))
    monkeypatch.setattr(identity, "_LIMIT_BYTES", 2000)
    kept = tmp_path / "kept"
    kept.mkdir()
    identity.register(str(kept))
    for number in range(100):
        one = tmp_path / f"gone-{number}"
        one.mkdir()
        identity.register(str(one))
        shutil.rmtree(one)
    assert identity.bases(str(tmp_path)) == [str(kept)]
    assert [path.name for path in (tmp_path / "registry").iterdir()] == ["bases"]


def test_a_folder_is_made_closed_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(tmp_path / "registry"))
    before = os.umask(0)
    try:
        identity.register(str(tmp_path))
    finally:
        os.umask(before)
    modes = [os.stat(path).st_mode & 0o777 for path in (tmp_path / "registry", tmp_path / "registry/bases")]
    assert modes == [0o700, 0o600] and identity.bases(str(tmp_path)) == [str(tmp_path)]


def test_where_nothing_can_be_noted_a_run_is_no_worse_for_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", "/proc/nowhere")
    assert ids(survey(rig)) == {str(rig.base): []}


@AS_ROOT
def test_other_users_are_counted_only(rig: Rig, tmp_path: Path) -> None:
    before = survey(rig)["others"]
    script = tmp_path / "keeper-ffff.pyz"
    script.write_text("import os, time; os.setgid(%d); os.setuid(%d); time.sleep(600)" % (OTHER, OTHER))
    child = subprocess.Popen([sys.executable, str(script), "supervise", "--root", "/nowhere"])
    try:
        until(lambda: os.stat("/proc/%d" % child.pid).st_uid == OTHER)
        after = survey(rig)["others"]
    finally:
        child.kill()
        child.wait(PATIENCE_S)
    assert after["runs"] >= before["runs"] + 1 and after["uids"] >= 1 and set(after) == {"uids", "runs"}


def test_an_attempt_asked_for_after_one_succeeded_keeps_nothing_alive(rig: Rig) -> None:
    """A client that lost its line asks for another attempt before it knows that the last one succeeded."""
    for run, script, lives in (("good", "true", ""), ("bad", "exit 3", "attempt 2 was requested and has not started")):
        root = rig.place(script, run=run)
        rig.finish(root)
        assert rig.call("want", run=run, attempt=2, by="run")["attempt"] == 2
        assert next(row["lives"] for row in rig.call("survey")["bases"][0]["runs"] if row["id"] == run) == lives
