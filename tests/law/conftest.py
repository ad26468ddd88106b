"""A scene of the campaign, for tests that say each step themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.law.blobs import Blobs
from tests.law.campaign import prepare
from tests.law.client import FOLDERS
from tests.law.order import How, Order, Placed
from tests.law.payload import Act, Play
from tests.law.quick import Answering


class Scene:
    """An order without dice: two clients, one machine, and the oracle, which must find nothing."""

    def __init__(self, folder: Path, stage: Path, *, is_by_hand: bool) -> None:
        self.blobs = Blobs(stage / "blobs")
        self.order = Order(0, folder, self.blobs, stage / "keepers", is_by_hand=is_by_hand)
        self.ann, self.ben = self.order.clients

    def run(self, *acts: Act, name: str = "r0", site: str = "paid", by: str = "ann", hook: str = "") -> Placed:
        """Launch a run whose attempts do this."""
        client = self.ann if by == "ann" else self.ben
        return self.order.launch(client, site, Play(name, acts), hook)

    def act(
        self,
        end: str,
        *saves: str,
        checkpoints: tuple[int, ...] = (),
        extra: tuple[tuple[str, Path], ...] = (),
        drops: tuple[str, ...] = (),
    ) -> Act:
        """An attempt that saves good files of these names, commits checkpoints of these steps, and ends so. `extra`:
        other files, with their contents.
        """
        contents = {"json": "json-1", "npy": "npy-1", "pt": "pt-1", "txt": "txt-1"}
        files = tuple((path, self.blob(contents[path.rpartition(".")[2]])) for path in saves)
        return Act((*files, *extra), tuple((step, self.blob("pt-2")) for step in checkpoints), end, drops)

    def blob(self, name: str) -> Path:
        """A content by its name, like json-1 or pt-3.cut."""
        return self.blobs.folder / name

    def down(self, **how: object) -> list[str]:
        """`down` by ann with the right name; what it was withheld for, [] where it was not."""
        answer = self.order.down(self.ann, "paid", How(**how))  # type: ignore[arg-type]
        self.holds()
        return [f"{lack.run}: {lack.what}" for lack in getattr(answer, "missing", ())]

    def holds(self) -> None:
        """Nothing was let go that should not have been."""
        assert self.order.verdict.broken == [], "\n".join(self.order.verdict.story)

    def is_there(self) -> bool:
        """The machine was not deleted, and nobody was told to."""
        return self.order.machine.is_on and not self.order.machine.is_cleared

    def home(self, path: str, run: str = "r0") -> bytes:
        """A copy at ann's home."""
        return (self.ann.home / run / path).read_bytes()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all scenes share."""
    folder = tmp_path_factory.mktemp("stage")
    prepare(folder)
    return folder


@pytest.fixture(scope="session")
def answering(stage: Path) -> Iterator[Answering]:
    """What answers calls of the keeper quickly."""
    (keeper,) = (stage / "keepers").iterdir()
    answering = Answering(keeper)
    yield answering
    answering.close()


def _scene(
    tmp_path: Path, stage: Path, answering: Answering, monkeypatch: pytest.MonkeyPatch, *, is_by_hand: bool
) -> Iterator[Scene]:
    for name in FOLDERS:  # each command takes on its user's; afterwards they are what they were
        monkeypatch.setenv(name, os.environ.get(name, ""))
    scene = Scene(tmp_path, stage, is_by_hand=is_by_hand)
    scene.order.machine.answering = answering
    yield scene
    if scene.order.machine.is_on:
        scene.order.machine.end_all()


@pytest.fixture
def scene(tmp_path: Path, stage: Path, answering: Answering, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A machine whose provider deletes it on release."""
    yield from _scene(tmp_path, stage, answering, monkeypatch, is_by_hand=False)


@pytest.fixture
def by_hand(tmp_path: Path, stage: Path, answering: Answering, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A machine that the user deletes when told to."""
    yield from _scene(tmp_path, stage, answering, monkeypatch, is_by_hand=True)
