"""Starting a keeper on a root, and waiting until the attempt it was started for is proven alive, or has ended.

Where a connection is not shared each question costs a login, so placing, starting and the first look are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from sojourn.backends.keeper.client import KeeperRefused
from sojourn.core.need import Need
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, State
from sojourn.core.verdict import SICK
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Context, start
from sojourn.verbs.launch.renting import moving_in
from sojourn.verbs.observe.reasons import line_of
from sojourn.verbs.observe.refresh import LIMIT_BYTES, refresh_one, take_in
from sojourn.verbs.observe.view import RunView, next_step
from sojourn.wire import mask
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.backends.keeper.client import Answer
    from sojourn.verbs.context import Box
    from sojourn.wire.documents import Spec

# A process that dies of a wrong path, a missing module or a bad argument mostly does so within this time.
SETTLE_S = 1.0
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 1.0
STAY_S, SETUP_S = 20.0, 3.0  # how long the call that starts a keeper stays for the first beat, without and with `setup`
COMMAND_S = 30.0  # for a launcher, which comes back at once
BEGIN_S, ALONG_S = 60.0, 60.0  # for the call that starts a keeper; and more where it takes files along
RESTART_S = 2.0  # a keeper that should be there and is not is started again so often
TAIL_LINES, TAIL_BYTES = 15, 1 << 14


class NotBegun(WorldError):
    """Attempt {attempt} of {run} was requested, but its keeper did not start it within {seconds} s{said}."""

    code = "not-begun"
    retry = True
    next_step = "sojourn run (resumes where this stopped), or sojourn doctor {site}"


class SecretMissing(Misuse):
    """The job needs the secret {name}, but that environment variable is not set."""

    code = "secret-missing"
    next_step = "export {name}=...  (only its name is ever recorded)"


@dataclass(frozen=True)
class Begun:
    """A keeper that was started. `view`: the run at the end of that call; `is_proven`: the attempt is alive."""

    view: RunView
    is_proven: bool
    remarks: tuple[str, ...]


def order(ctx: Context, box: Box, record: RunRecord, scheduling: Mapping[str, Any] | None = None) -> LaunchRequest:
    """What a launcher that gets the machine too must know of this run. `slurm`: in place of the options that it was
    planned with. Raises: NotFound, NeverReady (its `after`)."""
    after: tuple[str, ...] = ()
    if box.scheduler and record.run.spec.get("after"):
        from sojourn.verbs.launch.after import awaited

        after = awaited(ctx, record.run.spec, box.site.name)
    spec = record.run.spec if scheduling is None else cast("Spec", {**record.run.spec, "scheduling": dict(scheduling)})
    return LaunchRequest(spec, write_s(record), after)


def write_s(record: RunRecord) -> float:
    """How long its last save of a checkpoint took, 0 where none was measured."""
    return float((record.heard.checkpoint or {}).get("write_s") or 0.0)


def journal_launching(ctx: Context, box: Box, run: str, attempt: int, need: Need) -> str:
    """The intent, before anything of the attempt is on the box, and its token: that of an intent that was cut short is
    used again. Raises: NothingToRent, WorldError.
    """
    old = ctx.store.index.run(run)
    token = old.token if old is not None and old.attempt == attempt and old.token else ctx.token()
    with moving_in(ctx, box, need) as lease:
        ctx.store.append("launching", run=run, attempt=attempt, token=token, lease=lease.name)
    return token


def adopt(ctx: Context, box: Box, view: RunView, by: str, wait_s: float) -> Begun:
    """Put a keeper back to a process that lives without one. Raises: Unreachable, WorldError."""
    run, attempt = view.record.id, view.status.attempt
    ask = [{"op": "want", "run": run, "attempt": attempt, "by": by}]
    return begin(ctx, box, run, attempt, ask, view.argv, is_begun=True, wait_s=wait_s)


def begin(
    ctx: Context,
    box: Box,
    run: str,
    attempt: int,
    ask: Sequence[Mapping[str, Any]],
    argv: Sequence[str],
    *,
    blobs: Sequence[bytes] = (),
    is_begun: bool = False,
    wait_s: float,
    scheduling: Mapping[str, Any] | None = None,
) -> Begun:
    """Do the ops of `ask`, start the run's keeper, and stay until the attempt is proven alive or has ended, for
    STAY_S at most: one call to the box. Journals how to find the keeper again, and what was heard.

    `argv`: what starts the keeper, as the box said a moment ago; it checks that itself. `is_begun`: the attempt runs.
    The site's reboot hook comes before the keeper: a run that ends at once finds it there to take away.
    Raises: Unreachable, WorldError.
    """
    record = ctx.store.index.find(run)
    stay = {"op": "proven", "run": run, "attempt": attempt, "offset": record.offset, "limit_bytes": LIMIT_BYTES}
    stay.update(
        is_begun=is_begun, settle_s=SETTLE_S, wait_s=min(wait_s, SETUP_S if record.run.spec.get("setup") else STAY_S)
    )
    asked, timeout_s = order(ctx, box, record, scheduling), BEGIN_S + (ALONG_S if blobs else 0.0)
    try:
        handle, remarks, (said,) = start_with(box, ask, argv, asked, [stay], blobs, timeout_s=timeout_s, run=run)
    except WorldError as no:
        if getattr(no, "is_end", False):
            _record_refusal(box, record, attempt, no)
        raise
    ctx.store.append("launched", run=run, attempt=attempt, tether=asdict(handle))
    (entry,) = said.value["runs"]
    view = take_in(ctx, ctx.store.index.find(run), entry, said.blobs[0])
    return Begun(view, bool(said.value["proven"]), remarks)


def _record_refusal(box: Box, record: RunRecord, attempt: int, no: WorldError) -> None:
    """The scheduler took nothing and never will as it stands: that is the end of the attempt, in its words, on the box
    for every client. Where the box does not take it the attempt stays as requested."""
    op = {"op": "judge", "run": record.id, "attempt": attempt, "native": "", "by": box.site.launcher}
    try:
        box.keeper.ask_all([{**op, "state": State.FAILED.value, "detail": no.message}], timeout_s=COMMAND_S)
    except WorldError:
        return


def start_with(
    box: Box,
    ops: Sequence[Mapping[str, Any]],
    argv: Sequence[str],
    asked: LaunchRequest | None = None,
    after: Sequence[Mapping[str, Any]] = (),
    blobs: Sequence[bytes] = (),
    *,
    timeout_s: float,
    **of: str,
) -> tuple[Handle, tuple[str, ...], Sequence[Answer]]:
    """Do `ops`, start the keeper of a `run`, or of the `queue` of a sweep, do the ops `after`: all in one call to the
    box where its launcher has an argv for that. How the keeper is found again, remarks, the answers to `after`.

    `argv`: what starts it, as the box said a moment ago; it checks that itself. The site's reboot hook comes first.
    Raises: Unreachable, NotLaunched and the launcher's own errors.
    """
    shell = box.shell
    for is_last in (False, True):
        starts = _commands(box, argv, asked, of)
        try:
            answers = box.answer_all([*ops, *starts, *(after if shell else ())], blobs, timeout_s=timeout_s)
            break
        except KeeperRefused as no:
            if no.code == "command-failed" and shell:
                shell.read(_ended(no.value), argv[-1])  # raises, in the launcher's own words
            if no.code != "other-argv" or is_last:
                raise
            argv = no.value["argv"]
    said = [_ended(answer.value) for answer in answers[len(ops) : len(ops) + len(starts)]]
    if shell:
        handle, rest = shell.read(said.pop(), argv[-1]), answers[len(ops) + len(starts) :]
    else:
        argv = answers[len(ops) - 1].value["argv"]
        handle = box.must(box.launcher.start(box.place, argv, argv[-1], asked))
        rest = box.answer_all(after, timeout_s=timeout_s) if after else []
    remarks = (_hook_remark(box, said[0] if said else None), handle.facts.get("remark", ""))
    return handle, tuple(str(remark) for remark in remarks if remark), rest


def _commands(
    box: Box, argv: Sequence[str], asked: LaunchRequest | None, of: Mapping[str, str]
) -> list[dict[str, Any]]:
    root = argv[-1] if argv else ""
    commands: list[dict[str, Any]] = [{"words": box.shell.command(argv, root, asked)}] if box.shell else []
    if kind := _hook(box):
        from sojourn.backends import reboot

        words = reboot.command(kind, argv, root)
        commands[:0] = [{"words": words, "may_fail": True}] if words else []
    return [{"op": "command", **of, "argv": list(argv), "timeout_s": COMMAND_S, **one} for one in commands]


def _hook(box: Box) -> str:
    return str(box.site.options.get("reboot_hook", ""))


def _hook_remark(box: Box, ended: Ended | None) -> str:
    if not _hook(box):
        return ""
    from sojourn.backends import reboot

    return reboot.remark(box.site.name, _hook(box), ended)


def _ended(value: Mapping[str, Any]) -> Ended:
    """How a command on the box ended, from its answer."""
    return Ended(int(value["rc"]), str(value["out"]).encode(), str(value["err"]).encode())


def wait_proven(ctx: Context, box: Box, run: str, attempt: int, wait_s: float, begun: Begun) -> RunView:
    """Look until attempt `attempt` is proven alive (a beat, and still there SETTLE_S after), has ended, or time is up.

    `begun`: what was seen when it was started, which mostly is enough. A keeper that is not there though the attempt
    has not begun is started again: one may have left between reading what was asked for and our asking.
    Raises: NotBegun when time is up and nothing was begun; WorldError.
    """
    began_s = ctx.now_s()
    pause_s, started_s, keeper_s = FIRST_LOOK_S, 0.0, began_s
    view = begun.view
    while True:
        now_s, status = ctx.now_s(), view.status
        if status.state is State.QUEUED or view.is_blind:
            return view
        if view.record.heard.attempt >= attempt or status.state is State.SUCCEEDED:
            if status.state.is_final:
                return view
            if status.started_at and status.state in (State.RUNNING, State.STALLED):
                started_s = started_s or now_s
                has_settled = view is begun.view and begun.is_proven or now_s - started_s >= SETTLE_S
                if status.beat_at >= status.started_at and has_settled:
                    return view
        elif view.has_root and not box.scheduler and view.keeper in ("gone", "none") and now_s - keeper_s >= RESTART_S:
            start(box, view.argv)
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
        view = refresh_one(ctx, ctx.store.index.find(run))


def read_secrets(ctx: Context, spec: Spec) -> dict[str, str]:
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
    ctx: Context, box: Box, view: RunView, did: str, why: str, began_s: float, remarks: Sequence[str] = ()
) -> Launch:
    """The answer of `run` and `resume` for a run's current state, with the end of its log if it ended badly at once."""
    record, status = view.record, view.status
    exit_status, tail = 0, ""
    if did != "nothing" and view.reach.ok is False:
        exit_status = SICK if view.reach.is_sick else 3
        why = f"{why}; then {box.site.name} stopped answering ({view.reach.error})"
    elif status.state.is_final and status.state is not State.SUCCEEDED:
        exit_status, tail = 1, log_tail(ctx, box, record, status.attempt)
        why = f"attempt {status.attempt} ended: {status.state.value}" + (
            f" ({line_of(status)})" if status.reason else ""
        )
    elif status.state is State.SUCCEEDED and did != "nothing":
        why = f"attempt {status.attempt} has already succeeded"
    elif status.state is State.QUEUED:
        why = f"attempt {status.attempt} is queued: {status.reason}"
    elif status.state is State.STARTING:
        why = f"attempt {record.attempt} is being prepared" + (": setup runs" if record.run.spec.get("setup") else "")
    if unnamed := [path for path in status.unnamed if path not in record.also]:
        said = f"{len(unnamed)} files that look like weights or checkpoints, {unnamed[0]} first, are named by no output"
        remarks = (*remarks, said)
    lease = ctx.store.index.lease(record.lease)
    return Launch(
        id=record.id,
        site=record.site_name,
        root=record.run.root,
        attempt=max(record.attempt, status.attempt),
        state=status.state,
        did=did,
        why=why,
        next=next_step(view, lease),
        remarks=tuple(remarks),
        log_tail=tail,
        attach="" if status.state.is_final else str(((record.handle or {}).get("facts") or {}).get("attach", "")),
        seconds=ctx.now_s() - began_s,
        exit_status=exit_status,
    )


def log_tail(ctx: Context, box: Box, record: RunRecord, attempt: int) -> str:
    """The last lines of an attempt's log, with its secrets masked; "" where they cannot be had."""
    try:
        answer = box.ask("read", run=record.id, log=attempt, tail_lines=TAIL_LINES, length=TAIL_BYTES)
    except WorldError:  # there is no log: it ended before it started
        return ""
    text = "" if isinstance(answer, NoAnswer) else answer.blobs[0].decode("utf-8", "replace").rstrip("\n")
    for name in record.run.spec.get("secrets") or ():
        text = text.replace(ctx.environ.get(name) or "\0", f"<{name}>")
    return text


def _keeper_said(box: Box, run: str) -> str:
    try:
        answer = box.ask("read", run=run, path="logs/keeper.log", tail_lines=1)
    except WorldError:
        return ""
    last = "" if isinstance(answer, NoAnswer) else answer.blobs[0].decode("utf-8", "replace").strip()
    return f"; its log ends: {last}" if last else ""
