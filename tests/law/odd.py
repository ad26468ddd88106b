"""Odd things that happen to a box and to a home: folders that nobody can look into, a container made anew, homes in
what goes, a `run` that comes while `down` is under way.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from pathlib import Path

from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.wire.errors import SojournError
from tests.law import payload
from tests.law.client import Client
from tests.law.oracle import CLOSED
from tests.law.order import How, Order, Placed

CHAIN = 45  # links; the kernel follows 40


def close(order: Order, dice: random.Random) -> None:
    """A folder of outputs can no longer be looked into: too long a chain of links leads there (root may look anywhere
    else).
    """
    there = [folder for root in order.machine.roots for folder in sealed_folders(root)]
    if there:
        folder = dice.choice(there)
        close_folder(folder)
        order.tell(f"{folder.relative_to(order.machine.folder)} cannot be looked into")


def sealed_folders(root: Path) -> list[Path]:
    """Folders of which the keeper has sealed some output: it knows that something was in there."""
    path = root / "manifest.json"
    rows = json.loads(path.read_bytes())["files"] if path.exists() else []
    found = {(root / row["from"]).parent for row in rows if row["role"] == "output" and "/" in row["path"]}
    return sorted(folder for folder in found if folder.is_dir() and folder.name in ("out", "keep"))


def close_folder(folder: Path) -> None:
    """What it holds lies beside it, as nobody but the oracle knows."""
    last = CLOSED + folder.name
    folder.rename(folder.with_name(last))
    for number in range(CHAIN):
        name = f".chain-{folder.name}-{number}"
        folder.with_name(name).symlink_to(last)
        last = name
    folder.symlink_to(last)


def open_again(order: Order, dice: random.Random) -> None:
    """Every such folder is as it was."""
    for aside in [path for root in order.machine.roots for path in root.glob(f"attempts/*/{CLOSED}*")]:
        folder = aside.with_name(aside.name.removeprefix(CLOSED))
        for link in (folder, *folder.parent.glob(f".chain-{folder.name}-*")):
            if link.is_symlink():
                link.unlink()
        if not folder.exists():
            aside.rename(folder)
            order.tell(f"{folder.relative_to(order.machine.folder)} can be looked into again")


def restart(order: Order, dice: random.Random) -> None:
    """The box's container is made anew: its volume stays, what ran and what stood in its home does not."""
    if order.machine.is_on:
        order.machine.restart()
        order.tell("the container is made anew")
        order.status(order.clients[0])


def odd_home(order: Order, dice: random.Random) -> None:
    """`pull --to` into the run's own folder, by its name or through a link; or a home that becomes such a link."""
    mine = [one for one in order.runs if one.root.exists()]
    if not mine:
        return
    placed, how = dice.choice(mine), dice.choice(["inside", "link", "later"])
    if how == "later":
        home = placed.client.home / placed.name
        if home.is_dir() and not home.is_symlink():
            goal = placed.root / "attempts/1"
            shutil.rmtree(home)
            home.symlink_to(goal)
            order.tell(f"the home of {placed.name} is a link to the run's own folder now")
        return
    to = placed.root / f"home-{dice.randrange(9)}"
    if how == "link":
        to.mkdir(exist_ok=True)
        link = order.folder / f"link-{dice.getrandbits(32)}"
        link.symlink_to(to)
        to = link / "in"
    order.pull(placed.client, placed.name, to=str(to))


def late_run(order: Order, client: Client, name: str, play: payload.Play, how: How) -> None:
    """`down`, and a `run` on the same site that begins while it is under way."""
    file = order.job(client, play)
    said: list[object] = []

    def begin() -> None:
        said.append(
            order.give(client, f"run {play.name}, meanwhile", lambda ctx: run(ctx, RunRequest(file, site="paid")))
        )

    late = threading.Thread(target=begin)

    def meanwhile() -> None:
        how.meanwhile()
        if not late.ident:
            late.start()

    order.down(client, name, How(how.abandon, how.accept, is_script=how.is_script, meanwhile=meanwhile))
    was_cleared = order.machine.is_cleared
    if not late.ident:
        return
    late.join()
    if said and not isinstance(said[0], SojournError):
        placed = Placed(client, "paid", play)
        order.runs.append(placed)
        if was_cleared:
            order.broke(f"{play.name} began on a machine whose user was just told to stop it")
        order.settle(placed)
