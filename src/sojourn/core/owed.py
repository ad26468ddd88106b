"""What one run owes, and what is still missing at home. Pure: the Iron Law for a single run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sojourn.core.values import Receipt, State
from sojourn.wire import manifest, names, quote

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest

CHECKPOINT = "checkpoint"
# Problems of the file itself. Any other (no memory here, no library, no time) says nothing about the file.
DAMAGED = frozenset(("empty", "truncated", "corrupt", "unparseable", "missing-shard", "non-finite"))


@dataclass(frozen=True)
class Lack:
    """One thing that holds a lease. `run`: "" if it concerns the lease itself. `next`: the command that resolves it.

    `kind`: what it shares with others, for counting a long list.
    """

    run: str
    what: str
    next: str
    kind: str = ""


@dataclass(frozen=True)
class Standing:
    """Current facts about one run on the lease.

    files, earlier, gone: as in a manifest (`wire.manifest`); `digest` is the manifest's own, "" without one. is_fresh:
    the manifest was taken again just now; otherwise it is the one its keeper sealed. verified: digest of the manifest
    behind the receipts. home: receipt path -> "same", "changed", "gone", "inside" (in what goes) or "here" (on
    the machine that ends), as found just now.
    failed: {"path", "sha256"} of files that came home whole but do not load.
    """

    run: str
    state: State
    is_launched: bool = True  # False: planned, never started
    is_reachable: bool = True
    is_fresh: bool = False
    lives: str = ""  # what of it lives by the box's word, whatever the records say
    digest: str = ""
    files: tuple[FileRow, ...] = ()
    earlier: tuple[FileRow, ...] = ()
    gone: tuple[FileRow, ...] = ()
    missing: tuple[str, ...] = ()  # owed globs that matched nothing: never made
    refused: tuple[tuple[str, str], ...] = ()  # (path, why) of what cannot be copied, or not even looked into
    unnamed: tuple[tuple[str, str], ...] = ()  # (path, what identifies it) of what loads and no output names
    superseded: int = 0  # files of earlier attempts, replaced by the successful one
    removed: int = 0  # files that a later attempt of the run removed while it ran
    verified: str = ""
    receipts: tuple[Receipt, ...] = ()
    failed: tuple[FileRow, ...] = ()
    home: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Identifies what the box has of it, all of it; "" where that was not listed."""
        rest = (self.refused, self.unnamed) if self.digest else ()
        return names.digest([self.digest, repr(rest)]) if any(rest) else self.digest


@dataclass(frozen=True)
class Debt:
    """What a run owes that is not home (`lacks`), and what must be listed before the name is given."""

    lacks: tuple[Lack, ...] = ()
    listed: tuple[str, ...] = ()  # one line each, without the run's name
    acknowledged: tuple[str, ...] = ()  # globs owed but never made
    unproven: tuple[str, ...] = ()  # paths home by hash alone: no loader knows their type
    accepted: tuple[str, ...] = ()  # paths that were not loaded, accepted by name


def debt(standing: Standing, *, abandon: Collection[str] = (), accept: Collection[str] = (), ends: bool = True) -> Debt:
    """What stands between this run and the release. `abandon`: paths given up, and CHECKPOINT for the newest of these;
    a file of that name is `spelled` otherwise. `accept`: paths accepted though not loaded. `ends`: the files on the box
    go with the release, so what no output names holds it; else it is listed.
    """
    early = _unlisted(standing)
    if early:
        return Debt(early)
    owed = _Owed(standing, frozenset(abandon), frozenset(accept))
    lacks = [*owed.refused(), *owed.gone(), *owed.outputs()]
    if CHECKPOINT not in abandon:
        lacks += owed.checkpoint()
    unnamed = list(owed.unnamed())
    if not ends:
        owed.listed += [lack.what for lack in unnamed]
    elif unnamed:
        lacks += unnamed
    if not lacks and standing.verified != standing.digest and owed.is_any():
        why = "has outputs that differ from the verified ones" if standing.verified else "was never pulled"
        lacks.append(Lack(standing.run, why, owed.pull, "not pulled"))
    unproven = tuple(one.path for one in standing.receipts if one.state == "bytes-only" and one.kind == "unknown")
    return Debt(tuple(lacks), tuple(owed.listed), standing.missing, unproven, tuple(owed.accepted))


def spelled(path: str) -> str:
    """A file's path as it is given up or accepted by name: `checkpoint` alone means the role."""
    return f"./{path}" if path == CHECKPOINT else path


