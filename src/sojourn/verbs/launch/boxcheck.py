"""What speaks against a box itself, by the rules that judge a run: before a run is started there, and for `doctor`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn.core.values import Finding, Site

if TYPE_CHECKING:
    from sojourn.core.gotcha import Gotcha
    from sojourn.verbs.context import Box
    from sojourn.wire.errors import SojournError

# What can stop a run before it begins, and what is asked for it: no more, since every `run` waits for the answer. A
# mount that cannot be written shows when it is written.
QUICK = ("writing", "room", "cards", "kernel_log")
# What the keeper's hello told already, in numbers; the rule that tells the cause wins.
_SAME = {
    "disk-full": ("disk-nearly-full", "disk-too-small"),
    "inodes-used-up": ("inodes-nearly-used-up", "inodes-too-few"),
    "disk-quota": ("disk-nearly-full", "disk-too-small"),
    "driver-not-loaded": ("gpu-without-driver",),
    "gpu-hardware-fault": ("gpu-without-driver",),
    "nvml-version-mismatch": ("gpu-without-driver",),
}


def asked(names: Sequence[str] | None = QUICK) -> dict[str, Any]:
    """The question for the box; `names` None: every probe there is."""
    return {"op": "look"} if names is None else {"op": "look", "probes": list(names)}


def get_ready() -> None:
    """Load what judges, in the background: for while the box is asked."""
    threading.Thread(target=_judges, daemon=True).start()


def _judges() -> tuple[Gotcha, ...]:
    from sojourn.diagnose import evidence, reason  # noqa: F401
    from sojourn.store.gotchas import gotchas

    return gotchas()


def check_box(site: Site, looked: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Findings about the box, best first: what is confirmed or in conflict. `looked`: the evidence of op `look`."""
    gotchas = _judges()
    from sojourn.diagnose import evidence
    from sojourn.diagnose.reason import reason
    from sojourn.verbs.observe.reasons import scope_of

    case = evidence.from_document({**looked, "scope": scope_of(site)}, gotchas)
    advice = {gotcha.id for gotcha in gotchas if gotcha.role == "advice"}
    found = reason(gotchas, case).findings
    return tuple(f for f in found if f.status in ("confirmed", "conflict") and f.id not in advice)


def check_launcher(box: Box) -> tuple[Finding, ...]:
    """What the launcher would say instead of starting, as a blocker; most have nothing to say before. A round trip
    for those that do.
    """
    check = getattr(box.launcher, "check", None)
    refusal: SojournError | None = check(box.place) if check is not None else None
    return (blocker(refusal),) if refusal is not None else ()


def blocker(error: SojournError) -> Finding:
    """An error of the box as a finding."""
    return Finding(error.code, "confirmed", error.message.rstrip("."), "blocker", fix=error.next)


def beside(
    findings: Sequence[Finding], box: Box, looked: Mapping[str, Any], envs: Mapping[str, str], *, wants_cards: bool
) -> tuple[Finding, ...]:
    """What speaks against a job there, and what against the box itself; the cards of a login node say nothing.
    `looked`: the box's answer to `asked`."""
    own = for_job(check_box(box.site, looked["evidence"]), envs, wants_cards=wants_cards)
    return tuple(joined(without_cards(own) if box.scheduler else own, findings))


def joined(own: Sequence[Finding], others: Sequence[Finding]) -> list[Finding]:
    """Both, blockers first; of two that say the same the one with the cause."""
    said = {name for finding in own if finding.status == "confirmed" for name in _SAME.get(finding.id, ())}
    order = ("blocker", "warning", "note")
    found = [*(one for one in others if one.id not in said), *own]
    return sorted(found, key=lambda one: (one.status != "confirmed", order.index(one.severity)))


def for_job(findings: Sequence[Finding], envs: Mapping[str, str], *, wants_cards: bool) -> tuple[Finding, ...]:
    """The findings as they concern one job: what is wrong with cards stops no job that says it uses none, and that
    there are none stops only a job that asks for them."""
    from sojourn.store.gotchas import gotchas

    cards = {gotcha.id for gotcha in gotchas() if gotcha.theme == "gpu"}
    uses_none = not wants_cards and str(envs.get("CUDA_VISIBLE_DEVICES", "0")).strip() in ("", "-1")
    out = []
    for one in findings:
        is_no_matter = one.id in cards and (uses_none or (one.id == "no-gpu-in-container" and not wants_cards))
        out.append(replace(one, severity="note") if is_no_matter and one.severity != "note" else one)
    return tuple(out)


def without_cards(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings as they concern a machine whose cards run nothing: a login node."""
    return for_job(findings, {"CUDA_VISIBLE_DEVICES": ""}, wants_cards=False)
