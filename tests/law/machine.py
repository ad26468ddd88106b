"""A simulated box: a folder with bases in it, a registry of its own, a meter, and what a release does to all that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.provider import by_hand
from sojourn.backends.transport import local
from sojourn.core import law
from sojourn.core.ports import Offer
from sojourn.core.values import Ended, Lease, NoAnswer, Pulse, Site
from tests import ending
from tests.law.quick import Answering

OFF = NoAnswer(sent=False, kind="timeout", detail="the machine is not there", next_step="look at its provider's page")
SILENT = NoAnswer(sent=True, kind="timeout", detail="it let us in and then said nothing")
RATE = 2_000_000


@dataclass
class Machine:
    """One box. `bases`: folders in it, two here. `judge` is asked before anything of it is let go: of all of it, or of
    one run's root; `blame` gets what it found once that has happened.

    generation: how often it was rented. is_cut: the line to it is broken; is_silent: only its answers are lost.
    is_cleared: a person was told to stop it. answering: what answers calls quickly, where there is such a thing.
    """

    folder: Path
    keepers: Path  # what a box that was used before has in its folder of that name
    judge: Callable[[Path | None], list[str]] = lambda root: []
    blame: Callable[[list[str]], None] = lambda found: None
    generation: int = 0
    is_on: bool = False
    is_cut: bool = False
    is_silent: bool = False  # and lets calls in all the same
    is_cleared: bool = False
    answering: Answering | None = None
    leases: dict[str, int] = field(default_factory=dict)  # native -> generation

    @property
    def bases(self) -> tuple[Path, Path]:
        return self.folder / "base", self.folder / "second base"

    @property
    def roots(self) -> list[Path]:
        """Every run's folder, in whichever base."""
        found = [path for base in self.bases for path in sorted((base / "runs").glob("[!.]*"))]
        return [path for path in found if (path / "run.json").exists()]

    def switch_on(self) -> None:
        """A machine as it is rented: empty but for the keeper's program."""
        if not self.is_on:
            self.generation += 1
            self.is_on = True
            for base in self.bases:
                shutil.copytree(self.keepers, base / "keepers")

    def delete(self) -> None:
        """What the end of a lease does: all its processes and its disk are gone."""
        self.is_on = self.is_cleared = False
        self.end_all()
        while self.folder.exists():  # a call that had begun before may write on
            shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self) -> None:
        """Its container is made anew, as after a stop: processes and the registry in its home end, the volume stays."""
        self.end_all()
        shutil.rmtree(self.folder / "registry", ignore_errors=True)

    @property
    def _mark(self) -> str:
        return f"SOJOURN_BOX_REGISTRY={self.folder / 'registry'}"

    def processes(self) -> list[int]:
        """Everything that runs on it."""
        return ending.carriers(self._mark)

    def end_all(self) -> None:
        """End them, those too that one of them starts meanwhile."""
        ending.end_all(self._mark)


class Line:
    """The transport to a machine: the local one, in the machine's own environment."""

    def __init__(self, machine: Machine, site: Site) -> None:
        self._machine, self._real = machine, local.Backend(site)

    @property
    def _is_dead(self) -> bool:
        return self._machine.is_cut or not self._machine.is_on

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        if self._is_dead:
            return SILENT if self._machine.is_on and self._machine.is_silent else OFF
        folder, answering = self._machine.folder, self._machine.answering
        own = {"SOJOURN_BOX_REGISTRY": str(folder / "registry"), "HOME": str(folder)}
        if answering is not None and answering.takes(argv):
            return answering.call(argv, {**os.environ, **own}, **how)
        return self._real.call(["env", *(f"{name}={value}" for name, value in own.items()), *argv], **how)

    def put(self, local: str, remote: str, **how: Any) -> None | NoAnswer:
        return OFF if self._is_dead else self._real.put(local, remote, **how)

    def get(self, remote: str, local: str, **how: Any) -> int | NoAnswer:
        return OFF if self._is_dead else self._real.get(remote, local, **how)


class Rented:
    """A provider that stops its own meter, and deletes the machine with it."""

    metered, rents, stops_itself, stop_verb, is_final = True, False, True, "destroy", True

    def __init__(self, machine: Machine, site: Site) -> None:
        self._machine, self._site = machine, site

    def offers(self, need: object) -> Sequence[Offer]:
        return (Offer("a-box", RATE, "EUR"),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        machine, name = self._machine, self._site.name
        machine.switch_on()
        native = f"{token}@{machine.generation}"
        machine.leases[native] = machine.generation
        return Lease(name, name, "rented", native, RATE, "EUR", now_s, self.stop_verb, self.is_final)

    def look(self, lease: Lease) -> Pulse:
        is_here = self._machine.is_on and self._machine.leases.get(lease.native) == self._machine.generation
        return Pulse.ALIVE if is_here else Pulse.GONE

    def release(self, lease: Lease, clearance: law.Clearance) -> str:
        law.check(clearance, lease)
        if self.look(lease) is Pulse.ALIVE:
            self._machine.blame(self._machine.judge(None))
            self._machine.delete()
        return "destroyed"


class ByHand:
    """The user's own meter, as it is; what is cleared is judged at once, since the user deletes it now."""

    metered, rents, stops_itself, is_final = True, False, False, True
    stop_verb = by_hand.Backend.stop_verb

    def __init__(self, machine: Machine, site: Site) -> None:
        self._machine, self._real = machine, by_hand.Backend(site)

    def offers(self, need: Any) -> Sequence[Offer]:
        return self._real.offers(need)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        self._machine.switch_on()
        return self._real.take(offer, token, now_s)

    def look(self, lease: Lease) -> Pulse:
        return self._real.look(lease)

    def release(self, lease: Lease, clearance: law.Clearance) -> str:
        said = self._real.release(lease, clearance)
        if self._machine.is_on:
            self._machine.blame(self._machine.judge(None))
            self._machine.is_cleared = True
        return said


class WatchedKeeper(Keeper):
    """The keeper, whose removal of a run's folder is judged first: deleting is as final as a release."""

    def __init__(self, machine: Machine, line: Line, site: Site) -> None:
        super().__init__(line, site)
        self._machine = machine

    def ask(self, op: str, *given: Any, **fields: Any) -> Any:
        root = Path(self.site.base) / "runs" / str(fields.get("name", ""))
        if op != "remove" or fields.get("kind") != "runs" or not root.exists():
            return super().ask(op, *given, **fields)
        found = self._machine.judge(root)
        answer = super().ask(op, *given, **fields)
        if not root.exists():
            self._machine.blame(found)
        return answer
