"""A box with a kernel and a cron of its own loses its power under a queue of cells: each comes to its end, once."""

import os
from pathlib import Path

import pytest

from sojourn.store.home import Store
from sojourn.verbs.context import Context
from sojourn.verbs.observe.status import status
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.reconcile import reconcile
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from sojourn.wire.errors import Unreachable
from tests.backends.test_reboot_for_real import far, kbox, site, until
from tests.backends.test_reboot_for_real import pytestmark as marks

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [*marks, pytest.mark.campaign]
__all__ = ["site"]
CELLS = ["ab-cell1", "ab-cell2", "ab-cell3", "ab-cell4"]
# Every start is on the disk before it does anything. The second cell stays in its first attempt until the power goes.
CELL = """
echo "$SOJOURN_RUN_ID" >> /workspace/begun; sync /workspace/begun
while [ "$SOJOURN_RUN_ID-$SOJOURN_ATTEMPT" = ab-cell2-1 ]; do sleep 1; done
echo "{\\"cell\\": \\"$SOJOURN_RUN_ID\\"}" > result.json; sync result.json
"""


def begun() -> list[str]:
    return far("cat /workspace/begun 2>/dev/null").split()


def queued(ctx: Context, job: str) -> None:
    """The identical command again where the link broke: such a box is slow enough for ssh to give a copy up."""
    for _ in range(3):
        try:
            done = sweep(ctx, SweepRequest(job))
        except Unreachable:
            continue
        if done.exit_status == 0:
            return
    assert sweep(ctx, SweepRequest(job)).exit_status == 0


@pytest.mark.parametrize("has_hook", [True, False])
def test_a_queue_survives_a_power_loss_and_every_cell_ends_once(site: str, has_hook: bool, tmp_path: Path) -> None:
    job = tmp_path / "project" / "sojourn.yaml"
    job.parent.mkdir()
    lines = "".join(f"  {line}\n" for line in CELL.strip().splitlines())
    matrix = "sweep: {matrix: {cell: [1, 2, 3, 4]}}\n"
    job.write_text(f"name: ab\nsite: {site}\noutputs: [result.json]\n{matrix}run: |\n{lines}")
    if not has_hook:
        settings = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn" / "settings.toml"
        settings.write_text(settings.read_text().replace('reboot_hook = "cron"\n', ""))
    with Context(Store()) as ctx:
        queued(ctx, str(job))
        until(lambda: "ab-cell2" in begun(), 120)
    kbox("power-off", "1")
    kbox("up", "1")
    if has_hook:  # no client has a part in it
        for cell in CELLS:
            until(lambda cell=cell: far(f"ls /workspace/sj/runs/{cell}/manifest.json 2>/dev/null"), 180)  # type: ignore[misc]
        until(lambda: "sojourn" not in far("crontab -l 2>/dev/null"), 60)
    with Context(Store()) as ctx:
        status(ctx, ["ab"])
        until(lambda: not any(row.state.is_alive for row in status(ctx, ["ab"]).rows), 180)
        if not has_hook:
            assert reconcile(ctx, "ab").as_json()["failed"] == ["ab-cell2"]
            assert reconcile(ctx, "ab", repair=True).relaunched == ("ab-cell2",)
            until(lambda: not any(row.state.is_alive for row in status(ctx, ["ab"]).rows), 180)
        until(lambda: all(answer.ok for answer in pull(ctx, ["ab"])), 180)
        seen = reconcile(ctx, "ab")
    assert seen.exit_status == 0 and not seen.duplicates, seen.as_json()
    assert sorted(begun()) == sorted([*CELLS, "ab-cell2"])
