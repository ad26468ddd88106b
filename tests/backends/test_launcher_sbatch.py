"""The launcher `sbatch` on a real Slurm: the same promises as every launcher, and its own words where it refuses."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.launcher import sbatch
from sojourn.backends.slurm.script import BadOption
from sojourn.backends.transport import local
from sojourn.core.ports import ArrayTask, Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Pulse, Site, State
from sojourn.testing.contracts.launcher import LONG, BatchSystemContract, at
from tests.lab.cluster import Cluster, until

WHICH = shutil.which("scontrol")
pytest_plugins = ["tests.lab.cluster_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]


@pytest.fixture
def transport() -> local.Backend:
    return local.Backend()


@pytest.fixture
def launcher() -> sbatch.Backend:
    return sbatch.Backend(Site("hpc", launcher="sbatch"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / 'it\'s a "base"\nn\u00e4chste' / "runs" / "digits-lr0.3")


class TestContract(BatchSystemContract):
    """As every launcher that schedules."""


def with_options(**options: Any) -> sbatch.Backend:
    return sbatch.Backend(Site("hpc", launcher="sbatch", options={"sbatch": options}))


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"partition": "nosuch"}, "invalid partition", "sinfo -s"),
        ({"mem": "1000G"}, "Memory specification", "%m"),
        ({"gres": "gpu:stub:9"}, "node configuration is not available", "%G"),
        ({"gres": "tpu:1"}, "Invalid generic resource", "%G"),
        ({"constraint": "purple"}, "Invalid feature", "constraint"),
        ({"no_such_option": 1}, "unrecognized option", "[sites.hpc.sbatch]"),
    ],
)
def test_what_slurm_refuses_is_said_in_its_words_with_what_to_look_at(
    transport: local.Backend, root: str, options: dict[str, Any], said: str, hint: str
) -> None:
    with pytest.raises(sbatch.NotSubmitted) as caught:
        with_options(**options).start(at(transport), LONG, root)
    assert said.lower() in caught.value.message.lower() and hint in caught.value.next


def test_a_base_in_tmpdir_is_refused_before_anything_is_submitted(
    transport: local.Backend, launcher: sbatch.Backend, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(sbatch.NotShared) as caught:
        launcher.start(at(transport), LONG, root)
    assert "TMPDIR" in caught.value.message and "shared file system" in caught.value.next


@pytest.mark.campaign
def test_a_base_in_the_nodes_own_tmpdir_is_refused_there_and_the_word_says_it(
    transport: local.Backend, launcher: sbatch.Backend, cluster: Cluster
) -> None:
    handle = launcher.start(at(transport), LONG, str(cluster.folder / "tmp" / "runs" / "r"))
    assert isinstance(handle, Handle)
    until(lambda: launcher.states(at(transport), [handle])[0].state)
    (word,) = launcher.states(at(transport), [handle])
    assert word.state is State.FAILED and "shared file system" not in word.reason and "TMPDIR" in word.reason


def test_a_node_without_the_python_that_was_found_on_the_login_node_is_told_as_that(
    transport: local.Backend, launcher: sbatch.Backend, root: str
) -> None:
    handle = launcher.start(at(transport), ["/no/such/python3", "keeper"], root)
    assert isinstance(handle, Handle)
    until(lambda: launcher.states(at(transport), [handle])[0].state)
    (word,) = launcher.states(at(transport), [handle])
    assert word.state is State.FAILED and "lacks its Python" in word.reason
    said = launcher.records(at(transport), handle, root)["slurm-JOB.out"][1]
    assert "/no/such/python3, which this node does not have" in said, said


def test_one_question_tells_of_all_jobs_those_too_that_nobody_knows(
    transport: local.Backend, cluster: Cluster, tmp_path: Path
) -> None:
    calls: list[Sequence[str]] = []

    class Counting(local.Backend):
        def call(self, argv: Sequence[str], **how: Any) -> Any:
            calls.append(argv)
            return super().call(argv, **how)

    held = with_options(hold=True).start(at(transport), LONG, str(tmp_path / "a" / "runs" / "a"))
    runs = with_options().start(at(transport), LONG, str(tmp_path / "a" / "runs" / "b"))
    assert isinstance(held, Handle) and isinstance(runs, Handle)
    until(lambda: cluster.state(runs.native) == "RUNNING")
    unknown = Handle("sbatch", "4999999", {})
    words = with_options().states(at(Counting()), [held, unknown, runs])
    assert len(calls) == 1
    assert [word.pulse for word in words] == [Pulse.ALIVE, Pulse.GONE, Pulse.ALIVE]
    assert [word.is_waiting for word in words] == [True, False, False]
    assert "held by its owner" in words[0].reason and f"scontrol release {held.native}" in words[0].reason
    assert words[1].state is None and "no longer knows this job" in words[1].reason


def test_a_controller_that_does_not_answer_leaves_all_unknown(
    transport: local.Backend,
    launcher: sbatch.Backend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
) -> None:
    text = Path(cluster.conf).read_text()
    port = next(line for line in text.splitlines() if line.startswith("SlurmctldPort="))
    away = tmp_path / "slurm.conf"
    away.write_text(text.replace(port, "SlurmctldPort=1").replace("MessageTimeout=30", "MessageTimeout=2"))
    monkeypatch.setenv("SLURM_CONF", str(away))
    (word,) = launcher.states(at(transport), [Handle("sbatch", "1", {})])
    assert word.pulse is Pulse.UNKNOWN and "Slurm does not answer" in word.reason


def test_the_options_reach_the_job(transport: local.Backend, cluster: Cluster, tmp_path: Path) -> None:
    order = LaunchRequest(
        {"resources": {"cpus": "2+", "memory": "0.5", "accelerators": ["STUB:1"]}, "max_duration_s": 3600.0}
    )
    launcher = with_options(hold=True, partition="spot", nice=7, comment="by hand")
    ended = transport.call(launcher.command(LONG, str(tmp_path / "runs" / "r"), order))
    assert isinstance(ended, Ended)
    job = launcher.read(ended, "").native
    shown = cluster.sh(f"scontrol -o show job {job}")
    for field in ("Partition=spot", "Nice=7", "CPUs/Task=2", "mem=512M", "TimeLimit=01:03:00", "Requeue=1"):
        assert field in shown, shown
    assert "gres:gpu:stub:1" in shown and "Comment=by hand" in shown


def test_more_cells_than_an_array_may_have_are_several_arrays_that_no_cut_off_client_doubles(
    transport: local.Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "bin" / "scontrol"
    small.parent.mkdir()
    small.write_text(f'#!/bin/sh\n[ "$*" != "show config" ] || {{ echo "MaxArraySize = 2"; exit; }}\n{WHICH} "$@"\n')
    small.chmod(0o755)
    monkeypatch.setenv("PATH", f"{small.parent}:{os.environ['PATH']}")
    home, launcher = tmp_path / "queues" / "s" / "arrays", with_options(hold=True)
    roots = [ArrayTask(str(tmp_path / "runs" / f"r{number}"), 1) for number in range(5)]

    def ask() -> list[str]:
        handles = launcher.start_all(at(transport), LONG, str(home), roots, LaunchRequest(), 1)
        assert not isinstance(handles, NoAnswer)
        return [handle.native for handle in handles]

    natives = ask()
    assert [native.partition("_")[2] for native in natives] == ["0", "1", "0", "1", "0"]
    assert len({native.partition("_")[0] for native in natives}) == 3
    for left in (home / "2.d" / "job", tmp_path / "runs" / "r2" / "exits" / "job"):
        left.unlink()  # as if cut off between sbatch and the note of it
    (home / "9.d").mkdir()
    (home / "9.d" / "cells").write_text("r0 2\n")  # and before sbatch
    assert ask() == natives and not (home / "9.d").exists()
    assert launcher.cancel(at(transport), [Handle("sbatch", native) for native in natives]) is None


def test_an_option_that_the_launcher_relies_on_is_refused() -> None:
    with pytest.raises(BadOption) as caught:
        with_options(no_requeue=True).script(LONG, "/b/runs/r", LaunchRequest())
    assert "no-requeue" in caught.value.message and caught.value.exit_status == 2
