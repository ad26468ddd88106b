"""`doctor`: what a site's box is, and what speaks against running there now. Starts nothing; puts the keeper there.

A blocker that is confirmed here stops `run` there too: both ask the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sojourn.backends.keeper.decode import BadAnswer
from sojourn.core.values import Ended, Finding, NoAnswer, Site
from sojourn.core.verdict import SICK
from sojourn.verbs.answers import document, worst
from sojourn.verbs.context import CALL_S, Box, Context, plain_site, provider_of, unreachable
from sojourn.verbs.launch import boxcheck, checkup
from sojourn.wire import quote, units
from sojourn.wire.errors import Unreachable, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

ACCOUNT_S = 10.0  # for each question to a provider


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
    Of a provider that rents, by its name or by a site that has no machine now, the account is checked with its key.
    Raises: Misuse (unknown-site, no-such-backend, no-key, ...), Unreachable, WorldError (key-refused, ...).
    """
    renting = _renting(ctx, site)
    if renting is not None:
        return _account(ctx, renting)
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
        findings.insert(0, boxcheck.blocker(sick))
    findings = [*boxcheck.check_launcher(box), *findings]
    findings += _avoided(hello) if box.scheduler else []
    status = SICK if is_sick else worst(findings)
    words = ["--site", box.site.name] if box.site.name != "local" else []
    return Doctor(
        site=box.site.name,
        facts={"transport": box.site.transport, "launcher": box.site.launcher, **hello, **probe},
        findings=tuple(findings),
        next=quote.join(["sojourn", "doctor", box.site.name] if status in (SICK, 11) else ["sojourn", "plan", *words]),
        exit_status=status,
    )


def _renting(ctx: Context, text: str) -> Site | None:
    """The site that `text` names, where its provider rents and has no machine for it now; a provider's own name is a
    site without settings. None for any other.
    """
    from sojourn.store.settings import UnknownSite, read_settings

    plain = plain_site(text) if text not in read_settings().sites else None
    if plain is not None:
        return plain
    if any(one.name == text for one in ctx.store.index.leases()):
        return None
    try:
        site = ctx.site(text)
    except UnknownSite:  # perhaps the name of a machine
        return None
    has_one = any(one.lease.site == site.name and one.lease.address for one in ctx.store.index.leases())
    return site if provider_of(site).rents and not has_one else None


def _account(ctx: Context, site: Site) -> Doctor:
    """What a reading call with the site's key says."""
    from sojourn.backends.client.https import patient_for

    provider: Any = provider_of(site)
    ctx.say(f"asking {site.provider}")
    with patient_for(ACCOUNT_S):
        told = dict(provider.check()) if hasattr(provider, "check") else {}
    told.pop("balance_micro", None)  # `balance` says it in words
    return Doctor(site.name, {"provider": site.provider, **told}, (), "sojourn plan", 0)


def _avoided(hello: Mapping[str, Any]) -> list[Finding]:
    """The nodes that runs found faulty, and are kept away from for a while."""
    return [
        Finding(
            "node-avoided",
            "confirmed",
            f"node {row['node']} was found faulty; new jobs avoid it for another {units.say_seconds(row['left_s'])}",
            cause=str(row["why"]),
            fix=f"Tell the cluster's administrators. If it is mended: rm {hello.get('base')}/avoid/{row['node']}",
        )
        for row in hello.get("avoid") or ()
    ]


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