def nameable(standing: Standing) -> frozenset[str]:
    """What of a run can be given up by name, but for the whole run."""
    paths = [row["path"] for row in (*standing.files, *standing.earlier) if row["role"] == "output"]
    paths += [row["path"] for row in standing.gone] + [path for path, _ in (*standing.refused, *standing.unnamed)]
    return frozenset((CHECKPOINT, *map(spelled, paths)))


def is_alive(standing: Standing) -> bool:
    """The box says that part of it lives, or is about to."""
    return bool(standing.lives) or (standing.is_reachable and not standing.state.is_final)


def _unlisted(standing: Standing) -> tuple[Lack, ...]:
    """Why its outputs cannot be judged at all; () if they can."""
    run, pull = standing.run, f"sojourn pull {standing.run}"
    if is_alive(standing):
        what = standing.lives if standing.state.is_final else f"is {standing.state.value}"
        return (Lack(run, what, f"sojourn stop {run}", "alive"),)
    if not standing.state.is_final:
        return (Lack(run, "cannot be reached, and was not known to have ended", f"sojourn status {run}", "unknown"),)
    if not standing.digest:
        why = "has outputs that were not listed"
        if not standing.is_reachable:
            why = "cannot be reached, and its outputs were never listed"
        return (Lack(run, why, pull, "not listed"),)
    if standing.is_reachable and not standing.is_fresh:
        why = "is reachable, but its outputs were not listed again"
        return (Lack(run, why, f"sojourn down {run}", "not listed"),)
    whole: Manifest = {"files": standing.files, "earlier": standing.earlier, "gone": standing.gone}
    if manifest.digest_of(whole) != standing.digest:
        return (Lack(run, "has a list of outputs that does not match its digest", pull, "not listed"),)
    return ()


