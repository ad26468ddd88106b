"""From a job file with a sweep to the run.json of every cell; the code is read once for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sojourn.core.values import Site
from sojourn.store.job.cells import Cell, expand, job_of, sweep_name
from sojourn.store.job.read import find_job, read_job
from sojourn.store.job.scalars import option_words
from sojourn.store.job.values import JobFile
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch import preflight
from sojourn.verbs.launch.prepare import Trees, local_of, on_site, read_trees, spec_of
from sojourn.verbs.launch.sending import sends
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.wire import units
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


class NoSweep(Misuse):
    """{path} has no `sweep` section. To start a single run, use `sojourn run`."""

    code = "no-sweep"
    next_step = "sojourn run"


class BudgetShared(Misuse):
    """Sweep {sweep}: its budget of {budget} is already divided among {cells} cells, so {new} more would get nothing.
    Raise the `budget` under `sweep` in the job file.
    """

    code = "budget-shared"


@dataclass(frozen=True)
class PreparedCell:
    """One cell as it would be asked for now. `spec`: most of its run.json."""

    cell: Cell
    spec: Spec

    @property
    def id(self) -> str:
        """The id of its run."""
        return self.cell.name

    def local(self) -> dict[str, Any]:
        """What of it concerns this machine alone."""
        return {"values": dict(self.cell.values), "epochs": self.cell.epochs}


@dataclass(frozen=True)
class PreparedSweep:
    """A sweep as it would be asked for now. `given`: FILE and --env, for a command that means the same."""

    name: str
    job: JobFile
    tree: Trees
    cells: tuple[PreparedCell, ...]
    given: tuple[str, ...] = ()

    def local(self) -> dict[str, Any]:
        """What concerns this machine alone, the same for all cells."""
        return local_of(self.job)

    def on_site(self, site: Site, *, keeper: str, train: str, now_s: float) -> Spec:
        """What every run.json holds of the site that it is for. Raises: Misuse (a budget in another currency)."""
        return on_site(self.job, site, keeper=keeper, train=train, now_s=now_s)

    def room(self, cells: int, box: Box, lacking: Set[str]) -> preflight.Room:
        """What so many cells take on a box that lacks these snapshots."""
        one = preflight.room(self.tree.trees, lacking, packs=not sends(box))
        return preflight.room_for_cells(one, cells)


def prepare_sweep(ctx: Context, asked: SweepRequest) -> PreparedSweep:
    """Read the job file, its cells and the code as they are now; writes nothing.

    Raises: Misuse (no-job-file, bad-job-file, no-sweep, bad-cells, bad-queue, a tree that cannot be a snapshot).
    """
    file, env = asked.file, asked.env
    job = read_job(file or find_job(), env)
    if job.sweep is None:
        raise NoSweep(path=job.path)
    job = replace(job, scheduling={**job.scheduling, **asked.scheduling})
    cells = expand(job)
    tree = read_trees(ctx, job)
    rule = job.sweep.early_stop if job.sweep else None
    of_sweep: Spec = {"sweep": sweep_name(job), **({"early_stop": rule.as_plain()} if rule else {})}
    prepared = tuple(PreparedCell(cell, {**spec_of(job_of(job, cell), tree), **of_sweep}) for cell in cells)
    given = [*([file] if file else []), *(word for key, value in env.items() for word in ("--env", f"{key}={value}"))]
    given += option_words(asked.scheduling)
    job = replace(job, warnings=(*job.warnings, *tree.remarks))
    return PreparedSweep(sweep_name(job), job, tree, prepared, tuple(given))


def with_share(prepared: PreparedSweep, known: Mapping[str, RunRecord], new: Sequence[PreparedCell]) -> PreparedSweep:
    """The budget of the sweep shared out: each of the cells that are `new` gets the same of what the `known` leave.

    No client may be there to count, so each cell's own keeper sees to its share. Raises: BudgetShared.
    """
    job = prepared.job
    whole = job.sweep.budget if job.sweep else None
    if whole is None or job.budget is not None or not new:
        return prepared
    micro, currency = whole
    coming = {cell.id for cell in new}
    others = [record.local.get("budget") for record in known.values() if record.id not in coming]
    share = (micro - sum(int(one[0]) for one in others if one and one[1] == currency)) // len(new)
    if share <= 0:
        said = units.say_money(micro, currency)
        raise BudgetShared(sweep=prepared.name, budget=said, cells=len(others), new=len(new))
    return replace(prepared, job=replace(job, budget=(share, currency)))


def shared(specs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what all of these have in common, the rest of each): a thousand run.json are sent and journaled as that."""
    first = specs[0]
    common = {
        key: value for key, value in first.items() if all(key in spec and spec[key] == value for spec in specs[1:])
    }
    return common, [{key: value for key, value in spec.items() if key not in common} for spec in specs]
