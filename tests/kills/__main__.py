"""`python -m tests.kills --project nanogpt --site ssh --seed 1 --kills 20`: walks, and tells each one's story."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kills import places
from tests.kills.projects import ALL, NAMED
from tests.kills.strikes import schedule
from tests.kills.walk import Broken, Walk, walk
from tests.lab import lab as laboratory
from tests.spine.conftest import Desk


def main() -> int:
    """0 when all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--project", choices=tuple(NAMED), action="append", help="this one (default: each)")
    parser.add_argument("--site", choices=("local", "ssh"), default="local")
    parser.add_argument("--seed", type=int, default=1, help="the (first) walk")
    parser.add_argument("--count", type=int, default=1, help="this many walks of each project, from --seed on")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ledger", type=Path, help="add what each walk came to to this file")
    args = parser.parse_args()
    broken = 0
    with laboratory_box() if args.site == "ssh" else contextlib.nullcontext():
        for seed in range(args.seed, args.seed + args.count):
            for name in args.project or [one.name for one in ALL]:
                print(f"--- {name} on {args.site}, seed {seed}", flush=True)
                with tempfile.TemporaryDirectory(prefix="sojourn-walk-") as aside:
                    found = _walked(Path(aside), name, args.site, seed, args.kills)
                print(found.as_json(), flush=True)
                broken += bool(found.broken)
                if args.ledger:
                    with args.ledger.open("a") as f:
                        f.write(found.as_json() + "\n")
    return 1 if broken else 0


@contextlib.contextmanager
def laboratory_box() -> Iterator[None]:
    """Box 1 with this Python, and this thread where only boxes can be reached."""
    with laboratory.locked():
        laboratory.boxes("down")
        laboratory.boxes("up", "1", BOX_SHOW=places.shown(), **places.KNOBS)
        try:
            with laboratory.client_namespace():
                yield
        finally:
            laboratory.boxes("down")


def _walked(aside: Path, name: str, site: str, seed: int, kills: int) -> Walk:
    home = aside / "home"
    home.mkdir()
    for key in [key for key in os.environ if key.startswith(("SOJOURN_", "XDG_"))]:
        del os.environ[key]
    os.environ.update(HOME=str(home), SOJOURN_BOX_REGISTRY=str(home / "box-registry"))
    desk = Desk(home, aside / "a project", Path(tempfile.gettempdir()) / "sojourn-walk-compiled")
    place = places.here(home)
    if site == "ssh":
        laboratory.Box(1).clear()
        desk.env.update(SOJOURN_SSH_CONFIG=str(laboratory.FOLDER / "boxes/ssh_config"))
        place = places.box(1, home)
    try:
        return walk(desk, NAMED[name], place, seed, schedule(seed, kills), lambda line: print(line, flush=True))
    except AssertionError as error:
        print(error, flush=True)
        return error.found if isinstance(error, Broken) else Walk(name, site, seed, broken=str(error))
    finally:
        desk.end_all()


if __name__ == "__main__":
    sys.exit(main())