class _Owed:
    """The parts of a run's debt, once its outputs are listed."""

    def __init__(self, standing: Standing, abandon: frozenset[str], accept: frozenset[str]) -> None:
        self.standing, self.abandon, self.accept = standing, abandon, accept
        self.pull = f"sojourn pull {standing.run}"
        self.receipts = {receipt.path: receipt for receipt in standing.receipts if receipt.run == standing.run}
        self.failed = {(row["path"], row["sha256"]) for row in standing.failed}
        self.listed: list[str] = []
        self.accepted: list[str] = []

    def is_any(self) -> bool:
        """Something is owed at all, beside what is given up."""
        roles = ("output",) if CHECKPOINT in self.abandon else ("output", CHECKPOINT)
        paths = [path for path, why in self.standing.refused if why != manifest.NOT_A_FILE]
        paths += [row["path"] for row in self.standing.gone]
        paths += [row["path"] for row in self.standing.files if row["role"] in roles]
        return not all(map(self._is_given_up, paths))

    def refused(self) -> Iterator[Lack]:
        for path, why in self.standing.refused:
            if self._is_given_up(path):
                continue
            if why == manifest.NOT_A_FILE:
                self.listed.append(f"{path} is a pipe, a socket or a device: it holds nothing")
                continue
            what = f"{path} is on the box and cannot be brought home: {why}"
            yield Lack(self.standing.run, what, self._giving_up(path), "cannot be brought home")

    def unnamed(self) -> Iterator[Lack]:
        """It may be the very result: the run made it, it loads by its form, and nobody asked for it."""
        for path, _ in self.standing.unnamed:
            if not self._is_given_up(path):
                what = f"{path} looks like weights or a checkpoint, and no output names it"
                pull = quote.join(["sojourn", "pull", f"{self.standing.run}:{path}"])
                yield Lack(self.standing.run, what, f"{pull}, or {self._giving_up(path)}", "not named as output")

    def gone(self) -> Iterator[Lack]:
        """The keeper sealed it, so it was made: it is either home or lost."""
        for row in self.standing.gone:
            if self._why_not_home(row) and not self._is_given_up(row["path"]):
                what = f"{row['path']} was sealed by its keeper and then deleted on the box: it is lost"
                yield Lack(self.standing.run, what, self._giving_up(row["path"]), "lost")

    def outputs(self) -> Iterator[Lack]:
        """Of each path, the newest version that loads; if none loads, every version holds the lease."""
        for row in self.standing.files:
            if row["role"] != "output" or self._is_given_up(row["path"]):
                continue
            older = [one for one in self.standing.earlier if one["role"] == "output" and one["path"] == row["path"]]
            loads = [one for one in (row, *older) if (one["path"], one["sha256"]) not in self.failed]
            if not loads:
                what = f"{row['path']} was pulled but does not load"
                what += f" (repair it, or {self._giving_up(row['path'])})"
                yield Lack(self.standing.run, what, self.pull, "does not load")
                continue
            if loads[0] is not row:
                self.listed.append(
                    f"{row['path']} of {_attempt(row)} does not load; that of {_attempt(loads[0])} is home"
                )
            yield from self._lack(loads[0])

    def checkpoint(self) -> Iterator[Lack]:
        """The newest that loads: an unfinished run would resume from it."""
        sets = _sets((*self.standing.files, *self.standing.earlier))
        if not sets:
            return
        run = self.standing.run
        loads = [one for one in sets if not any((r["path"], r["sha256"]) in self.failed for r in one)]
        give_up = f"sojourn down {run} --abandon {run}:{CHECKPOINT}"
        if not loads:
            yield Lack(run, "has checkpoints, and none of them loads", give_up, "does not load")
            return
        wanting = [why for row in loads[0] if (why := self._why_not_home(row))]
        if wanting:
            name = str(loads[0][0]["set"])
            what = f"its newest checkpoint, {name}, {wanting[0]}; the run has not succeeded and would resume from it"
            yield Lack(run, what, self._next(loads[0][0]), "not home")
            return
        for row in loads[0]:
            yield from self._not_loaded(row)

    def _is_given_up(self, path: str) -> bool:
        return spelled(path) in self.abandon

    def _giving_up(self, path: str) -> str:
        run = self.standing.run
        return quote.join(["sojourn", "down", run, "--abandon", f"{run}:{spelled(path)}"])

    def _lack(self, row: FileRow) -> Iterator[Lack]:
        why = self._why_not_home(row)
        if why:
            if row["path"] not in self.receipts and self.standing.verified == self.standing.digest:
                why = f"was pulled but does not load (repair it, or {self._giving_up(row['path'])})"
            yield Lack(self.standing.run, f"{row['path']} {why}", self._next(row), "not home")
        else:
            yield from self._not_loaded(row)

    def _not_loaded(self, row: FileRow) -> Iterator[Lack]:
        """A file that is home and of a loadable type, but was not loaded."""
        receipt = self.receipts[row["path"]]
        if receipt.state in ("loaded", "content-read") or receipt.kind == "unknown":
            return
        if row["path"] in self.accept or spelled(row["path"]) in self.accept:
            self.accepted.append(row["path"])
            return
        why = "would run code when it is loaded" if receipt.kind == "unsafe" else "was not loaded: a library is missing"
        what = f"{row['path']} is home, byte for byte, and {why}"
        name = f"{self.standing.run}:{row['path']}"
        accept = quote.join(["sojourn", "down", self.standing.run, "--accept", name])
        yield Lack(self.standing.run, what, accept, "not loaded")

    def _next(self, row: FileRow) -> str:
        is_here = self.standing.home.get(row["path"]) == "here"
        return f"{self.pull} --to a folder on a disk that stays" if is_here else self.pull

    def _why_not_home(self, row: FileRow) -> str:
        """Why an existing file does not count as home; "" if it does."""
        receipt = self.receipts.get(row["path"])
        if receipt is None:
            return "is not home"
        if (receipt.bytes, receipt.sha256) != (row["bytes"], row["sha256"]):
            return "changed on the box after it was brought home"
        home = self.standing.home.get(row["path"], "gone")
        words = {
            "gone": "is no longer at",
            "changed": "is changed at",
            "inside": "lies inside the run's own folder, at",
            "here": "is not home: it lies on the machine itself that is released, at",
        }
        return f"{words[home]} {receipt.home}" if home in words else ""


def _sets(rows: Collection[FileRow]) -> list[list[FileRow]]:
    """The rows of each checkpoint, newest first, in manifest order."""
    sets: dict[str, list[FileRow]] = {}
    for row in rows:
        if row.get("set"):
            sets.setdefault(str(row["set"]), []).append(row)
    return [one for one in sets.values() if any(row["role"] == CHECKPOINT for row in one)]


def _attempt(row: FileRow) -> str:
    """The attempt whose working copy contains the file, in words."""
    parts = str(row.get("from", "")).split("/")
    return f"attempt {parts[1]}" if len(parts) > 2 and parts[0] == "attempts" else "the run's folder"
