"""Sweeps on a real Slurm: arrays, what becomes of their cells, and what waits for them."""

import json
import os
from pathlib import Path

import pytest

from sojourn.backends.ssh import share as ssh_share
from sojourn.core.values import State
from sojourn.verbs.answers import Row
from sojourn.verbs.launch.after import NeverReady
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.clean import clean
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.reconcile import reconcile
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.stop_sweep import stop_sweep
from sojourn.verbs.sweep.sweep import sweep
from tests.lab.cluster import until
from tests.verbs.slurm_client import Client

pytest_plugins = ["tests.lab.fixtures", "tests.lab.cluster_fixtures", "tests.verbs.slurm_fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("cluster")]

CELL = """
until [ -e {folder}/gate ]; do sleep 0.1; done
date +%s.%N > "$SOJOURN_RUN_DIR/began"; sleep 0.5
[ "${lr}" != 7 ] || [ -e {folder}/mended ] || exit 3
printf '{{"lr": ${lr}, "attempt": %s}}' "$SOJOURN_ATTEMPT" > result.json
date +%s.%N > "$SOJOURN_RUN_DIR/ended"
"""


def swept(client: Client, cells: int, script: str = CELL, slots: int = 0, **keys: object) -> str:
    matrix = {"matrix": {"lr": list(range(cells))}}
    text = script.replace("{folder}", str(client.folder)).replace("{{", "{").replace("}}", "}")
    return client.job(text, "ab", outputs=["result.json"], sweep=matrix, **keys)


def states(client: Client) -> dict[str, int]:
    (tally,) = status(client.ctx, ["ab"]).sweeps
    return dict(tally["states"])


def test_an_array_with_a_limit_and_a_failing_cell_is_reconciled_and_repaired(client: Client) -> None:
    client.site("local", mem="100M")
    file = swept(client, 16)
    said = sweep(client.ctx, SweepRequest(file, slots=4))
    assert (said.did, said.exit_status, len(said.new), said.sites[0].slots) == ("queued", 0, 16, 4), said
    assert "ArrayTaskThrottle=4" in client.cluster.sh("scontrol -o show job") and len(natives(client)) == 16
    assert sweep(client.ctx, SweepRequest(file, slots=4)).did == "nothing"
    until(lambda: any("as many cells as it may" in row.reason for row in rows(client)), lambda: rows(client))
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, int(client.cluster.sh("squeue -h -r -t running | wc -l")))
        return set(states(client)) <= {"succeeded", "failed"}

    (client.folder / "gate").touch()
    until(is_over, lambda: (states(client), client.cluster.sh("squeue -r")))
    assert states(client) == {"succeeded": 15, "failed": 1} and most <= 4
    seen = reconcile(client.ctx, "ab")
    assert seen.of("failed") == ["ab-lr7"] and len(seen.of("present")) == 15 and seen.exit_status == 1
    (client.folder / "mended").touch()
    again = reconcile(client.ctx, "ab", repair=True)
    assert again.relaunched == ("ab-lr7",), again
    until(lambda: states(client) == {"succeeded": 16}, lambda: (states(client), client.logs("ab-lr7")))
    assert all(answer.ok for answer in pull(client.ctx, ["ab"]))
    assert reconcile(client.ctx, "ab").exit_status == 0
    home = client.ctx.store.index.find("ab-lr7").receipts[0].home
    assert json.loads(Path(home).read_text()) == {"lr": 7, "attempt": 2}


@pytest.mark.campaign
def test_a_limit_holds_over_cells_that_are_appended_and_repaired(client: Client) -> None:
    script = CELL.replace('[ "${lr}" != 7 ]', '[ "${lr}" != 0 ]')
    assert sweep(client.ctx, SweepRequest(swept(client, 2, script), slots=1)).exit_status == 0
    assert sweep(client.ctx, SweepRequest(swept(client, 4, script))).exit_status == 0
    (client.folder / "gate").touch()
    until(lambda: states(client).get("failed") == 1, lambda: rows(client))
    (client.folder / "mended").touch()
    assert reconcile(client.ctx, "ab", repair=True).relaunched == ("ab-lr0",)
    until(lambda: states(client) == {"succeeded": 4}, lambda: (states(client), client.cluster.sh("squeue -r")))
    spans = sorted(tuple(float((client.root(f"ab-lr{n}") / word).read_text()) for word in ("began", "ended"))
                   for n in range(4))  # fmt: skip
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False)), spans


@pytest.mark.campaign
def test_a_sweep_is_stopped_the_cells_that_wait_with_those_that_run(client: Client) -> None:
    sweep(client.ctx, SweepRequest(swept(client, 5, "sleep 300"), slots=2))
    until(lambda: states(client).get("running") == 2, lambda: rows(client))
    said = stop_sweep(client.ctx, "ab", confirm=lambda ask: ask.name)
    assert said.exit_status == 0 and len(said.stopped) == 5, said
    assert states(client) == {"cancelled": 5}
    until(lambda: not client.cluster.sh("squeue -h -r"))


