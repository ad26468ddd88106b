"""The launcher `setsid` with real keepers: its pulse is that of the run's keeper, whoever started it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.backends.launcher.setsid import Backend
from sojourn.backends.transport import local
from sojourn.box.run.root import Root
from sojourn.core.ports import Handle
from sojourn.core.values import Pulse
from sojourn.testing.contracts.launcher import ShellLauncherContract, at
from tests.box.rig import Rig, all_events, found, gone, heard, kill, until


@pytest.fixture
def transport() -> local.Backend:
    return local.Backend()


@pytest.fixture
def launcher() -> Backend:
    return Backend()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / 'it\'s a "base"\nn\u00e4chste' / "runs" / "digits-lr0.3")


class TestContract(ShellLauncherContract):
    """As every launcher."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    box = Rig(tmp_path / "box")
    yield box
    box.close()


def argv(rig: Rig, run: Root) -> "list[str]":
    words: list[str] = rig.call("want", run=run.id, attempt=1)["argv"]
    return words


def test_a_run_launched_this_way_beats_and_its_pulse_is_its_keeper_s(
    rig: Rig, launcher: Backend, transport: local.Backend
) -> None:
    run = rig.place("sleep 600")
    handle = launcher.start(at(transport), argv(rig, run), run.path)
    assert isinstance(handle, Handle)
    heard(run, "beat")
    keeper = found(run, "attempt")[0]["keeper"]
    assert handle.facts["pid"] == keeper["pid"] and handle.facts["start"] == keeper["start"]
    assert launcher.pulse(at(transport), handle) is Pulse.ALIVE
    kill({keeper["pid"]})
    until(lambda: launcher.pulse(at(transport), handle) is Pulse.GONE)


def test_a_second_start_leaves_the_first_in_charge_and_its_handle_finds_that_one(
    rig: Rig, launcher: Backend, transport: local.Backend
) -> None:
    run = rig.place("sleep 600")
    first = launcher.start(at(transport), argv(rig, run), run.path)
    heard(run, "beat")
    second = launcher.start(at(transport), argv(rig, run), run.path)
    assert isinstance(first, Handle) and isinstance(second, Handle)
    until(lambda: gone(second.facts["pid"]))
    assert launcher.pulse(at(transport), second) is Pulse.ALIVE
    assert len(found(run, "started")) == 1


def test_the_run_outlives_the_client_that_launched_it(rig: Rig, launcher: Backend, transport: local.Backend) -> None:
    run = rig.place("sleep 600")
    code = "import json, sys; from sojourn.backends.launcher.setsid import Backend as L\n"
    code += "from sojourn.core.values import Place, Site\n"
    code += "t = L().start(Place(Site('local')), json.loads(sys.argv[1]), sys.argv[2])\n"
    code += "print(json.dumps(dict(t.facts)))"
    import json

    client = [sys.executable, "-c", code, json.dumps(argv(rig, run)), run.path]
    env = dict(os.environ, PYTHONPATH=str(Path(local.__file__).parents[3]))
    done = subprocess.run(client, capture_output=True, env=env, timeout=60, start_new_session=True)
    handle = Handle("setsid", "", json.loads(done.stdout))
    heard(run, "beat")
    assert launcher.pulse(at(transport), handle) is Pulse.ALIVE
    stat = Path("/proc/%d/stat" % handle.facts["pid"]).read_text().rpartition(")")[2].split()
    assert int(stat[3]) == handle.facts["pid"]  # a session of its own: no terminal's hang-up reaches it


def test_a_stop_lets_the_payload_save_and_the_keeper_seal(
    rig: Rig, launcher: Backend, transport: local.Backend
) -> None:
    run = rig.place("bash -c 'trap \"echo saved; exit 75\" TERM; echo on; while true; do sleep 0.05; done'")
    handle = launcher.start(at(transport), argv(rig, run), run.path)
    assert isinstance(handle, Handle)
    until(lambda: os.path.exists(run.log(1)) and "on" in Path(run.log(1)).read_text())
    heard(run, "beat")
    assert launcher.stop(at(transport), handle, 20.0) is None
    assert launcher.pulse(at(transport), handle) is Pulse.GONE
    kinds = [event["kind"] for event in all_events(run) if event["kind"] != "said"]
    assert kinds[-2:] == ["ended", "sealed"]
    assert found(run, "ended")[0]["state"] == "preempted"


def test_a_handle_of_another_boot_never_finds_a_stranger(
    launcher: Backend, transport: local.Backend, root: str
) -> None:
    handle = launcher.start(at(transport), ["sleep", "600"], root)
    assert isinstance(handle, Handle)
    old = Handle("setsid", handle.native, {**handle.facts, "boot": "00000000-0000-0000-0000-000000000000"})
    assert launcher.pulse(at(transport), old) is Pulse.GONE
    assert launcher.stop(at(transport), old, 0.0) is None
    assert launcher.pulse(at(transport), handle) is Pulse.ALIVE
    launcher.stop(at(transport), handle, 1.0)
