"""The steps of which an order is made, each drawn with a die of its own, so that one that changes leaves the others."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.law import damage, odd, payload
from tests.law.client import Client
from tests.law.order import How, Order, Placed


@dataclass(frozen=True)
class Step:
    """One step: its name, and what it does with a die of its own."""

    name: str
    act: Callable[[Order, random.Random], None]
    seed: int

    def do(self, order: Order) -> None:
        """Let it happen."""
        order.tell(f"-- {self.name}")
        self.act(order, random.Random(self.seed))


def draw(dice: random.Random) -> list[Step]:
    """A run, three to seven steps of any kind, and an attempt to let go among them."""
    names = ["run"] + dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=dice.randint(3, 7))
    if not any(name.startswith("down") for name in names):
        names.append("down")
    return [Step(name, STEPS[name], dice.getrandbits(64)) for name in names]


def start(order: Order, dice: random.Random) -> None:
    """A run of the first client, on the metered site."""
    _launch(order, dice, order.clients[0], "paid")


def start_of_other(order: Order, dice: random.Random) -> None:
    """A second client's run on the same box, in whichever of its bases."""
    _launch(order, dice, order.clients[1], dice.choice(["paid", "twin", "other"]))


def start_elsewhere(order: Order, dice: random.Random) -> None:
    """The same box under another name of the same client, or another base there."""
    _launch(order, dice, order.clients[0], dice.choice(["twin", "other"]))


def go_on(order: Order, dice: random.Random) -> None:
    """The next attempt of a run that ended badly."""
    if placed := _any(order, dice):
        order.go_on(placed)


def bring_home(order: Order, dice: random.Random) -> None:
    """`pull` of everything that a client knows, by whoever started something."""
    client = order.clients[0] if dice.random() < 0.8 else order.clients[1]
    order.pull(client)


def kill(order: Order, dice: random.Random) -> None:
    """SIGKILL to keepers, to payloads, or to both."""
    words = dice.choice([(b"supervise",), (b"sleep",), (b"supervise", b"sleep")])
    for pid in order.machine.processes():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            if any(word in line for word in words):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    order.tell(f"killed: {b', '.join(words).decode()}")
    order.status(order.clients[0])


def stop(order: Order, dice: random.Random) -> None:
    """`stop` of some run."""
    if placed := _any(order, dice):
        order.stop(placed.client, placed.name)


def change_on_box(order: Order, dice: random.Random) -> None:
    """Somebody edits, deletes or adds a file of a run on the box."""
    damage.on_box(order, dice)


def change_at_home(order: Order, dice: random.Random) -> None:
    """A copy at home is deleted or overwritten."""
    damage.at_home(order, dice)


def harm_journal(order: Order, dice: random.Random) -> None:
    """The first client's journal is lost or damaged."""
    damage.journal(order, dice, order.clients[0])


def let_go(order: Order, dice: random.Random) -> None:
    """`down` by lease, site or run; with the right or a wrong name; the hook and the prompt may change things."""
    _down(order, dice, order.clients[0], is_first_pulled=dice.random() < 0.6)


def let_go_as_other(order: Order, dice: random.Random) -> None:
    """The same by the second client, where it holds a lease."""
    _down(order, dice, order.clients[1], is_first_pulled=dice.random() < 0.6)


def let_go_with_names(order: Order, dice: random.Random) -> None:
    """`down` that gives something up by name: a run, its checkpoint, a stray, or accepts a file."""
    placed = _any(order, dice)
    names = [] if placed is None else [_name(dice, placed)]
    accept = [f"{placed.name}:{dice.choice(sorted(payload.PATHS))}"] if placed and dice.random() < 0.2 else []
    _down(order, dice, order.clients[0], is_first_pulled=True, abandon=tuple(names), accept=tuple(accept))


def tidy(order: Order, dice: random.Random) -> None:
    """`clean` of a run, of its box or of nothing named, with or without `--abandon`."""
    placed = _any(order, dice)
    if placed is None:
        return
    gives_up = dice.random() < 0.25
    how = How((placed.name,) if gives_up else (), is_script=dice.random() < 0.6, meanwhile=_meanwhile(order, dice))
    if dice.random() < 0.4:
        order.pull(placed.client)
    order.clean(placed.client, placed.site, [] if gives_up else [placed.name], how)


def fetch_records(order: Order, dice: random.Random) -> None:
    """`recover` of a site."""
    order.recover(dice.choice(order.clients), dice.choice(["paid", "twin", "other"]))


def say_stopped(order: Order, dice: random.Random) -> None:
    """`down` twice, and `--already-stopped`, while the machine is there."""
    client = order.clients[0]
    for lease in order.leases(client)[-1:]:
        if lease.lease.site == "paid":
            order.down(client, lease.name, How(is_stopped=dice.random() < 0.5))


def lose_machine(order: Order, dice: random.Random) -> None:
    """The provider takes the machine away: nothing that is asked afterwards may call that a release."""
    if order.machine.is_on and dice.random() < 0.5:
        order.machine.delete()
        order.tell("the machine is gone with its disk")


