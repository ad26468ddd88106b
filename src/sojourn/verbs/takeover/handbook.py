"""`handbook`: the exact commands to take a run over with a bare shell, without sojourn. Text that stands alone."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import NoAnswer, Site, State
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Box, Context
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.verbs.observe.scheduled import handle_of
from sojourn.verbs.observe.view import RunView
from sojourn.wire import units
from sojourn.wire.errors import Misuse, WorldError
from sojourn.wire.quote import join

# No quote of its own kind, `!` or backslash: it passes through two shells, the second maybe tcsh or fish.
_SUMS = 'import json; [print(r["sha256"] + "  " + r["from"]) for r in json.load(open("manifest.json"))["files"]]'
# What starts on the box is told by its pid and start time; the texts are those that the keeper itself writes.
_NEWEST = 'n=$(ls "$root/attempts" | sort -n | tail -n 1)'
_PID = """pid=$(sed -n 's/.*"pgid":\\([0-9]*\\),.*/\\1/p' "$root/exits/$n.begun.json")"""
_START = """start=$(sed -n 's/.*"start":\\([0-9]*\\)}.*/\\1/p' "$root/exits/$n.begun.json")"""
_KEEPER = """keeper=$(sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' "$root/keeper.json")"""
_KEEPER_START = """since=$(sed -n 's/.*"start": *\\([0-9]*\\).*/\\1/p' "$root/keeper.json")"""
# lives PID START: that very process, and no zombie.
_LIVES = (
    """lives() { set -- "$2" $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null); """
    """[ -n "$1" ] && [ "$1" = "${21}" ] && [ "$2" != Z ]; }"""
)
_DOES_IT_LIVE = (
    """if lives "$pid" "$start"; then echo "attempt $n is alive, pid $pid"; """
    """else echo "attempt $n is not alive:"; cat "$root/exits/$n.json"; fi"""
)
_IS_IT_KEPT = (
    """if lives "$keeper" "$since"; then echo "its keeper is alive, pid $keeper"; else echo "it has no keeper"; fi"""
)
_ASK_TO_STOP = (
    """printf '{"attempt": %d, "at": "%s", "grace_s": GRACE, "why": "stop"}\\n' "$n" """
    """"$(date -u +%Y-%m-%dT%H:%M:%SZ)" > "$root/stop.json.new" && mv "$root/stop.json.new" "$root/stop.json" """
    """&& lives "$keeper" "$since" && kill -s USR1 "$keeper" """
)
_WANT = (
    """printf '{"attempt": %d, "by": "resume", "token": "by-hand-%d"}\\n' "$((n + 1))" "$$" > "$root/want.json.new" """
    """&& mv "$root/want.json.new" "$root/want.json" """
)
_SECRETS = (
    "import getpass, json, os, sys; os.umask(0o77); "
    'json.dump({n: getpass.getpass(n + ": ") for n in sys.argv[2:]}, open(sys.argv[1], "w"))'
)


class NotLaunched(Misuse):
    """{run} was never launched, so it has nothing on any box."""

    code = "not-launched-yet"
    next_step = "sojourn run"


@dataclass(frozen=True)
class Step:
    """One thing to do. `where`: "box" (in a shell there) or "here". `changes`: it does more than look."""

    title: str
    why: str
    commands: tuple[str, ...]
    where: str = "box"
    changes: bool = False

    def as_json(self) -> dict[str, Any]:
        """One element of `steps`."""
        return document(self)


@dataclass(frozen=True)
class Handbook:
    """All that a person needs. The steps of the box are meant for one shell there, in their order."""

    run: str
    site: str
    root: str
    at: str
    state: State
    attempt: int
    reach: str  # "" = the box was just asked; else why the facts are older
    remarks: tuple[str, ...]
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """The `handbook` document."""
        return document(self, "handbook", without=("steps",), steps=[step.as_json() for step in self.steps])


def handbook(ctx: Context, run: str) -> Handbook:
    """The commands for this run and its site; from the records alone where the box does not answer.

    Raises: Misuse (not-found, not-launched-yet).
    """
    view = refresh_one(ctx, ctx.store.index.find(run), mend=False)
    record = view.record
    if record.attempt == 0:
        raise NotLaunched(run=record.id)
    box = ctx.box(record.site, record.lease)
    argv, why = _keeper_argv(box, view)
    root = argv[-1]
    lacking = tuple(str(name) for name in record.run.spec.get("secrets") or ())
    remarks = [why] if why else []
    if lacking:
        remarks.append(f"its log on the box may hold the value of {', '.join(lacking)} until the run is over")
    hand: Mapping[str, str] = {}
    if box.scheduler:
        handle = handle_of(record)
        hand = box.scheduler.by_hand(root, handle.native if handle else "")
        if box.is_blind:
            remarks.append(f"nobody can log in at {record.site_name}: what came out lies in the root, on this machine")
        else:
            remarks.append("its process runs on another machine of the site, so its pid means nothing on this one")
    remarks.append(f"with sojourn on any machine: sojourn recover {record.site_name}, then pull, stop, resume as usual")
    return Handbook(
        run=record.id,
        site=record.site_name,
        root=root,
        at=units.stamp(ctx.now_s()),
        state=view.status.state,
        attempt=max(record.attempt, view.status.attempt),
        reach=view.reach.error if view.reach.ok is False else "",
        remarks=tuple(remarks),
        steps=tuple(_blind(record, root, argv, hand))
        if box.is_blind
        else (*_looking(record, root, hand), *_changing(record, argv, lacking, hand), *_copying(record, root, argv)),
    )


def _keeper_argv(box: Box, view: RunView) -> tuple[list[str], str]:
    """What a launcher would start, as the box says it; where it does not, as it must be, and a remark."""
    record = view.record
    attempt = max(record.attempt, view.status.attempt)
    try:
        # Asking for the attempt that was asked for last changes nothing.
        answer = box.ask("want", run=record.id, attempt=attempt, by="resume") if view.reach.ok is not False else None
    except WorldError:
        answer = None
    if answer is not None and not isinstance(answer, NoAnswer):
        return [str(word) for word in answer.value["argv"]], ""
    base = record.site.base or "$HOME/.local/share/sojourn"
    root = record.run.root or posixpath.join(base, "runs", record.id)
    keeper = posixpath.join(posixpath.dirname(posixpath.dirname(root)), "keepers", str(record.run.spec.get("keeper")))
    python = record.site.python or "python3"
    why = f"{record.site_name} did not answer: root and Python are as last known; any Python 3.8 or newer will do"
    return [python, "-I", "-S", keeper, "supervise", "--root", root], why


def _blind(record: RunRecord, root: str, argv: Sequence[str], hand: Mapping[str, str]) -> list[Step]:
    """Where only files come and go: what came is here, and the service itself is asked about the rest."""
    run = record.id
    why = "It starts from the output of the last version, checkpoints included."
    return [
        Step(
            "fetch its output",
            "Available once a version has ended: logs/N.log, checkpoints, events.jsonl; outputs below attempts/N.",
            (f"sojourn status {run}", join(["ls", "-lR", root])),
            "here",
        ),
        Step("see its log", "As much as was returned.", (f"tail -n 50 {join([root])}/logs/*.log",), "here"),
        Step("check whether it is running", "Ask its service.", (hand["look"],), "here"),
        Step(
            "stop it at its service", "It gets the service's own grace period.", (hand["stop"],), "here", changes=True
        ),
        Step("start the next attempt", why, (f"sojourn resume {run}",), "here", changes=True),
        _copying(record, root, argv)[0],
    ]


def _looking(record: RunRecord, root: str, hand: Mapping[str, str]) -> list[Step]:
    outputs = ", ".join(record.run.spec.get("outputs") or ()) or "none"
    ssh = _ssh(record.site)
    reach = (
        Step("reach the box", "A shell there; sh, bash, dash and zsh will do for what follows.", (join(ssh),), "here")
        if ssh
        else Step("reach the box", "The box is this machine: any shell (sh, bash, dash, zsh) will do.", (), "here")
    )
    return [
        reach,
        Step(
            "set the variables used below",
            "In that shell, again after every new attempt: n is the newest attempt, pid and start its process.",
            (f"root={join([root])}", _NEWEST, _PID, _START, _KEEPER, _KEEPER_START, _LIVES),
        ),
        Step(
            "where everything is",
            f"run.json: the job. logs/N.log: output of attempt N. attempts/N: its working copy. checkpoints: of all"
            f" attempts. events.jsonl: what happened. exits/N.json: how it ended. Outputs owed ({outputs}) are in the"
            f" working copy, otherwise in the root.",
            ('ls -l "$root" "$root/checkpoints" "$root/attempts/$n"', 'tail -n 5 "$root/events.jsonl"'),
        ),
        Step("see its log", "Add -f to follow it.", ('tail -n 50 "$root/logs/$n.log"',)),
        Step("check whether it is alive", "Ask its scheduler.", (hand["look"],))
        if hand
        else Step(
            "check whether it is alive",
            "A pid may be reused, so its start time (clock ticks since the boot) is compared too.",
            (_DOES_IT_LIVE, _IS_IT_KEPT),
        ),
    ]


def _changing(record: RunRecord, argv: Sequence[str], secrets: Sequence[str], hand: Mapping[str, str]) -> list[Step]:
    grace = record.run.spec.get("grace_s")
    grace_s = int(30 if grace is None else grace)
    start = hand.get("start") or f'nohup {join(argv)} </dev/null >>"$root/logs/keeper.log" 2>&1 &'
    again = (
        "Only if it is not alive. The keeper takes its lock first, so starting a second one is harmless."
        " It gets this shell's environment (PATH)."
    )
    bring = (join([argv[0], "-c", _SECRETS]) + f' "$root/secrets.json" {join(secrets)}',) if secrets else ()
    if secrets:
        again += f" It asks for {', '.join(secrets)} first: they were removed when the run ended."
    return [
        Step(
            "stop it, with time to save",
            f"Its keeper sends SIGTERM, and SIGKILL after {grace_s} s, and records that it was stopped.",
            (_ASK_TO_STOP.replace("GRACE", str(grace_s)).strip(),),
            changes=True,
        ),
        Step(
            "stop it through its scheduler", "It gets the scheduler's own grace period.", (hand["stop"],), changes=True
        )
        if hand
        else Step(
            "stop it by pid",
            "If no keeper is alive: ends the whole process group, with time to save first.",
            (
                'lives "$pid" "$start" && kill -s TERM -- "-$pid"',
                f'sleep {grace_s}; lives "$pid" "$start" && kill -s KILL -- "-$pid"',
            ),
            changes=True,
        ),
        Step("start the next attempt", again, (*bring, _WANT.strip(), start), changes=True),
        Step(
            "put a keeper back",
            "If it is alive but its keeper is not, or to record its end: starts no new attempt.",
            (start,),
            changes=True,
        ),
    ]


def _copying(record: RunRecord, root: str, argv: Sequence[str]) -> list[Step]:
    run, home = record.id, f"{record.id}-home"
    sums = _far(record.site, f"cd {join([root])} && {join([argv[0], '-X', 'utf8', '-c', _SUMS])}")
    pack = _far(record.site, f"cd {join([root])} && tar -cf - -T -")
    now = _far(record.site, f"cd {join([root])} && find checkpoints -type f -exec sha256sum {{}} +")
    unpack = (
        f"cut -c67- {run}.sha256 > {run}.files",
        f"mkdir -p {home}",
        f"{pack} < {run}.files | tar -xf - -C {home}",
        f"(cd {home} && sha256sum -c ../{run}.sha256)",
    )
    return [
        Step(
            "copy its outputs and logs, and check them",
            f"Once it has ended: manifest.json holds the sha256 of each, taken on the box. They come to {home}, under"
            " the same names as in the root. On macOS: shasum -a 256 -c.",
            (f"{sums} > {run}.sha256", *unpack),
            "here",
        ),
        Step(
            "copy its checkpoints before it has ended",
            "The same, with what exists now. A checkpoint is whole or absent; one that is pruned meanwhile is missed.",
            (f"{now} > {run}.sha256", *unpack),
            "here",
        ),
    ]


def _ssh(site: Site) -> list[str]:
    """The words that reach the box; [] where it is this machine."""
    if site.transport != "ssh":
        return []
    from sojourn.backends.ssh import argv as ssh_argv

    return [ssh_argv.SSH, *ssh_argv.destination(site)]


def _far(site: Site, line: str) -> str:
    """A command to type here that runs `line` in sh on the box."""
    ssh = _ssh(site)
    return join([*ssh, join(["sh", "-c", line])]) if ssh else join(["sh", "-c", line])
