"""What each site offers a sweep: whether it answers and has what is needed, how many cells at once, on which GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sojourn.core.need import Need, fits
from sojourn.core.values import Finding, NoAnswer, Site
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import worst
from sojourn.verbs.context import Box, Context, unreachable
from sojourn.verbs.launch import boxcheck, preflight
from sojourn.verbs.launch.push import ask_missing
from sojourn.verbs.sweep.cells import PreparedSweep
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

BLOCKED = 11
MOST_AT_ONCE = 16  # sites


class Oversubscribed(Misuse):
    """{site} would be oversubscribed: {why}."""

    code = "oversubscribed"
    next_step = "--oversubscribe, if that is what you want"


class NoArrays(Misuse):
    """The scheduler of {site} has no job arrays, so it cannot limit the sweep to {slots} cells at a time."""

    code = "no-arrays"
    next_step = "leave out --slots; the scheduler decides how many run"


@dataclass(frozen=True)
class SiteSlots:
    """One site as just asked. `error`: why it is of no use now. `lanes`: what each slot has, "" or GPUs."""

    box: Box
    hello: Hello
    lacking: frozenset[str] = frozenset()
    lanes: tuple[str, ...] = ()
    limit: int = 0  # of cells at once that somebody asked of a scheduler for the whole sweep; 0 = as before
    looked: Mapping[str, Any] | None = None  # what can stop a run there, as `boxcheck` asked
    findings: tuple[Finding, ...] = ()
    error: WorldError | None = None

    @property
    def is_usable(self) -> bool:
        """It answered, and nothing confirmed speaks against it."""
        return self.error is None and worst(self.findings) != BLOCKED

    @property
    def machine(self) -> str:
        """The machine and folder behind the site's name: two names of one box are one."""
        return f"{self.hello.get('host')} {self.hello.get('boot_id')} {self.hello.get('base')}"


def box_beside(ctx: Context, site: Site, cells: Iterable[RunRecord]) -> Box:
    """The site's box; where its provider rents several machines, the one that cells of the sweep are on already."""
    is_open = {one.name for one in ctx.store.index.leases()}
    return ctx.box(site, next((one.lease for one in cells if one.site_name == site.name and one.lease in is_open), ""))


def ask_sites(ctx: Context, boxes: Sequence[Box], sweep: str, digests: Sequence[str]) -> list[SiteSlots]:
    """What each box has, of these snapshots too; all asked at once, one call each. A box that does not answer, or
    says no, is an offer with an `error`. Lanes are not set yet.
    """

    def ask(box: Box) -> SiteSlots:
        trains = {"op": "have", "kind": "train", "names": [box.keeper.train_file]}
        ops = [{"op": "hello", "queue": sweep}, ask_missing(digests), trains, boxcheck.asked()]
        try:
            said = box.keeper.ask_all(ops)
        except WorldError as error:
            return SiteSlots(box, {}, error=error)
        if isinstance(said, NoAnswer):
            return SiteSlots(box, {}, error=unreachable(box.site, said))
        hello, *lacks, looked = said
        lacking = frozenset(name for answer in lacks for name in answer.value["missing"])
        return SiteSlots(box, cast("Hello", hello.value), lacking, looked=looked.value)

    boxcheck.get_ready()
    if len(boxes) < 2:
        return [ask(box) for box in boxes]
    from concurrent.futures import ThreadPoolExecutor

    ctx.say(f"asking {len(boxes)} sites")
    with ThreadPoolExecutor(min(len(boxes), MOST_AT_ONCE)) as pool:
        return list(pool.map(ask, boxes))


def lanes(
    site: str,
    hello: Hello,
    need: Need,
    *,
    slots: int = 0,
    oversubscribe: bool = False,
    envs: Mapping[str, str] | None = None,
    others: Sequence[RunRecord] = (),
) -> tuple[str, ...]:
    """What each slot of a box has: its GPUs, as CUDA_VISIBLE_DEVICES takes them, or "".

    `slots` 0: one for each GPU (or group, where a cell needs several), one where there is none, or where the job sets
    CUDA_VISIBLE_DEVICES itself. `others`: what else of ours lives there.
    Raises: Oversubscribed, where slots are more than GPUs or CPUs, or others use the GPUs, and that was not asked for.
    """
    gpus = [gpu for gpu in hello.get("gpus") or () if isinstance(gpu, Mapping)]
    each = 1
    if need.accelerators:
        fitting = [
            (count, [gpu for gpu in gpus if fits(name, str(gpu.get("name")))]) for name, count in need.accelerators
        ]
        each, gpus = next(((count, some) for count, some in fitting if len(some) >= count), (1, gpus))
    if gpus and "CUDA_VISIBLE_DEVICES" not in (envs or {}):
        named = [str(gpu.get("uuid") or gpu.get("index", n)) for n, gpu in enumerate(gpus)]
        groups = [",".join(named[n : n + each]) for n in range(0, len(named) - each + 1, each)]
        if others and not oversubscribe:
            what = f"{others[0].id} is running there and may use its GPUs"
            raise Oversubscribed(site=site, why=what)
        if slots > len(groups) and not oversubscribe:
            raise Oversubscribed(site=site, why=f"{slots} slots, but GPUs for only {len(groups)}")
        return tuple(groups[n % len(groups)] for n in range(slots or len(groups)))
    cgroup = hello.get("cgroup") or {}
    cpus = min(float(hello.get("cpus") or 1), float(cgroup.get("cpu_quota") or 1 << 20))
    most = max(1, int(cpus / (need.cpus or 1.0)))
    if slots > most and not oversubscribe:
        raise Oversubscribed(site=site, why=f"{slots} slots, but CPUs for only {most}")
    return ("",) * (slots or 1)


def judged(offer: SiteSlots, prepared: PreparedSweep, cells: int) -> tuple[Finding, ...]:
    """Findings about running so many cells there: resources, room for all of them."""
    # What runs elsewhere does not have to fit here: the scheduler finds a machine for it, or says that there is none.
    need = Need() if offer.box.scheduler else prepared.job.need
    found = preflight.check_need(offer.hello, need, prepared.room(cells, offer.box, offer.lacking))
    return with_box(offer, found, prepared.job.envs, wants_cards=bool(prepared.job.need.accelerators))


def with_box(
    offer: SiteSlots, found: tuple[Finding, ...], envs: Mapping[str, str], *, wants_cards: bool
) -> tuple[Finding, ...]:
    """The findings, and what speaks against the box itself."""
    if offer.looked is None:
        return found
    return boxcheck.beside(found, offer.box, offer.looked, envs, wants_cards=wants_cards)
