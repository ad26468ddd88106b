"""A launcher without a shell box, from a package of its own: digits through run, kill, resume, pull and down."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.transport import local
from sojourn.core.values import Place, Site
from sojourn.testing.contracts.launcher import Log, SchedulerContract
from tests.box.rig import until
from tests.fakes import sojourn_corral
from tests.person import ROOT, Person, installed

SETTINGS = """
[sites.cluster]
transport = "corral"
launcher = "corral"
base = "{volume}/base"
[sites.cluster.corral]
api = "{api}"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of the test's own."""
    words = [sys.executable, "-m", "tests.fakes.sojourn_corral", str(tmp_path / "cluster")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        api = server.stdout.readline().strip()
        yield api
        place = Place(Site("cluster", options={"corral": {"api": api}}))
        for job in sojourn_corral.ask(place, "GET", "/jobs"):
            sojourn_corral.ask(place, "DELETE", f"/jobs/{job['name']}?grace=0")
        server.kill()


class TestContract(SchedulerContract):
    """What every scheduler promises."""

    @pytest.fixture
    def site(self, cluster: str) -> Site:
        return Site("cluster", options={"corral": {"api": cluster}})

    @pytest.fixture
    def launcher(self, site: Site) -> Any:
        return sojourn_corral.Backend(site)

    @pytest.fixture
    def place(self, site: Site) -> Place:
        return Place(site)

    @pytest.fixture
    def mute(self) -> Place:
        return Place(Site("cluster", options={"corral": {"api": "http://127.0.0.1:9"}}))

    @pytest.fixture
    def transport(self) -> local.Backend:
        return local.Backend()

    @pytest.fixture
    def log(self, place: Place) -> Log:
        line = sojourn_corral.Line(place)
        return lambda root: bytes(line.call(["cat", f"{root}/logs/keeper.log"]).stdout)

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "cluster" / "volume" / "it's a base" / "runs" / "run-1")


@pytest.mark.campaign
@pytest.mark.parametrize("how, state", [("?lose=1", "lost"), ("?grace=0", "killed")])
def test_digits_on_a_cluster_that_has_no_shell(tmp_path: Path, cluster: str, how: str, state: str) -> None:
    package = installed(tmp_path, "corral", launcher="Backend", transport="Line")
    ann = Person(tmp_path, "ann", package, "cluster", SETTINGS.format(volume=tmp_path / "cluster/volume", api=cluster))
    assert ann("plan", "--json")["id"] == "digits"
    ann("run")
    ann.until("running")
    ann.until_saved(tmp_path / "cluster/volume")
    place = Place(Site("cluster", options={"corral": {"api": cluster}}))
    (job,) = sojourn_corral.ask(place, "GET", "/jobs")
    sojourn_corral.ask(place, "DELETE", f"/jobs/{job['name']}{how}")
    assert job["name"] in ann.until("lost", "killed", "preempted")["reason"]
    assert ann.row()["state"] == state
    ann("resume", "digits")
    ann.until("succeeded")
    jobs = sojourn_corral.ask(place, "GET", "/jobs")
    assert [one["phase"] for one in jobs[1:]] in (["running"], ["succeeded"])
    ann("down", "cluster", "--confirm", "cluster", rc=4)
    ann.fetched()
    ann("down", "cluster", "--confirm", "cluster")


@pytest.mark.campaign
def test_cells_are_submitted_one_by_one_where_there_are_no_arrays(tmp_path: Path, cluster: str) -> None:
    package = installed(tmp_path, "corral", launcher="Backend", transport="Line")
    ann = Person(tmp_path, "ann", package, "cluster", SETTINGS.format(volume=tmp_path / "cluster/volume", api=cluster))
    ann.job(epochs=3, more="sweep: {matrix: {rate: [0.1, 0.2, 0.3]}}\n")
    assert "no job arrays" in ann("sweep", "sojourn.yaml", "--slots", "1", rc=2).stderr
    ann("sweep", "sojourn.yaml")
    until(lambda: {row["state"] for row in ann("status", "--json", rc=None)["runs"]} == {"succeeded"}, 90)
    place = Place(Site("cluster", options={"corral": {"api": cluster}}))
    assert [job["phase"] for job in sojourn_corral.ask(place, "GET", "/jobs")] == ["succeeded"] * 3
    ann("sweep", "sojourn.yaml")
    assert len(sojourn_corral.ask(place, "GET", "/jobs")) == 3, "asked for again"
    to = tmp_path / "results"
    ann("pull", "--to", str(to))
    assert len(list(to.rglob("metrics.json"))) == 3
    ann("down", "cluster", "--confirm", "cluster")
