"""Both ways over a line and onto disks that fail as drawn by seed: what stands under its name is whole, always; every
command comes to an end; what a fault left is gone on with or swept; and cuts make little travel twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.core.values import Site
from sojourn.store import snapshot
from sojourn.store.home import Store
from sojourn.verbs import moving
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.sending import send
from sojourn.verbs.retrieve.fetch import Home, fetch
from sojourn.verbs.retrieve.homes import Roster
from sojourn.verbs.retrieve.packs import fetch_small
from sojourn.wire import manifest, pieces
from sojourn.wire.errors import SojournError
from tests.verbs.faulty_line import DAMAGE, KINDS, Fault, FaultyLine

FAULTS = 4  # at most in one trial
TOUCHED_S = 1_000_000_000
LINE_BYTES = 80_000  # of questions, rosters and answers that each cut repeats


class Trial:
    """One seed: some files, some faults, a push or a pull, and then the same command again without faults."""

    def __init__(self, folder: Path, seed: int, store: Store) -> None:
        self.dice, self.base = random.Random(seed), folder / "far"
        self.line = FaultyLine(self.dice)
        self.slept_s = 0.0
        site = Site("local", base=str(self.base))
        self.box = Box(site, self.line, setsid.Backend(), unmetered.Backend(site), Keeper(self.line, site))
        self.ctx = Context(store, now_s=lambda: self.slept_s, sleep=self.sleep, boxes={"local": self.box})
        for name in ("keepers", "staging", "snapshots"):
            (self.base / name).mkdir(parents=True)
        self.files = folder / "files"
        self.is_push = bool(seed % 2)
        if not self.is_push:
            (self.base / "runs/r").mkdir(parents=True)
            (self.base / "runs/r/run.json").write_text('{"run": "r"}')
            self.files = self.base / "runs/r/out"
        self.make_files()
        self.line.faults = [self.fault() for _ in range(self.dice.randrange(1, FAULTS + 1))]
        self.kinds = Counter(fault.kind for fault in self.line.faults)
        self.line.change = {"here": self.change, "there": (lambda: None) if self.is_push else self.change}
        roster = Roster(str(folder / "state"), str(folder / "home"), lambda run: None)
        self.home = Home("r", str(folder / "home"), roster)

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def make_files(self) -> None:
        dice, edge = self.dice, pieces.FRAME_BYTES
        for _ in range(dice.randrange(2, 10)):
            large = 5 << 20 if dice.random() < 0.1 else 7
            size = dice.choice([0, 1, 4096, edge, edge + 1, dice.randrange(600_000), large])
            path = self.files / f"d{dice.randrange(3)}" / dice.choice(["a b'\"", "-rf", "line\nbreak", "ä", "f"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dice.randbytes(size))
            os.utime(path, (TOUCHED_S, TOUCHED_S))

    def listed(self) -> list[Path]:
        return sorted(path for path in self.files.rglob("*") if path.is_file())

    def fault(self) -> Fault:
        total = sum(path.stat().st_size for path in self.listed())
        at = self.dice.choice([0, 30, self.dice.randrange(3000), self.dice.randrange(total + 1)])
        return Fault(self.dice.choice(KINDS), at)

    def change(self) -> None:
        """One file changes, shrinks or goes while others read."""
        path = self.dice.choice(self.listed() or [self.files / "none"])
        what = self.dice.choice(["change", "shrink", "vanish"])
        if not path.exists() or what == "vanish":
            path.unlink(missing_ok=True)
        elif what == "shrink":
            os.truncate(path, path.stat().st_size // 2)
        else:
            path.write_bytes(self.dice.randbytes(path.stat().st_size))

    def command(self) -> None:
        """What a user does once. Raises: SojournError."""
        if self.is_push:
            taken = snapshot.take_snapshot(str(self.files), everything=True)
            assert send(self.ctx, self.box, "code", taken)
            self.check_push([taken.digest])
            return
        rows = [row for row in map(self.row, self.listed()) if not self.home.lies(row)]
        self.home.check(rows)
        came = fetch_small(self.ctx, self.box, "r", self.home, rows)
        root = str(self.base / "runs/r")
        whole = [
            row for row in rows if self.home.staged(row) in came or fetch(self.ctx, self.box, root, self.home, row)
        ]
        self.home.settle({row["path"]: (self.home.staged(row), row["sha256"]) for row in whole})
        self.home.tidy()

    def row(self, path: Path) -> Any:
        size, sha256 = manifest.sha256_file(str(path))
        name = str(path.relative_to(self.files))
        return {"path": name, "from": f"out/{name}", "bytes": size, "sha256": sha256, "role": "output"}

    def check_push(self, wanted: list[str]) -> None:
        """What has a name there is what its name says."""
        found = os.listdir(self.base / "snapshots")
        assert set(wanted) <= set(found)
        for digest in found:
            rows = json.loads((self.base / "snapshots" / digest / "roster.json").read_text())
            assert manifest.roster_digest(rows) == digest
            for row in rows:
                path = self.base / "snapshots" / digest / "tree" / row["path"]
                assert manifest.sha256_file(str(path)) == (row["bytes"], row["sha256"]), row["path"]

    def check_home(self, known: dict[str, set[str]]) -> None:
        """What has a name at home has bytes that the box had under this name."""
        for path in Path(self.home.folder).rglob("*"):
            name = str(path.relative_to(self.home.folder))
            if path.is_file() and not name.startswith(".sojourn-"):
                assert manifest.sha256_file(str(path))[1] in known[name], name

    def note(self, contents: dict[str, set[str]]) -> None:
        """What each file holds now, beside what it held before."""
        for row in map(self.row, self.listed()):
            contents.setdefault(row["path"], set()).add(row["sha256"])

    def run(self) -> None:
        contents: dict[str, set[str]] = {}
        total = sum(path.stat().st_size for path in self.listed())
        self.note(contents)
        with contextlib.suppress(SojournError):  # a clear line is an answer; a traceback or a wait without end is none
            self.command()
        assert self.slept_s <= 4 * moving.GIVE_UP_S, self.slept_s
        self.note(contents)
        self.check_push([]) if self.is_push else self.check_home(contents)
        self.line.faults = []
        self.command()
        self.check_push([]) if self.is_push else self.check_home(contents)
        left = [name for name in os.listdir(self.base / "staging") if self.is_push and not DAMAGE & self.kinds.keys()]
        assert not left and not os.path.exists(self.home.staging)
        if not DAMAGE & self.kinds.keys():
            cuts = sum(self.kinds.values())
            moved = self.line.sent_bytes if self.is_push else self.line.came_bytes
            assert moved <= 1.02 * total + (cuts + 2) * LINE_BYTES + cuts * pieces.FRAME_BYTES


def campaign(folder: Path, store: Store, seeds: range) -> Counter[str]:
    """Run these trials; how often each kind of fault fell. A failure names its seed."""
    fell: Counter[str] = Counter()
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        try:
            trial = Trial(place, seed, store)
            trial.run()
        except BaseException as error:
            error.add_note(f"seed {seed}, {'push' if seed % 2 else 'pull'}")
            raise
        fell += trial.kinds
        shutil.rmtree(place)
    return fell


Trials = Callable[[range], "Counter[str]"]


@pytest.fixture
def trials(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    monkeypatch.setattr("sys.argv", [str(tmp_path / "keepers/keeper.pyz")])
    store = Store()
    yield lambda seeds: campaign(tmp_path, store, seeds)
    store.close()


def test_under_seeded_faults_what_has_its_name_is_whole(trials: Trials) -> None:
    assert sum(trials(range(24)).values()) > 24


@pytest.mark.campaign
def test_under_a_thousand_seeded_faults_what_has_its_name_is_whole(trials: Trials) -> None:
    fell = trials(range(1000, 2000))
    assert min(fell[kind] for kind in KINDS) > 50
    print(dict(fell))
