"""What cells that run side by side cost."""

import time

import pytest

from sojourn.verbs.observe.cost import cost
from sojourn.verbs.observe.status import status
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.verbs import faulty
from tests.verbs.conftest import World


@pytest.mark.campaign
def test_cells_in_several_slots_of_one_lease_add_up_to_no_more_than_the_lease(world: World) -> None:
    world.ctx = world.client(faulty.Provider(world.site))
    gate = world.project / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.05; done"
    job = world.job(script, name="ab", outputs=[], sweep={"matrix": {"lr": [1, 2, 3, 4]}})
    sweep(world.ctx, SweepRequest(job, slots=4, oversubscribe=True))
    deadline = time.monotonic() + 240
    while {row.state.value for row in status(world.ctx).rows} != {"running"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(4.0)  # side by side: each alone would have cost almost the whole lease
    gate.touch()
    while not all(record.is_settled for record in world.ctx.store.index.runs()):
        assert time.monotonic() < deadline
        status(world.ctx)
        time.sleep(0.1)
    (lease,) = cost(world.ctx).rows
    seen = status(world.ctx)
    spent = [row.spent_micro or 0 for row in seen.rows]
    assert all(spent) and sum(spent) <= (lease.spent_micro or 0)
    assert seen.sweeps[0]["spent"] == [{"amount": sum(spent) / 1e6, "currency": "EUR", "micro": sum(spent)}]
    assert [run["spent"]["micro"] for run in cost(world.ctx).runs] == spent
    alone = status(world.ctx, [seen.rows[0].id]).rows[0]
    assert alone.spent_micro == spent[0]  # asked for alone, it still shares with the others
