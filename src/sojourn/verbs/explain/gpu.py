"""`gpu`: how the cards of a site are, by the same rules that judge a run; who holds them, and whether anybody waits for
that. Clocks and power are judged under load alone: an idle card is slow, and healthy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import Finding
from sojourn.diagnose import evidence
from sojourn.diagnose.facts import cards
from sojourn.diagnose.facts.table import number
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas
from sojourn.verbs.answers import document, worst
from sojourn.verbs.context import Box, Context
from sojourn.verbs.explain import holders
from sojourn.verbs.observe.reasons import scope_of
from sojourn.wire import quote

LOOK_S = 2.0  # ten looks
MATMUL_S = 5.0
PROBES = ["cards", "holders", "kernel_log"]
_MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """What the cards are. `facts`: {"host","driver","cuda","words","cards","holders","hidden","kernel_log","matmul"};
    `words`: why there are no cards, "" where there are."""

    site: str
    facts: Mapping[str, Any]
    findings: tuple[Finding, ...]
    next: str
    exit_status: int

    def as_json(self) -> dict[str, Any]:
        """The `gpu` document: the fields, with `exit` for `exit_status`."""
        return document(self, "gpu", without=("exit_status",), exit=self.exit_status)


def gpu(ctx: Context, site: str = "", *, matmul: bool = False, seconds: float = 0.0) -> Gpu:
    """Watch the cards of the site's box for a while, and judge. `site`: "" = this machine; `seconds`: 0 = as long as it
    takes to tell; `matmul`: let cards that nobody uses multiply meanwhile, with the site's Python that has torch.

    Raises: Misuse (unknown-site, ...), Unreachable, WorldError.
    """
    box = ctx.box_of(site)
    wanted_s = seconds or (MATMUL_S if matmul else LOOK_S)
    sample = {"seconds": wanted_s, "matmul": matmul, "python": box.site.python, "init": box.site.init}
    ctx.say(f"sampling the GPUs of {box.site.name}")
    answer = box.answer("look", probes=PROBES, sample=sample, timeout_s=wanted_s + (300.0 if matmul else 60.0))
    return judge_gpus(box, answer.value["evidence"], matmul)


def judge_gpus(box: Box, looked: Mapping[str, Any], matmul: bool) -> Gpu:
    """The answer, from the evidence of the box."""
    site, probes = box.site, looked.get("probes") or {}
    name, entry = _query(probes)
    looks = cards.per_card(cards.rows_of(name, str(entry.get("stdout") or "")))
    looks = [one for one in looks if re.fullmatch("[0-9]{1,4}", one[0].get("index", ""))]
    document = {**looked, "scope": scope_of(site)}
    found = _judged(document, name, looks)
    case = evidence.from_document(document, gotchas())
    held, hidden = holders.read_holders(probes)
    facts = {
        "host": looked.get("host"),
        "driver": case.value("gpu.driver"),
        "cuda": case.value("gpu.driver_cuda"),
        "words": _words(box, probes, entry, len(looks)),
        "cards": [_card(one) for one in looks],
        "holders": [one.as_json() for one in held],
        "hidden": hidden,
        "kernel_log": case.value("kmsg.readable"),
        "xid": case.value("kmsg.xid"),
        "matmul": _matmul(probes.get("matmul")) if matmul else None,
    }
    status = worst(found)
    where = [] if site.name == "local" else [site.name]
    if holders.orphans(held):
        following = ["sojourn", "reap", *where]
    elif looks and not matmul and any(card["judged"] != "under load" for card in facts["cards"]):
        following = ["sojourn", "gpu", *where, "--matmul"]
    else:
        following = ["sojourn", "doctor", *where]
    return Gpu(site.name, facts, tuple(found), quote.join(following), status)


def _query(probes: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The probe that reports GPUs, one row per sample; empty if nothing could be queried."""
    found = {name: entry for name, entry in probes.items() if "--query-gpu" in name}
    for name in sorted(found, key=lambda one: "--loop-ms" not in one):
        return name, found[name]
    return "nvidia-smi", probes.get("nvidia-smi") or {}


