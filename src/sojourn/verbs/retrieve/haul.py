"""What one pull brings: files into staging, each loaded there, older candidates where a newer one does not load, and
last of all every file under its own name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sojourn.core.artifact import LOG, UNKNOWN, Artifact
from sojourn.core.owed import DAMAGED
from sojourn.core.values import Receipt
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.verbs.moving import Pace, Progress
from sojourn.verbs.retrieve.choice import Choice, Key, key, urgency
from sojourn.verbs.retrieve.fetch import Home, fetch
from sojourn.verbs.retrieve.homes import UNPROVEN
from sojourn.verbs.retrieve.packs import UNPACED, fetch_small

if TYPE_CHECKING:
    from sojourn.backends.proof.proof import Prover
    from sojourn.wire.documents import FileRow

_PROVING = threading.Lock()
UNSAFE = "unsafe"
_LEFT_SO = frozenset((("json", "non-finite"), ("jsonl", "non-finite"), ("jsonl", "truncated")))


class Proving:
    """The processes that load files: begun with the first file, the same for all runs of one pull."""

    def __init__(self) -> None:
        self._kept = ExitStack()
        self._prover: Prover | None = None

    def __enter__(self) -> Proving:
        return self

    def __exit__(self, *error: Any) -> None:
        self._kept.__exit__(*error)

    @contextmanager
    def prover(self, tick: Callable[[int], None]) -> Iterator[Prover]:
        """Of several boxes at once, one run's files are proven at a time: each takes all cores, and memory for each."""
        from sojourn.backends.proof.proof import Prover, open_book
        from sojourn.verbs.retrieve.verify import book_path

        with _PROVING:
            if self._prover is None:
                book = self._kept.enter_context(open_book(book_path()))
                self._prover = self._kept.enter_context(Prover(book=book))
            self._prover.tick = tick
            yield self._prover


@dataclass
class Haul:
    """What one pull has got so far. `lies`: where the file is now. `failed`: came whole and does not load, in the order
    in which that was found. `unsure`: was listed, and what came has other bytes.
    """

    receipts: dict[Key, Receipt] = field(default_factory=dict)
    artifacts: dict[Key, Artifact] = field(default_factory=dict)
    lies: dict[Key, str] = field(default_factory=dict)
    failed: dict[Key, FileRow] = field(default_factory=dict)
    unsure: set[Key] = field(default_factory=set)
    moved: set[Key] = field(default_factory=set)
    moved_bytes: int = 0