def cut_line(order: Order, dice: random.Random) -> None:
    """The box does not answer for one `down`, which may say that the machine is stopped: it is not reached, or it lets
    calls in and then says nothing.
    """
    order.machine.is_cut, order.machine.is_silent = True, dice.random() < 0.5
    try:
        if order.machine.is_silent and dice.random() < 0.5:
            for lease in [one.name for one in order.leases(order.clients[0]) if one.lease.site == "paid"]:
                order.down(order.clients[0], lease, How(is_stopped=True))
        else:
            _down(order, dice, order.clients[0], is_first_pulled=False)
    finally:
        order.machine.is_cut = order.machine.is_silent = False


def let_go_while_one_comes(order: Order, dice: random.Random) -> None:
    """`down`, and meanwhile a `run` on the same site."""
    client = order.clients[0]
    leases = [one.name for one in order.leases(client) if one.lease.site == "paid"]
    if leases:
        order.pull(client)
        play = payload.draw(dice, f"r{len(order.runs)}", order.blobs, most=1)
        odd.late_run(order, client, leases[-1], play, How(is_script=dice.random() < 0.5))
        stopped_by_hand(order, client, dice.random() < 0.8)


STEPS: dict[str, Callable[[Order, random.Random], None]] = {
    "run": start,
    "run of a second client": start_of_other,
    "run under a second name": start_elsewhere,
    "resume": go_on,
    "pull": bring_home,
    "kill": kill,
    "stop": stop,
    "change on the box": change_on_box,
    "change at home": change_at_home,
    "journal": harm_journal,
    "down": let_go,
    "down of a second client": let_go_as_other,
    "down with names": let_go_with_names,
    "clean": tidy,
    "recover": fetch_records,
    "say it is stopped": say_stopped,
    "machine lost": lose_machine,
    "line cut": cut_line,
    "folder closed": odd.close,
    "folder opened": odd.open_again,
    "restart": odd.restart,
    "odd home": odd.odd_home,
    "run during down": let_go_while_one_comes,
}
WEIGHTS = dict.fromkeys(STEPS, 2.0) | {
    "run": 1.0,
    "resume": 4.0,
    "pull": 4.0,
    "change on the box": 3.0,
    "down": 5.0,
    "down of a second client": 1.0,
    "clean": 3.0,
    "recover": 1.0,
    "say it is stopped": 1.0,
    "machine lost": 0.5,
    "line cut": 0.5,
    "folder opened": 1.0,
    "restart": 1.0,
    "run during down": 1.5,
}


def _launch(order: Order, dice: random.Random, client: Client, site: str) -> None:
    name = f"r{len(order.runs)}" if dice.random() < 0.85 else "r0"
    hook = "sh ./hook.sh" if dice.random() < 0.4 else ""
    placed = order.launch(client, site, payload.draw(dice, name, order.blobs), hook)
    if dice.random() < 0.5:
        order.status(placed.client)


def _any(order: Order, dice: random.Random) -> Placed | None:
    return dice.choice(order.runs) if order.runs else None


def _name(dice: random.Random, placed: Placed) -> str:
    stray = f"{placed.site}:{placed.root.parent.parent}/{placed.name}"
    return dice.choice([placed.name, placed.name, f"{placed.name}:checkpoint", stray, "nobody"])


def _meanwhile(order: Order, dice: random.Random) -> Callable[[], None]:
    """What happens while a question waits: mostly nothing."""
    if dice.random() < 0.65:
        return lambda: None
    seed = dice.getrandbits(64)

    def change() -> None:
        own = random.Random(seed)
        (damage.on_box if own.random() < 0.6 else damage.at_home)(order, own)

    return change


def _down(
    order: Order,
    dice: random.Random,
    client: Client,
    *,
    is_first_pulled: bool,
    abandon: tuple[str, ...] = (),
    accept: tuple[str, ...] = (),
) -> None:
    leases = [one for one in order.leases(client) if one.lease.site == "paid"]
    if not leases:
        order.tell(f"{client.name} holds no lease")
        return
    if is_first_pulled:
        for placed in [one for one in order.runs if dice.random() < 0.8 and one.root.exists()]:
            if not order.is_sealed(placed):
                order.stop(placed.client, placed.name)
        order.pull(client)
    damage.arm_hook(order, dice, client)
    mine = [one.name for one in order.runs if one.client is client and one.site == "paid"]
    target = dice.choice([leases[-1].name, "paid", *mine])
    wrong = dice.random() < 0.1
    how = How(
        abandon,
        accept,
        is_script=dice.random() < 0.5,
        name="pai" if wrong else "",
        meanwhile=_meanwhile(order, dice),
    )
    order.down(client, target, how)
    damage.disarm_hook(client)
    stopped_by_hand(order, client, dice.random() < 0.8)


def stopped_by_hand(order: Order, client: Client, is_done: bool) -> None:
    """The user does what a `down` that cleared has told them: the machine is deleted at its provider."""
    if is_done and order.machine.is_cleared:
        order.machine.delete()
        order.tell(f"{client.name} deletes the machine, as told")
