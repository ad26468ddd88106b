"""`gotchas list|show|search`: shapes, names, exit statuses."""

import json
import subprocess
import sys

import pytest

from sojourn.cli.show import gotchas as show
from sojourn.cli.show.text import width
from sojourn.store.gotchas import gotchas as catalog
from sojourn.verbs.explain import gotchas
from sojourn.wire.errors import Misuse


def run(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sojourn", "gotchas", *argv]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)


def test_the_list_has_every_entry_once() -> None:
    rows = gotchas.listed().as_json()["gotchas"]
    assert sorted(row["id"] for row in rows) == [one.id for one in catalog()]
    assert set(rows[0]) == {"id", "was", "title", "theme", "scope", "severity"}


def test_a_list_is_narrowed_by_theme_scope_and_severity() -> None:
    kept = gotchas.listed(theme="slurm", scope="slurm", severity="blocker").gotchas
    assert kept and all((one.theme, one.severity) == ("slurm", "blocker") for one in kept)
    with pytest.raises(Misuse, match="slurm"):
        gotchas.listed(scope="slrum")


@pytest.mark.parametrize("name", ["inodes-used-up", "U7", "u7", "inodes"])
def test_an_entry_is_shown_by_id_seed_number_and_unique_beginning(name: str) -> None:
    said = gotchas.show_gotcha(name).as_json()
    assert (said["schema"], said["id"], said["was"]) == ("sojourn/gotcha/v1", "inodes-used-up", "U7")
    assert said["related"][0].keys() == {"id", "title"}
    json.dumps(said, allow_nan=False)


def test_the_number_of_a_merged_entry_shows_the_one_that_tells_it() -> None:
    merged = {m.was: one.id for one in catalog() for m in one.merged}
    assert gotchas.show_gotcha("LOC4").gotcha.id == merged["LOC4"]


@pytest.mark.parametrize(
    ("wrong", "near"), [("inodx", "inodes-used-up"), ("disc-full", "disk-full"), ("k8s", "several")]
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(gotchas.UnknownGotcha, match=near):
        gotchas.show_gotcha(wrong)


def test_a_search_has_the_shape_that_others_rely_on() -> None:
    answer = gotchas.searched("no space left but df shows free space")
    said = answer.as_json()
    assert said["schema"] == "sojourn/gotchas-search/v1"
    assert set(said["results"][0]) >= {"id", "was", "title", "score"}
    assert said["results"][0]["score"] >= said["results"][-1]["score"]
    assert answer.exit_status == 0 and gotchas.searched("qqqzzz").exit_status == 1
    json.dumps(said, allow_nan=False)


def test_a_search_for_a_name_is_answered_with_its_entry() -> None:
    assert gotchas.searched("U7").results[0].id == "inodes-used-up"
    assert gotchas.searched("disk-quota").results[0].id == "disk-quota"


def test_an_empty_search_is_misuse() -> None:
    with pytest.raises(Misuse, match="nothing to search for"):
        gotchas.searched("  ")


def test_every_entry_reads_at_80_columns() -> None:
    for one in catalog():
        wide = [line for line in show.entry(gotchas.show_gotcha(one.id), 80) if width(line) > 80]
        assert wide == []
    assert [line for line in show.listed(gotchas.listed(), 80) if width(line) > 80] == []


def test_the_command_line_answers_in_words_and_in_json() -> None:
    told = run("search", "断开", "ssh", "训练就停了")
    assert told.returncode == 0 and "session-closed" in told.stdout and "fix:" in told.stdout
    said = json.loads(run("search", "--json", "--limit", "1", "-", stdin="x\n[Errno 122] Disk quota exceeded\n").stdout)
    assert [row["id"] for row in said["results"]] == ["disk-quota"]
    missed = run("show", "inodx", "--json")
    assert missed.returncode == 2 and "inodes-used-up" in json.loads(missed.stderr.splitlines()[-1])["message"]
    assert run("list", "storage").returncode == 2