class Bringing:
    """One run's files on their way from its box. `old`: the receipts of its last pull."""

    def __init__(
        self, ctx: Context, box: Box, record: RunRecord, home: Home, proving: Proving, pace: Pace = UNPACED
    ) -> None:
        self._ctx, self._box, self._record, self._home, self._proving = ctx, box, record, home, proving
        self._pace = pace
        places = {home.path, home.unproven}
        self._old = {r.path: r for r in record.receipts if any(r.home == place(r.path) for place in places)}

    def bring_rows(self, rows: Sequence[FileRow]) -> Haul:
        """These, home or in staging, and proven there."""
        haul = Haul()
        self._prove(haul, self._get(haul, rows, rows), rows)
        return haul

    def bring(self, choice: Choice) -> Haul:
        """Everything wanted, home or in staging, and proven there; of what does not load the next older candidate."""
        haul = Haul()
        beside: dict[str, str] = {}
        while True:
            rows = choice.wanted(haul.failed)
            self._forget_moved(haul, rows, beside)
            beside = {row["path"]: row["sha256"] for row in rows}
            before = len(haul.failed)
            new = [row for row in rows if key(row) not in haul.artifacts and key(row) not in haul.unsure]
            self._prove(haul, self._get(haul, new, rows), rows)
            if len(haul.failed) == before:
                return haul

    def _forget_moved(self, haul: Haul, rows: Sequence[FileRow], before: Mapping[str, str]) -> None:
        """What is judged by its neighbours is judged again where an older one took the place of one of these."""
        from sojourn.backends.proof.judge import is_of_a_set

        changed = {os.path.dirname(row["path"]) for row in rows if before.get(row["path"], "") != row["sha256"]}
        for row in rows if before else ():
            if os.path.dirname(row["path"]) in changed and is_of_a_set(row["path"]):
                haul.artifacts.pop(key(row), None)
                haul.receipts.pop(key(row), None)

    def _get(self, haul: Haul, rows: Sequence[FileRow], wanted: Sequence[FileRow]) -> list[tuple[FileRow, str]]:
        """(row, where it lies) of what is to be loaded; the rest is known already, or did not come."""
        home, lacking, unproven = self._home, [], []
        named = {row["path"] for row in wanted}
        moved = {os.path.dirname(row["path"]) for row in wanted if not self._is_proven(row)}
        moved |= {os.path.dirname(path) for path in self._old if path not in named}
        for row in rows:
            self._ctx.say(f"{home.run}: comparing {row['path']} at home")
            where = haul.lies.get(key(row)) or home.lies(row)
            if not where:
                lacking.append(row)
                continue
            haul.lies[key(row)] = where
            if row["role"] == "log":
                haul.artifacts[key(row)] = Artifact.of_row(row, LOG)
            elif self._is_proven(row) and where == home.path(row["path"]) and not _has_new_neighbours(row, moved):
                haul.receipts[key(row)] = self._old[row["path"]]
                haul.artifacts[key(row)] = Artifact.of_receipt(self._old[row["path"]])
            else:
                unproven.append((row, where))
        home.check(lacking)
        lacking.sort(key=urgency)
        came = fetch_small(self._ctx, self._box, self._record.id, home, lacking, self._pace)
        alone = [row for row in lacking if home.staged(row) not in came]
        progress = Progress(self._ctx.say, home.run, sum(row["bytes"] for row in alone))
        root = self._record.run.root
        for row in lacking:
            if home.staged(row) not in came and not fetch(self._ctx, self._box, root, home, row, progress):
                haul.unsure.add(key(row))
                continue
            haul.lies[key(row)] = home.staged(row)
            haul.moved.add(key(row))
            haul.moved_bytes += row["bytes"]
            if row["role"] == "log":
                haul.artifacts[key(row)] = Artifact.of_row(row, LOG)
            else:
                unproven.append((row, home.staged(row)))
        return unproven

    def _is_proven(self, row: FileRow) -> bool:
        return is_proven(row, self._old)

    def _prove(self, haul: Haul, unproven: Sequence[tuple[FileRow, str]], rows: Sequence[FileRow]) -> None:
        """Load each file (row, where it lies now); a receipt for its final place where it is sound.

        Each proof is kept as soon as it is made: a pull that was ended does not load again what it had loaded.
        """
        if not unproven:
            return
        from sojourn.backends.proof.judge import is_of_a_set
        from sojourn.backends.proof.many import prove_each
        from sojourn.backends.proof.proof import Task, cores
        from sojourn.verbs.retrieve.verify import Counted

        folders: dict[str, dict[str, str]] = {}
        for row in rows:
            folder, name = os.path.split(row["path"])
            if key(row) in haul.lies:
                folders.setdefault(folder, {})[name] = haul.lies[key(row)]
        for folder in list(folders):
            while folder:  # folders too, with a / behind: some files name one
                inner = folder
                folder, name = os.path.split(inner)
                folders.setdefault(folder, {})[name + "/"] = self._home.path(inner)

        tasks = []
        for row, path in unproven:
            # A file of a set is judged by its neighbours, which may still be staged under other names.
            beside = folders[os.path.dirname(row["path"])] if is_of_a_set(row["path"]) else None
            tasks.append(Task(path, row["path"], (row["bytes"], row["sha256"]), beside))
        sizes = [row["bytes"] for row, _ in unproven]
        progress = Counted(len(unproven), sum(sizes), lambda line: self._ctx.say(f"{self._home.run}: {line}"))
        proofs: list[Artifact | None] = [None] * len(tasks)
        noted = 0
        with self._proving.prover(progress.read) as prover:
            for number, proof in prove_each(prover, tasks, sizes, min(cores(), len(tasks))):
                proofs[number] = proof
                progress.proven()
                while noted < len(tasks) and (known := proofs[noted]) is not None:  # in the order of the rows
                    self._note(haul, unproven[noted][0], known)
                    noted += 1

    def _note(self, haul: Haul, row: FileRow, proof: Artifact) -> None:
        proof = haul.artifacts[key(row)] = as_the_run_left_it(proof)
        home, name, is_whole = self._home, row["path"], "bytes" in proof.proved
        code = self._record.code_of(row["from"])
        if proof.ok:
            haul.receipts[key(row)] = proof.receipt(home.run, home.path(name), code)
        elif is_whole and proof.problem in DAMAGED:
            haul.failed[key(row)] = row
        elif is_whole:  # nothing against the file: it would call something, or could not be loaded on this machine
            said = (proof.detail, *proof.remarks)
            kind = UNSAFE if proof.problem == UNSAFE else proof.kind if proof.kind != UNKNOWN else proof.problem
            whole = replace(proof, kind=kind, proved=("bytes",), problem="", detail="", remarks=said)
            haul.receipts[key(row)] = whole.receipt(home.run, home.unproven(name), code)


