"""`doctor`: what a site's box is, and what speaks against running there now. Starts nothing; puts the keeper there.

A blocker that is confirmed here stops `run` there too: both ask the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sojourn.backends.keeper.decode import BadAnswer
from sojourn.core.values import Ended, Finding, NoAnswer
from sojourn.core.verdict import SICK
from sojourn.verbs.answers import document, worst
from sojourn.verbs.context import CALL_S, Box, Context, unreachable
from sojourn.verbs.launch import boxcheck, checkup
from sojourn.wire import quote, units
from sojourn.wire.errors import SojournError, Unreachable, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello


@dataclass(frozen=True)
class Doctor:
    """What was seen. `facts`: the keeper's hello (none where no keeper answers) and what a shell sees beside it."""

    site: str
    facts: Mapping[str, Any]
    findings: tuple[Finding, ...]
    next: str
    exit_status: int

    def as_json(self) -> dict[str, Any]:
        """The `doctor` document: the fields, with `exit` for `exit_status`."""
        return document(self, "doctor", without=("exit_status",), exit=self.exit_status)


def doctor(ctx: Context, site: str = "") -> Doctor:
    """Ask the site's box, and judge what its keeper and a shell say, and every probe of a machine by the rules.
    `site`: "" = this machine.

    A box that answers and yet has no Python, no room or no writable folder is a finding, not an error; so is an answer
    that cannot be right, with which it ends as an error of the box.
    Raises: Misuse (unknown-site, no-such-backend, ...), Unreachable.
    """
    box = ctx.box_of(site)
    ctx.say(f"asking {box.site.name}")
    probe = _probe(box)
    hello, refused = _hello(ctx, box)
    findings = checkup.check_site(box.site, box.launcher.survives, cast("Hello", hello), probe)
    looked, sick = _looked(box) if hello else ({}, refused)
    if looked:
        own = boxcheck.check_box(box.site, looked)
        findings = boxcheck.joined(boxcheck.without_cards(own) if box.scheduler else own, findings)
    is_sick = isinstance(sick, BadAnswer)
    if sick is not None and (is_sick or not any(f.severity == "blocker" for f in findings)):
        findings.insert(0, _blocker(sick))
    refusal = _launcher(box)
    if refusal is not None:
        findings.insert(0, _blocker(refusal))
    status = SICK if is_sick else worst(findings)
    words = ["--site", box.site.name] if box.site.name != "local" else []
    return Doctor(
        site=box.site.name,
        facts={"transport": box.site.transport, "launcher": box.site.launcher, **hello, **probe},
        findings=tuple(findings),
        next=quote.join(["sojourn", "doctor", box.site.name] if status in (SICK, 11) else ["sojourn", "plan", *words]),
        exit_status=status,
    )


def _probe(box: Box) -> dict[str, Any]:
    argv = ["sh", "-c", checkup.PROBE, "sojourn", box.site.base]
    ended = box.transport.call(argv, timeout_s=CALL_S, limit_bytes=1 << 18)
    if isinstance(ended, NoAnswer):
        raise unreachable(box.site, ended)
    assert isinstance(ended, Ended)
    return checkup.parse_probe(ended.stdout)


def _hello(ctx: Context, box: Box) -> tuple[dict[str, Any], WorldError | None]:
    """The keeper's hello with our clock beside it, or why there is none. Raises: Unreachable."""
    try:
        box.answer("hello", timeout_s=60.0)  # may first have to put the keeper there, which takes its time
        before_s = ctx.now_s()
        value = box.answer("hello").value
        after_s = ctx.now_s()
    except Unreachable:
        raise
    except WorldError as error:
        return {}, error
    middle_s, unsure_s = (before_s + after_s) / 2, (after_s - before_s) / 2
    offset_s = units.unstamp(str(value["now"])) - middle_s
    facts = {key: fact for key, fact in value.items() if key != "ok"}
    return {**facts, "clock_offset_s": round(offset_s, 3), "clock_unsure_s": round(unsure_s, 3)}, None


def _looked(box: Box) -> tuple[dict[str, Any], WorldError | None]:
    """The evidence of every probe that asks about a machine, or why there is none. Raises: Unreachable, WorldError."""
    try:
        return box.answer("look", timeout_s=60.0).value["evidence"], None
    except BadAnswer as error:
        return {}, error


def _launcher(box: Box) -> SojournError | None:
    """What the launcher would say instead of starting; most have nothing to say before."""
    check = getattr(box.launcher, "check", None)
    refusal: SojournError | None = check(box.place) if check is not None else None
    return refusal


def _blocker(error: SojournError) -> Finding:
    return Finding(error.code, "confirmed", error.message.rstrip("."), "blocker", fix=error.next)
