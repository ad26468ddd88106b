"""Outputs behind links, under odd names, and in places that cannot be looked into, with real keepers on a meter."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.core.law import Withheld
from sojourn.verbs.release.clean import clean
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World
from tests.verbs.faulty import Provider
from tests.verbs.test_down_law import let_go, refused, rented

__all__ = ["rented"]
MODEL = '{"a": 1}\n'


def home(world: World, to: Path) -> tuple[dict[str, str], int]:
    """(what of it is at home, the exit status of `pull`)."""
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    found = {str(one.relative_to(to)): one.read_text() for one in to.rglob("*.json") if one.is_file()}
    return {path: text for path, text in found.items() if not path.startswith("evidence/")}, answer.exit_status


MADE = {  # folder, link, its target, output, where its file is home
    "latest": ("one/exp3", "one/latest", "exp3", "one/latest/m.json", "one/latest/m.json"),
    "hit": ("real2", "two/best", "../real2", "two/*/m.json", "two/best/m.json"),
    "deep": ("real3", "three/best", "../real3", "three/**/*.json", "three/best/m.json"),
    "whole": ("real4", "four/best", "../real4", "four", "four/best/m.json"),
    "brackets": ("five/lr=[0.1]", "five/loop", ".", "five/lr=[0.1]/m.json", "five/lr=[0.1]/m.json"),
    "braces": ("six/{a,b}", "six/loop", "..", "six/{a,b}/*", "six/{a,b}/m.json"),
}


def test_outputs_behind_links_and_of_odd_names_come_home_under_the_names_that_the_globs_give_them(
    world: World, rented: Provider, tmp_path: Path
) -> None:
    script = [
        f"mkdir -p '{folder}' {link.partition('/')[0]}; echo '{MODEL.strip()}' > '{folder}/m.json'; ln -s {to} {link}"
        for folder, link, to, _, _ in MADE.values()
    ]
    world.ended("; ".join(script), outputs=[output for _, _, _, output, _ in MADE.values()])
    assert refused(world) and not rented.released
    assert home(world, tmp_path / "home") == ({path: MODEL for _, _, _, _, path in MADE.values()}, 0)
    assert let_go(world).acknowledged == ()


def test_a_folder_behind_a_link_that_leaves_the_root_holds(world: World, rented: Provider, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    world.ended(
        f"mkdir -p out '{elsewhere}'; echo '{MODEL}' > '{elsewhere}/m.json'; ln -s '{elsewhere}' out/ext",
        outputs=["out/*/m.json"],
    )
    assert home(world, tmp_path / "home") == ({}, 1)
    assert refused(world) == [
        "digits: out/ext is on the box and cannot be brought home: a symlink out of the run's root"
    ]
    assert refused(world, abandon=["digits:out"])[0] == (
        "digits:out: cannot be abandoned: it was never on this lease"
    ), "no path but the link's own"
    answer = let_go(world, abandon=["digits:out/ext"])
    assert answer.released and answer.abandoned == ("digits:out/ext",)
    assert "abandoned" in world.journal()


def test_a_place_that_cannot_be_looked_into_holds_with_the_reason(
    world: World, rented: Provider, tmp_path: Path
) -> None:
    links = "ln -s real out/l0; for i in $(seq 50); do ln -s l$((i-1)) out/l$i; done"
    world.ended(f"mkdir -p out/real; {links}", outputs=["out/l50/m.json"])
    assert home(world, tmp_path / "home") == ({}, 1)
    what = "out/l50 is on the box and cannot be brought home: it cannot be looked into: Too many levels of"
    (lack,) = refused(world)
    assert what in lack
    with pytest.raises(Withheld, match="it cannot be looked into"):
        clean(world.ctx, "local", ["digits"], confirm=lambda ask: ask.name)
    assert world.root().exists() and not rented.released


def test_a_pipe_or_a_socket_among_the_outputs_is_a_remark(world: World, rented: Provider, tmp_path: Path) -> None:
    world.ended(f"mkdir out; mkfifo out/pipe; echo '{MODEL.strip()}' > out/m.json", outputs=["out"])
    assert home(world, tmp_path / "home") == ({"out/m.json": MODEL}, 0)
    assert let_go(world).acknowledged == ("digits: out/pipe is a pipe, a socket or a device: it holds nothing",)
