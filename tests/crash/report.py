"""What the crash campaign and the one of the line found, for docs/reliability.md."""

from collections.abc import Sequence

from tests.crash.campaign import total
from tests.crash.trial import Verdict
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
