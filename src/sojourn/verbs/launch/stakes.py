"""What `plan` judges before money is spent: do checkpoints outlive a stop, do they fit, does a save fit into the notice
of an interruption, what bringing results home costs, and was anything tried. Pure but for the records of earlier runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.need import GIB
from sojourn.core.values import Evidence, Finding, Site
from sojourn.store.catalog import Platform
from sojourn.store.platforms import document
from sojourn.wire.units import say_bytes, say_money, say_seconds

if TYPE_CHECKING:
    from sojourn.store.job.values import JobFile
    from sojourn.store.records import RunRecord
    from sojourn.verbs.context import Context
    from sojourn.verbs.launch.prepare import Prepared

# On disk at once at most: the two that a Checkpointer keeps, its best.pt, and the one being written.
COPIES = 4
LOOK_BACK = 50  # settled runs that are looked through for one of the same command
NO_PRICE = ("0", "free", "unknown", "host-dependent", "none")


@dataclass(frozen=True)
class Earlier:
    """What the newest run of the same command left in the records. None: not measured, or there was none."""

    run: str = ""
    checkpoint_bytes: int | None = None
    write_s: float | None = None
    home_bytes: int | None = None


def earlier(ctx: Context, prepared: Prepared) -> Earlier:
    """The newest run of this name, else of this command, that reported a checkpoint or whose results are home."""
    known, _ = ctx.store.index.recent(LOOK_BACK)
    same = [one for one in known if one.id == prepared.id or one.run.spec.get("argv") == prepared.spec["argv"]]
    for record in sorted(same, key=lambda one: (one.id != prepared.id, -one.planned_s)):
        found = _measured(record)
        if found.checkpoint_bytes or found.home_bytes:
            return found
    return Earlier()


def _measured(record: RunRecord) -> Earlier:
    saved = record.status.checkpoint or {}
    home = sum(receipt.bytes for receipt in record.receipts)
    return Earlier(record.id, saved.get("bytes"), saved.get("write_s"), home or None)


def findings(
    facts: Platform, site: Site, job: JobFile, before: Earlier, survival: Mapping[str, Any], disk: Mapping[str, Any]
) -> Iterator[Finding]:
    """What speaks against it. `survival`, `disk`: as in the plan."""
    is_by_hand = "stop" in site.options or "stop_is_final" in site.options
    tiers = facts.tiers_of(str(survival.get("path") or ""))
    if survival.get("survives") is False and not is_by_hand and tiers and all(tier.stop is False for tier in tiers):
        yield Finding(
            "checkpoints-on-passing-disk",
            "confirmed",
            f"a stop of the machine deletes {survival['path']}",
            "warning",
            f"checkpoints lie there, and {survival['why']}",
            f"set `base` of site {site.name} to a folder that stays (`sojourn platforms show {facts.name}`), or bring"
            " checkpoints home while it runs: sojourn pull --follow",
            evidence=(Evidence("survival", False, f"platform {facts.name}"),),
        )
    free, size = disk.get("free_bytes"), before.checkpoint_bytes
    if size and isinstance(free, int) and (most := size * COPIES + int(disk.get("needed_bytes") or 0)) > free:
        yield Finding(
            "disk-plan-too-large",
            "confirmed",
            f"{COPIES} checkpoints of {say_bytes(size)} do not fit on the disk of {disk['path']}",
            "warning",
            f"with the code they need {say_bytes(most)}, and {say_bytes(free)} are free",
            "keep fewer checkpoints (`keep=1`), save weights alone, or use a larger disk",
            never="never make room by deleting another run's checkpoints without its owner's consent",
            evidence=(Evidence("checkpoint.bytes", size, f"run {before.run}"), Evidence("disk.free", free, "its box")),
        )
    notice_s = document(facts.name).get("interruption", {}).get("grace_s", {}).get("is")
    is_told = isinstance(notice_s, (int, float)) and not isinstance(notice_s, bool)
    if is_told and before.write_s and before.write_s > notice_s and not job.signal:
        yield Finding(
            "spot-save-too-slow",
            "confirmed",
            f"a save takes {say_seconds(before.write_s)}, and {facts.title} gives {say_seconds(notice_s)} of notice",
            "warning",
            "an interruption ends the process before the save that it asks for is whole",
            "save on a timer, and keep copies off the machine: sojourn cadence --mtbf TIME --write"
            f" {before.write_s:.0f}s; sojourn pull --follow",
            evidence=(Evidence("checkpoint.write_s", before.write_s, f"run {before.run}"),),
        )


def remarks(
    facts: Platform, job: JobFile, before: Earlier, price_micro: Any, currency: str, *, is_free: bool
) -> Iterator[str]:
    """What a person should know. `price_micro`: of a GiB out, by its provider; None where that tells none."""
    if is_free:
        return
    out = str(document(facts.name).get("traffic", {}).get("out", {}).get("is", "unknown"))
    if isinstance(price_micro, int) and price_micro:
        line = f"traffic out costs {say_money(price_micro, currency)} per GiB"
        if before.home_bytes:
            cost = -(-before.home_bytes * price_micro // GIB)
            line += f": {say_money(cost, currency)} for {say_bytes(before.home_bytes)}, as {before.run} brought home"
        yield line
    elif price_micro is None and out not in NO_PRICE:
        yield f"traffic out is billed: {out}"
    if not job.smoke:
        yield "no `smoke` command: nothing is tried on this machine before the meter runs (see `sojourn smoke --help`)"