def test_a_sweep_that_was_cut_off_submits_each_cell_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    file = swept(client, 3, "echo 1 > result.json")
    real = client.ctx.store.append

    def cut(what: str, **fields: object) -> object:
        if what == "queued":
            raise KeyboardInterrupt
        return real(what, **fields)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(client.ctx.store, "append", cut)
        sweep(client.ctx, SweepRequest(file))
    client.site("local")
    assert sweep(client.ctx, SweepRequest(file)).exit_status == 0
    until(lambda: states(client) == {"succeeded": 3}, lambda: rows(client))
    (array,) = {native.partition("_")[0] for native in natives(client)}
    assert [event["attempt"] for cell in range(3) for event in client.events("attempt", f"ab-lr{cell}")] == [1, 1, 1]


@pytest.mark.campaign
def test_cells_of_a_site_that_was_given_up_are_taken_from_its_queue_when_it_answers_again(
    client: Client, shared_connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.site("ssh", begin="now+1hour")
    assert sweep(client.ctx, SweepRequest(swept(client, 3, "echo 1 > result.json"))).exit_status == 0
    ran = "ab-lr0"
    client.cluster.begin_now(client.native(ran))
    until(lambda: client.events("ended", ran))
    there, away = client.cluster.ssh_config, client.folder / "away"
    away.write_text(Path(there).read_text().replace("Port ", "Port 1 # "))
    monkeypatch.setenv("SOJOURN_SSH_CONFIG", str(away))
    ssh_share.hang_up_all()
    client.site("ssh")
    said = reconcile(client.ctx, "ab", repair=True, abandon=["hpc"], sites=["local"])
    assert sorted(said.relaunched) == ["ab-lr0", "ab-lr1", "ab-lr2"], said
    until(lambda: states(client) == {"succeeded": 3}, lambda: rows(client))
    assert len(client.cluster.sh("squeue -h -r").splitlines()) == 2
    monkeypatch.setenv("SOJOURN_SSH_CONFIG", there)
    client.site("ssh")
    told = []
    client.ctx.say = told.append
    seen = reconcile(client.ctx, "ab", repair=True)
    assert "hpc: 2 cells that are elsewhere now will not be started there" in told, (told, seen)
    assert not client.cluster.sh("squeue -h -r").strip() and client.root(ran).exists()
    assert not client.root("ab-lr1").exists() and not client.root("ab-lr2").exists()
    assert [one["run"] for one in seen.duplicates] == [ran], "it began on both"


@pytest.mark.campaign
def test_what_a_sweep_left_on_the_cluster_goes_with_its_cells(client: Client) -> None:
    sweep(client.ctx, SweepRequest(swept(client, 2, "echo 1 > result.json")))
    until(lambda: states(client) == {"succeeded": 2}, lambda: rows(client))
    assert all(answer.ok for answer in pull(client.ctx, ["ab"]))
    assert (client.base / "queues" / "ab" / "arrays").is_dir()
    (queue,) = (one for one in clean(client.ctx, "hpc").left if one.kind == "queues")
    assert queue.name == "ab" and "used by ab-lr0" in queue.keep
    clean(client.ctx, "hpc", ["ab-lr0", "ab-lr1"], confirm=lambda ask: ask.name)
    for path in (client.base / "queues" / "ab", *(client.base / "queues" / "ab").iterdir()):
        os.utime(path, (1, 1))  # not of a sweep that is just about to begin
    removed = clean(client.ctx, "hpc", unused=True, confirm=lambda ask: ask.name).removed
    assert ("queues", "ab") in {(one.kind, one.name) for one in removed}
    assert not (client.base / "queues" / "ab").exists()


@pytest.mark.campaign
def test_what_comes_after_a_sweep_waits_for_it_and_is_taken_away_where_it_fails(client: Client) -> None:
    sweep(
        client.ctx,
        SweepRequest(swept(client, 2, "until [ -e {folder}/gate ]; do sleep 0.1; done; echo 1 > result.json")),
    )
    waits = client.run("true", "then", after=["ab"])
    assert waits.state is State.QUEUED and "it is waiting for another job" in waits.why, waits
    client.run("until [ -e %s/gate ]; do sleep 0.1; done; exit 3" % client.folder, "bad")
    client.run("true", "never", after=["bad"])
    (client.folder / "gate").touch()
    client.becomes(State.SUCCEEDED, "then")
    assert states(client) == {"succeeded": 2}
    row = client.becomes(State.CANCELLED, "never")
    assert "the job it depends on (`after`) did not succeed" in row.reason, row
    with pytest.raises(NeverReady, match="it is failed"):
        client.run("true", "neither", after=["bad"])
    assert client.ctx.store.index.run("neither") is None


def rows(client: Client) -> tuple[Row, ...]:
    return status(client.ctx, ["ab"]).rows


def natives(client: Client) -> set[str]:
    cells = client.ctx.store.index.cells("ab")
    return {str((record.handle or {})["native"]) for record in cells}
