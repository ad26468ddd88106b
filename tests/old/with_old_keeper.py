"""`python with_old_keeper.py KEEPER.pyz WORDS...`: today's client, which speaks to the keeper of an earlier version."""

import sys
from pathlib import Path

from sojourn.cli.main import main
from sojourn.store import parcel

KEEPER = Path(sys.argv[1])


def keeper_bytes() -> tuple[str, bytes]:
    """The frozen keeper in the place of today's."""
    return KEEPER.name, KEEPER.read_bytes()


parcel.keeper_bytes = keeper_bytes
sys.exit(main(sys.argv[2:]))
