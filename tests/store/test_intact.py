"""A damaged index is built anew in every case, and nothing of ours on this machine is open to others."""

import os
import random
import stat
import time
from pathlib import Path

import pytest

from sojourn.store.home import Store
from sojourn.verbs.context import Context
from tests.store import history
from tests.store.history import filled, opened

SEED = int(os.environ.get("SOJOURN_SEED", "15"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def told(store: Store) -> list[object]:
    """Everything the index says, decoded."""
    return [(r, r.run, r.site, r.local, r.handle, r.status, r.receipts) for r in store.index.runs()] + [
        (lease, lease.lease, lease.abandoned, lease.lost, store.index.runs_on(lease.name))
        for lease in store.index.leases(open_only=False)
    ]


def test_any_bytes_of_the_index_that_somebody_changed_are_built_anew(state: Path) -> None:
    """Every page, by turns: one bit, random bytes, zeros, cut there, grown. Never an error, never another answer."""
    filled(state, *(f"run-{i}" for i in range(12))).close()
    path = state / "index.sqlite"
    draw = random.Random(SEED)
    with opened(state) as store:
        before = told(store)
    whole = path.read_bytes()
    pages = len(whole) // 4096
    assert pages > 10
    for trial in range(2 * pages):
        data, at = bytearray(path.read_bytes()), trial % pages * 4096 + draw.randrange(4096)
        how = trial % 5
        if how == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            data[at : at + 300] = draw.randbytes(len(data[at : at + 300]))
        elif how == 2:
            data[at : at + 900] = bytes(len(data[at : at + 900]))
        elif how == 3:
            del data[at:]
        else:
            data += draw.randbytes(5000)
        time.sleep(0.02)  # the times of a file move by ticks of the clock, and no disk breaks within the same one
        path.write_bytes(data)
        with opened(state) as store:
            assert told(store) == before, f"trial {trial}"
        with opened(state) as store:
            assert store.index.gaps() == ()
    assert len(path.read_bytes()) > 4096


def test_an_index_that_breaks_while_it_is_open_is_built_anew(state: Path) -> None:
    store = filled(state, "a", "b")
    before = told(store)
    path = state / "index.sqlite"
    path.write_bytes(path.read_bytes()[:4096] + random.Random(SEED).randbytes(path.stat().st_size - 4096))
    store.append("pulling", run="a")
    assert store.index.find("a").phase == "pulling" and len(told(store)) == len(before)


def modes(top: Path) -> dict[str, str]:
    """All below `top` that others may do something with."""
    seen = {str(path.relative_to(top)): path.lstat().st_mode for path in (top, *top.rglob("*"))}
    return {name: oct(stat.S_IMODE(mode)) for name, mode in seen.items() if mode & 0o077 and not stat.S_ISLNK(mode)}


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_everything_of_ours_is_ours_alone_whatever_the_umask(private_home: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Context.open() as ctx:
            ctx.store.append("leased", lease=history.lease())
            history.finished(ctx.store.journal, "a")
            with ctx.alone("a"):
                ctx.store.index.catch_up()
                made = {path.name for path in (private_home / ".local/state/sojourn").iterdir()}
        assert made >= {"journal.jsonl", "journal.head", "index.sqlite", "index.sqlite.seal", "locks"}
        assert modes(private_home / ".local/state/sojourn") == {}
    finally:
        os.umask(before)


def test_what_an_older_version_made_wider_is_closed_and_what_is_the_users_is_left(private_home: Path) -> None:
    state, cache = private_home / ".local/state/sojourn", private_home / ".cache/sojourn"
    mine = private_home / "project"
    for place in (state / "manifests", state / "locks", cache / "hashes", mine):
        place.mkdir(parents=True)
        (place / "file").write_text("x")
    (state / "link").symlink_to(mine / "file")
    for top in (state, cache, mine):
        for path in (top, *top.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() else 0o664)
    with Context.open():
        pass
    assert modes(state) == {} and modes(cache) == {}
    assert stat.S_IMODE((mine / "file").stat().st_mode) == 0o664 and stat.S_IMODE(mine.stat().st_mode) == 0o755
