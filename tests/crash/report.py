"""What the crash campaign and the one of the line found, for docs/reliability.md."""

from collections.abc import Sequence

from tests.crash.campaign import total
from tests.crash.hand import Verdict
from tests.reliability import table

KILLS = """\
A user's `run`, `status` or `watch`, `pull`, `down`, repeated until everything is done, on this machine, while a seeded
schedule sends SIGKILL to the client (before, within and after a journal write, or at some moment, alone or with its
calls), the keeper, the shim, the training, its shell, a keeper's call, several of them or everything, each when a file
of the run changes or after a delay. Some trials also delete the index, flip a bit at home, stop and resume, request
`down` too early, or have a failing connection. The training is real (numpy, `sojourn.train.Checkpointer`), and so is
the disk; no power is cut here."""

LINE = """\
The same commands without kills but with a failing connection: requests never sent, requests carried out but not
answered, transfers cut, answers torn, truncated, repeated, empty or preceded by chatter."""

HELD = """\
Held in every trial that is not broken: never two trainings of one run at once and no attempt started twice (by the
training's own lock and ledger); nobody resumes from before a checkpoint that was called committed; final weights and
best.pt's are those of the uninterrupted training, bit for bit; every receipt's file has the same sha256 at home and on
the box; no lease released without a clearance, or before everything was verified; the same commands end in the same
state (succeeded, home, released), and repeating them changes nothing; nothing is left running; if only clients, keepers
and calls are killed, or only the connection fails, there is one training."""

AGAIN = """\
Repeat a trial, with its story: `.venv/bin/python -m tests.crash --seed N` (`--kind line` for one with a failing
connection). A seed is a schedule; moments vary a little."""


def kills(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on kills."""
    return [KILLS, "", HELD, "", AGAIN, "", *_summary(verdicts), "", *_counts("killed", verdicts, "kills")]


def line(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on connection faults."""
    relaunches = sum(max(0, verdict.attempts - 1) for verdict in verdicts)
    told = _summary(verdicts, ("trainings restarted", relaunches))
    return [LINE, "", "The same held.", "", *told, "", *_counts("operation and fault", verdicts, "faults")]


SWEEP = """\
A sweep of three to five cells over two boxes, each with a real sshd on loopback and its own small disk; `sweep`,
`status`, `pull`, `reconcile` (with `--repair` after a failure) and `down`, repeated until everything is done, while a
seeded schedule kills the client (before, within and after a journal write, or at some moment, alone or with its calls),
the keeper of a cell or of a queue, sshd with its sessions or the sessions alone, stalls the connection, fills a box's
disk, or moves sshd to another port until the user's settings name it. A fault waits until there is something to hit.
Some trials also request `down` too early."""

SWEEP_HELD = """\
Held in every trial that is not broken: no cell lost (every one is home, with its planned values), none doubled (never
running twice at once, on one box only, no attempt started twice, exactly one success; if no disk was full exactly one
start), none falsely verified (every receipt's file at home has its bytes and sha256, was loaded, and contains what the
cell wrote); nothing released before everything was home, each lease once; in a third of the trials the same commands
were repeated, and changed nothing."""

SWEEP_AGAIN = """\
Repeat a trial, with its story: `.venv/bin/python -m tests.crash --kind sweep --seed N`. A seed is a schedule; moments
vary a little. A trial is stuck when sixty commands in a row make no progress. One that exceeds a limit in minutes is
repeated alone."""


def sweep(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on sweeps."""
    words = {"connection faults": "faults that took effect", "trainings": "attempts of cells"}
    minutes = round(sum(verdict.seconds for verdict in verdicts) / 60)
    summary = [_renamed(row, words) for row in _summary(verdicts, ("total minutes", minutes))]
    told = [SWEEP, "", SWEEP_HELD, "", SWEEP_AGAIN, "", *summary]
    for head, what in (
        ("fault that took effect", "faults"),
        ("found nothing to hit", "vain"),
        ("killed", "kills"),
        ("command and how it ended", "ends"),
    ):
        told += ["", *_counts(head, verdicts, what)]
    return told


def _renamed(row: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        row = row.replace(f"| {old} |", f"| {new} |")
    return row


def _summary(verdicts: Sequence[Verdict], *more: tuple[str, int]) -> list[str]:
    broken = [verdict for verdict in verdicts if verdict.breaches]
    facts = {
        "trials": len(verdicts),
        "broken": len(broken),
        **dict(more),
        "kills": total(verdicts, "kills").total(),
        "connection faults": total(verdicts, "faults").total(),
        "commands": sum(verdict.commands for verdict in verdicts),
        "trainings": sum(verdict.attempts for verdict in verdicts),
    }
    rows = table("measured", facts)
    return rows + [f"\nBroken: seed {one.seed}: {one.breaches[0].splitlines()[-1][:200]}" for one in broken]


def _counts(head: str, verdicts: Sequence[Verdict], what: str) -> list[str]:
    return table(head, dict(sorted(total(verdicts, what).items())))