def _judged(document: Mapping[str, Any], name: str, looks: Sequence[Sequence[Mapping[str, str]]]) -> list[Finding]:
    """Findings about cards, each card judged by itself, since one that is sick must not hide among those that are not.

    What applies to several is reported once.
    """
    probes = document.get("probes") or {}
    entry = probes.get(name) or {}
    lines = str(entry.get("stdout") or "").splitlines()
    found: dict[str, Finding] = {}
    where: dict[str, list[str]] = {}
    for at in [one[0]["index"] for one in looks] or [""]:
        own = "".join(line + "\n" for line in lines if not at or line.split(",")[0].strip() == at)
        one = {**document, "probes": {**probes, name: {**entry, "stdout": own}}} if at else document
        for finding in reason(gotchas(), evidence.from_document(one, gotchas())).findings:
            if finding.status in ("confirmed", "likely", "conflict") and finding.id in _of_cards():
                found.setdefault(finding.id, finding)
                where.setdefault(finding.id, []).append(at)
    out = []
    for slug, finding in found.items():
        some = where[slug] if 0 < len(where[slug]) < len(looks) else []
        title = f"card {', '.join(some)}: {finding.title}" if some else finding.title
        out.append(Finding(**{**vars(finding), "title": title}))
    return out


def _of_cards() -> frozenset[str]:
    return frozenset(gotcha.id for gotcha in gotchas() if gotcha.theme == "gpu" or gotcha.id == "fabric-manager-down")


def _card(looks: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """One card's facts, means over the looks; clocks, power and throttling only of those under load."""
    last, busy = looks[-1], cards.loaded(looks)

    def mean(key: str, of: Sequence[Mapping[str, str]] = looks, scale: float = 1.0, digits: int = 1) -> Any:
        value = cards.mean(of, key)
        return None if value is None else round(value * scale, digits)

    mib = {key: number(last.get(f"memory.{key}", "")) for key in ("total", "used")}
    clock, top = mean("clocks.sm", busy), mean("clocks.max.sm", busy)
    ecc = number(last.get("ecc.errors.uncorrected.volatile.total", ""))
    return {
        "index": int(last["index"]),
        "name": last.get("name"),
        "uuid": last.get("uuid"),
        "bus_id": last.get("pci.bus_id"),
        "memory_bytes": None if mib["total"] is None else int(mib["total"] * _MIB),
        "used_bytes": None if mib["used"] is None else int(mib["used"] * _MIB),
        "util_pct": mean("utilization.gpu"),
        "temperature_c": mean("temperature.gpu"),
        "power_w": mean("power.draw", busy or looks),
        "power_limit_w": mean("power.limit"),
        "clock_mhz": clock,
        "clock_max_mhz": top,
        "clock_share": round(clock / top, 3) if clock and top else None,
        "throttle": cards.throttled(looks) if busy else None,
        "ecc_uncorrected": None if ecc is None else int(ecc),
        "remap_failed": {"Yes": True, "No": False}.get(last.get("remapped_rows.failure", "")),
        "remap_pending": {"Yes": True, "No": False}.get(last.get("remapped_rows.pending", "")),
        "mig": {"Enabled": True, "Disabled": False}.get(last.get("mig.mode.current", "")),
        "looks": len(looks),
        "judged": "under load" if 2 * len(busy) >= len(looks) else "idle: clocks and power are inconclusive",
    }


def _words(box: Box, probes: Mapping[str, Any], entry: Mapping[str, Any], count: int) -> str:
    """Why no GPUs are reported, or which machine they belong to; "" if there is nothing to add."""
    seat = "these are the login node's GPUs; a run is allocated another machine" if box.scheduler else ""
    if count:
        return seat
    said = str(entry.get("stderr") or entry.get("stdout") or "").strip().splitlines()
    why = said[0] if said else "nobody could be asked"
    return f"{why}; {seat}" if seat else why


def _matmul(entry: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the product came to: {"torch","cuda","cards":[{"card","ok","said","tflops"}],"words"}."""
    if entry is None:
        return None
    found: dict[str, Any] = {"torch": None, "cuda": None, "cards": [], "words": str(entry.get("stderr") or "").strip()}
    for line in str(entry.get("stdout") or "").splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict) and "torch" in one:
            found.update(torch=one["torch"], cuda=one.get("cuda"))
            if not one.get("avail"):
                found["words"] = "torch finds no GPU"
        elif isinstance(one, dict) and "card" in one:
            found["cards"].append(one)
        elif isinstance(one, dict) and "failed" in one:
            found["words"] = str(one["failed"])
    return found
