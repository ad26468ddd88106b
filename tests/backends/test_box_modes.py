"""Nobody else may write what we would run on a box: ours is made for us alone, and what lies above is looked at."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.backends.keeper.client import Answer, Keeper, OpenToOthers
from sojourn.backends.transport.local import Backend
from sojourn.core.values import NoAnswer, Site

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
OTHER = 54321


@pytest.fixture(params=[0o000, 0o002, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    kept = os.umask(request.param)
    yield request.param
    os.umask(kept)


def keeper(base: Path) -> Keeper:
    return Keeper(Backend(), Site("here", transport="local", base=str(base)))


def hello(base: Path) -> Answer:
    answer = keeper(base).ask("hello")
    assert isinstance(answer, Answer), answer
    return answer


def test_all_that_is_ours_is_made_for_us_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    base = tmp_path / "made/by us/base"
    hello(base)
    assert not isinstance(keeper(base).put_train(str(base)), NoAnswer)
    hello(base)
    made = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
    assert {path.name for path in made} >= {"made", "base", "keepers", "train", "box.json"}
    assert {str(path): oct(path.stat().st_mode) for path in made if path.stat().st_mode & 0o077} == {}


def test_what_others_may_write_is_refused_and_the_command_that_it_names_mends_it(tmp_path: Path) -> None:
    base = tmp_path / "it's above/base"
    hello(base)
    packed = next((base / "keepers").glob("keeper-*.pyz"))
    for path in (base.parent, base, base / "keepers", base / "train", base / "staging", packed):
        path.chmod(path.stat().st_mode | 0o022)
        with pytest.raises(OpenToOthers) as refused:
            keeper(base).ask("since", runs={})
        assert str(path) in refused.value.message and refused.value.exit_status == 5
        named = re.search(r"Run `(.*)` there", refused.value.message)
        assert named is not None
        subprocess.run(shlex.split(named[1]), check=True)
        hello(base)


def test_a_keeper_that_another_user_put_there_is_not_run(tmp_path: Path) -> None:
    base = tmp_path / "base"
    hello(base)
    packed = next((base / "keepers").glob("keeper-*.pyz"))
    for path in (base / "keepers").iterdir():
        path.unlink()
    packed.write_text(f"open({str(tmp_path / 'owned')!r}, 'w')\n")
    packed.chmod(0o666)
    with pytest.raises(OpenToOthers):
        keeper(base).ask("hello")
    assert not (tmp_path / "owned").exists()


def test_a_link_on_the_way_is_looked_at_on_both_its_sides(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "open/link").symlink_to(tmp_path / "real")
    base = tmp_path / "open/link/base"
    hello(base)
    for path in (tmp_path / "open", tmp_path / "real"):
        path.chmod(0o777)
        with pytest.raises(OpenToOthers, match="others may write"):
            hello(base)
        path.chmod(0o755)


def test_a_sticky_folder_and_the_users_own_group_pass(tmp_path: Path) -> None:
    for mode in (0o1777, 0o3777):
        (tmp_path / oct(mode)).mkdir()
        (tmp_path / oct(mode)).chmod(mode)
        hello(tmp_path / oct(mode) / "base")
    if os.getuid() == 0:  # whose group is its own
        (tmp_path / "group").mkdir()
        os.chown(tmp_path / "group", 0, 0)
        (tmp_path / "group").chmod(0o775)
        hello(tmp_path / "group/base")


@AS_ROOT
def test_another_users_folder_and_a_shared_group_do_not_pass(tmp_path: Path) -> None:
    for name, owner, group, mode, said in (
        ("theirs", OTHER, 0, 0o755, "belongs to another user"),
        ("shared", 0, 1, 0o775, "others may write"),  # 1: `daemon` on any Linux
    ):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, owner, group)
        (tmp_path / name).chmod(mode)
        with pytest.raises(OpenToOthers, match=said):
            hello(tmp_path / name / "base")
