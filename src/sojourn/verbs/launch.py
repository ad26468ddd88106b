"""Starting a keeper on a root, and waiting until the attempt it was started for is proven alive, or has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sojourn.core.ports import Tether
from sojourn.core.values import NoAnswer, State
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Context
from sojourn.verbs.hear import View, hear_one
from sojourn.verbs.status import meter_of, next_step
from sojourn.wire import mask
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.verbs.context import Box

# A process that dies of a wrong path, a missing module or a bad argument mostly does so within this time.
SETTLE_S = 1.0
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 1.0
RESTART_S = 2.0  # a keeper that should be there and is not is started again so often
TAIL_LINES, TAIL_BYTES = 15, 1 << 14


class NotBegun(WorldError):
    """Attempt {attempt} of {run} was asked for, and its keeper did not begin it within {seconds} s{said}."""

    code = "not-begun"
    retry = True
    next_step = "sojourn run (again: it goes on where this stopped), or sojourn doctor {site}"


class SecretMissing(Misuse):
    """The job needs the secret {name}, and the environment has no variable of that name."""

    code = "secret-missing"
    next_step = "export {name}=...  (only its name is ever recorded)"


def start_keeper(box: Box, run: str, attempt: int) -> Tether | NoAnswer:
    """Start the run's own keeper on its root; harmless where one is in charge.

    It goes on with what the root says: adopts what lives, records an end, begins an attempt that was asked for.
    `attempt`: the one that was asked for last; asking again changes nothing and tells how to start the keeper.
    Raises: WorldError (no-such-run, ...).
    """
    asked = box.ask("want", run=run, attempt=attempt, by="resume")
    return asked if isinstance(asked, NoAnswer) else start(box, asked.value["argv"])


def start(box: Box, argv: Sequence[str]) -> Tether | NoAnswer:
    """Hand the argv that the box gave to the launcher. Raises: WorldError."""
    return box.launcher.start(box.transport, argv, argv[-1])


def launch(ctx: Context, box: Box, run: str, attempt: int, argv: Sequence[str]) -> list[str]:
    """Start the keeper for an attempt that was asked for; journal how to find it. Raises: Unreachable, WorldError.

    The site's reboot hook comes first: a run that ends at once finds it there to take away. Returns remarks.
    """
    remarks, kind = [], str(box.site.options.get("reboot_hook", ""))
    if kind:
        from sojourn.backends.client import reboot

        remarks.append(reboot.hook_up(box.transport, box.site.name, kind, argv, argv[-1]))
    tether = box.must(start(box, argv))
    ctx.store.append("launched", run=run, attempt=attempt, tether=asdict(tether))
    remarks.append(str(tether.facts.get("remark", "")))
    return [remark for remark in remarks if remark]


def wait_proven(ctx: Context, box: Box, run: str, attempt: int, wait_s: float) -> View:
    """Look until attempt `attempt` is proven alive (a beat, and still there SETTLE_S after), has ended, or time is up.

    A keeper that is not there though the attempt has not begun is started again: one may have left between reading
    what was asked for and our asking. Raises: NotBegun when time is up and nothing was begun; WorldError.
    """
    began_s = ctx.now_s()
    pause_s, started_s, keeper_s = FIRST_LOOK_S, 0.0, began_s
    while True:
        view = hear_one(ctx, _record(ctx, run))
        now_s, status = ctx.now_s(), view.status
        if view.record.heard.attempt >= attempt or status.state is State.SUCCEEDED:
            if status.state.is_final:
                return view
            if status.started_at and status.state in (State.RUNNING, State.STALLED):
                started_s = started_s or now_s
                if status.beat_at >= status.started_at and now_s - started_s >= SETTLE_S:
                    return view
        elif view.has_root and view.keeper in ("gone", "none") and now_s - keeper_s >= RESTART_S:
            start_keeper(box, run, attempt)
            keeper_s = now_s
        if now_s - began_s >= wait_s:
            if view.record.heard.attempt < attempt and view.reach.ok:
                raise NotBegun(
                    run=run, attempt=attempt, seconds=round(wait_s), said=_keeper_said(box, run), site=box.site.name
                )
            return view
        ctx.say(f"{run}: attempt {attempt} is {status.state.value}")
        ctx.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LAST_LOOK_S)


def read_secrets(ctx: Context, spec: Mapping[str, Any]) -> dict[str, str]:
    """The values of the secrets that the job names, from this machine's environment: for a keeper's standard input
    alone, never for a record, an argv or a message. Raises: SecretMissing.
    """
    found = {}
    for name in spec.get("secrets") or ():
        found[str(name)] = ctx.environ.get(name) or ""
        if not found[str(name)]:
            raise SecretMissing(name=name)
    return found


def unmasked(values: Mapping[str, str]) -> list[str]:
    """One remark for each secret whose value is too short to be hidden in logs."""
    return [
        f"the secret {name} has fewer than {mask.LEAST_CHARACTERS} characters: it is not masked in logs"
        for name, value in values.items()
        if not mask.forms(value)
    ]


def answer(
    ctx: Context, box: Box, view: View, did: str, why: str, began_s: float, remarks: Sequence[str] = ()
) -> Launch:
    """What `run` and `resume` say of a run as just heard; with the end of its log where it ended badly at once."""
    record, status = view.record, view.status
    exit_status, tail = 0, ""
    if did != "nothing" and view.reach.ok is False:
        exit_status, why = 3, f"{why}; then {box.site.name} stopped answering ({view.reach.error})"
    elif status.state.is_final and status.state is not State.SUCCEEDED:
        exit_status, tail = 1, log_tail(ctx, box, record, status.attempt)
        why = f"attempt {status.attempt} ended: {status.state.value}" + (f" ({status.reason})" if status.reason else "")
    elif status.state is State.SUCCEEDED and did != "nothing":
        why = f"attempt {status.attempt} has already succeeded"
    elif status.state is State.STARTING:
        why = f"attempt {record.attempt} is being prepared" + (": setup runs" if record.run.spec.get("setup") else "")
    lease = ctx.store.index.lease(record.lease)
    return Launch(
        id=record.id,
        site=record.site_name,
        root=record.run.root,
        attempt=max(record.attempt, status.attempt),
        state=status.state,
        did=did,
        why=why,
        next=next_step(view, meter_of(record, lease)),
        remarks=tuple(remarks),
        log_tail=tail,
        attach="" if status.state.is_final else str(((record.tether or {}).get("facts") or {}).get("attach", "")),
        seconds=ctx.now_s() - began_s,
        exit_status=exit_status,
    )


def log_tail(ctx: Context, box: Box, record: RunRecord, attempt: int) -> str:
    """The last lines of an attempt's log, with its secrets masked; "" where they cannot be had."""
    try:
        answer = box.ask("read", run=record.id, log=attempt, tail_lines=TAIL_LINES, length=TAIL_BYTES)
    except WorldError:  # there is no log: it ended before it began
        return ""
    text = "" if isinstance(answer, NoAnswer) else answer.blobs[0].decode("utf-8", "replace").rstrip("\n")
    for name in record.run.spec.get("secrets") or ():
        text = text.replace(ctx.environ.get(name) or "\0", f"<{name}>")
    return text


def _record(ctx: Context, run: str) -> RunRecord:
    return ctx.store.index.find(run)


def _keeper_said(box: Box, run: str) -> str:
    try:
        answer = box.ask("read", run=run, path="logs/keeper.log", tail_lines=1)
    except WorldError:
        return ""
    last = "" if isinstance(answer, NoAnswer) else answer.blobs[0].decode("utf-8", "replace").strip()
    return f"; its log ends: {last}" if last else ""