def as_the_run_left_it(proof: Artifact) -> Artifact:
    """NaN in JSON, and a last line of JSON lines that a kill cut off, are remarks where the hash says that the file is
    whole: so the run left it, and all else in it was read. `verify`, which may have no hash, keeps them as problems.
    """
    if "bytes" not in proof.proved or (proof.kind, proof.problem) not in _LEFT_SO:
        return proof
    remarks = (f"{proof.problem}: {proof.detail}", *proof.remarks)
    return replace(proof, proved=("bytes", "structure", "load"), problem="", detail="", remarks=remarks)


def settle(home: Home, choice: Choice, haul: Haul, rows: Sequence[FileRow]) -> None:
    """Give `rows`, and of each thing that does not load the newest, their final names. Raises: as `Home.settle`."""
    moves: dict[str, tuple[str, str]] = {}
    for newest, _ in choice.fallen(haul.failed):
        for row in newest:
            if key(row) in haul.failed and haul.lies[key(row)] != home.path(row["path"]):
                moves[row["path"] + UNPROVEN] = (haul.lies[key(row)], row["sha256"])
            elif key(row) in haul.failed and any(row["path"] == one["path"] for one in rows):
                moves[row["path"] + UNPROVEN] = (home.path(row["path"]), row["sha256"])
    for row in rows:
        if key(row) not in haul.lies or key(row) not in haul.artifacts:
            continue
        name = row["path"] if haul.artifacts[key(row)].ok else row["path"] + UNPROVEN
        moves[name] = (haul.lies[key(row)], row["sha256"])
    home.settle({name: move for name, move in moves.items() if move[0] != home.path(name)})
    for row in rows:
        if row["path"] in moves and row["path"] + UNPROVEN not in moves:
            home.drop_unproven(row["path"])


def is_proven(row: FileRow, old: Mapping[str, Receipt]) -> bool:
    """It was proven as far as it ever will be; where a library was missing, that may be there by now."""
    receipt = old.get(row["path"])
    if receipt is None or receipt.sha256 != row["sha256"]:
        return False
    return receipt.state != "bytes-only" or receipt.kind == UNKNOWN


def _has_new_neighbours(row: FileRow, moved: Set[str]) -> bool:
    """It is judged by what stands beside it, and one of these came, changed or went since it was."""
    from sojourn.backends.proof.judge import is_of_a_set

    return os.path.dirname(row["path"]) in moved and is_of_a_set(row["path"])
