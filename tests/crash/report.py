"""What the crash campaign and the one of the line found, for docs/reliability.md."""

from collections.abc import Sequence

from tests.crash.campaign import total
from tests.crash.hand import Verdict
from tests.reliability import table

KILLS = """\
A user's `run`, `status` or `watch`, `pull`, `down`, again and again until all is done, on this machine, while a
seeded schedule sends SIGKILL to the client (before, within and after a journal write, or at a moment, alone or with
its calls), to the keeper, the shim, the training, its shell, a keeper's call, several of them or everything, each
when a file of the run changes or after a time. Some trials also delete the index, flip a bit at home, stop and
resume, ask for `down` too early, or have a line that fails. The training is real (numpy,
`sojourn.train.Checkpointer`), and so is the disk; no power is cut here."""

LINE = """\
The same commands where nothing is killed and the line fails: what was never sent, what was done and never heard,
what was cut on its way, what came back torn, truncated, twice, empty or with chatter before it."""

HELD = """\
Held in every trial that is not broken: never two trainings of one run at once and no attempt started twice (the
training's own lock and ledger say so); nobody goes on from below a checkpoint that was called committed; final
weights and best.pt's are those of the uninterrupted training, bit for bit; every receipt's file has the same sha256
at home and on the box; no lease let go without a clearance and everything proven before it; the same commands end
in the same state (succeeded, home, let go) and once more change nothing; nothing is left running; where only
clients, keepers and calls are killed, or only the line fails, there is one training."""

AGAIN = """\
One trial again, with its story: `.venv/bin/python -m tests.crash --seed N` (`--kind line` for one where the line
fails). A seed is a schedule; moments differ a little."""


def kills(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on kills."""
    return [KILLS, "", HELD, "", AGAIN, "", *_summary(verdicts), "", *_counts("killed", verdicts, "kills")]


def line(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on faults of the line."""
    relaunches = sum(max(0, verdict.attempts - 1) for verdict in verdicts)
    told = _summary(verdicts, ("trainings started again", relaunches))
    return [LINE, "", "The same held.", "", *told, "", *_counts("operation and fault", verdicts, "faults")]


SWEEP = """\
A sweep of three to five cells over two boxes, each with a real sshd on loopback and a small disk of its own; `sweep`,
`status`, `pull`, `reconcile` (with `--repair` where something failed) and `down`, again and again until all is done,
while a seeded schedule kills the client (before, within and after a journal write, or at a moment, alone or with its
calls), the keeper of a cell or of a queue, sshd with its sessions or the sessions alone, holds the line up, fills a
box's disk, or moves sshd to another port until the user's settings name it. A fault waits until there is something to
befall. Some trials also ask for `down` too early."""

SWEEP_HELD = """\
Held in every trial that is not broken: no cell lost (every one is home, with the values that it was planned with),
none doubled (never at work twice at once, on one box only, no attempt begun twice, exactly one success; where no disk
was full exactly one begin), none falsely verified (every receipt's file at home has its bytes and sha256, was loaded,
and holds what the cell wrote); nothing let go before all was home, each lease once; in a third of the trials the same
commands were given once more, and changed nothing."""

SWEEP_AGAIN = """\
One trial again, with its story: `.venv/bin/python -m tests.crash --kind sweep --seed N`. A seed is a schedule; moments
differ a little. A trial is stuck when sixty commands in a row bring nothing on. One that meets a bound of minutes is
played again alone."""


def sweep(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on sweeps."""
    words = {"faults of the line": "faults that took effect", "trainings": "attempts of cells"}
    minutes = round(sum(verdict.seconds for verdict in verdicts) / 60)
    summary = [_renamed(row, words) for row in _summary(verdicts, ("minutes, added up", minutes))]
    told = [SWEEP, "", SWEEP_HELD, "", SWEEP_AGAIN, "", *summary]
    for head, what in (
        ("fault that took effect", "faults"),
        ("found nothing to befall", "vain"),
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
        "faults of the line": total(verdicts, "faults").total(),
        "commands": sum(verdict.commands for verdict in verdicts),
        "trainings": sum(verdict.attempts for verdict in verdicts),
    }
    rows = table("measured", facts)
    return rows + [f"\nBroken: seed {one.seed}: {one.breaches[0].splitlines()[-1][:200]}" for one in broken]


def _counts(head: str, verdicts: Sequence[Verdict], what: str) -> list[str]:
    return table(head, dict(sorted(total(verdicts, what).items())))
