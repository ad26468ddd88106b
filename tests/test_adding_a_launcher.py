"""`docs/adding-a-launcher.md` followed to the letter: a package of its own, its contract, and a run through it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.box.rig import until

SCHEDULER = Path(__file__).resolve().parent / "fakes" / "sojourn_tq.py"
CONTRACT = """
import pytest
from sojourn.backends.transport import local
from sojourn.core.values import Site
from sojourn.testing.contracts.launcher import BatchSystemContract
from sojourn_tq import Backend

class TestTq(BatchSystemContract):
    @pytest.fixture
    def launcher(self, tmp_path):
        return Backend(Site("q", options={"tq": {"queue": str(tmp_path / "its queue")}}))

    @pytest.fixture
    def transport(self):
        return local.Backend()

    @pytest.fixture
    def root(self, tmp_path):
        return str(tmp_path / "it's a base" / "runs" / "run-1")
"""
SWEEP = """
name: s
run: test ${lr} != 1 || test $SOJOURN_ATTEMPT = 2; echo ${lr} > out.txt
outputs: [out.txt]
site: q
sweep: {matrix: {lr: [0, 1, 2]}}
"""
PAGE = Path(__file__).resolve().parent.parent / "docs" / "adding-a-launcher.md"
SOURCE = Path(__file__).resolve().parent.parent / "src"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def installed(folder: Path, name: str, code: str, target: str, tests: str) -> Path:
    """A package with the launcher `name`, as installed."""
    info = folder / f"sojourn_{name}-1.dist-info"
    info.mkdir(parents=True)
    (folder / f"sojourn_{name}.py").write_text(code)
    (folder / f"test_{name}.py").write_text(tests)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sojourn-{name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[sojourn.launcher]\n{name} = {target}\n")
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's launcher, as installed."""
    code, tests = blocks("python")
    (entries,) = blocks("toml")
    name, target = re.search(r'^(\w+) = "(.*)"$', entries, re.M).groups()  # type: ignore[union-attr]
    return installed(tmp_path / "site", name, code, target, tests)


@pytest.fixture
def scheduler(tmp_path: Path) -> Path:
    """A launcher that schedules, as installed."""
    return installed(tmp_path / "site", "tq", SCHEDULER.read_text(), "sojourn_tq:Backend", CONTRACT)


def python(package: Path, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(package), str(SOURCE)]))
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.campaign
def test_the_pages_launcher_passes_the_contract(package: Path, tmp_path: Path) -> None:
    done = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_nohup.py", cwd=package)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_a_site_that_names_it_runs_with_it_and_nothing_of_ours_was_edited(
    package: Path, tmp_path: Path, private_home: Path
) -> None:
    settings = private_home / ".config" / "sojourn" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sites.mine]\nlauncher = "nohup"\n[sites.mine.nohup]\nanything = 1\n')
    (tmp_path / "sojourn.yaml").write_text("name: r\nrun: echo done > out.txt\noutputs: [out.txt]\nsite: mine\n")
    done = python(package, "-m", "sojourn", "run", "--follow", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    journal = next((private_home / ".local" / "state" / "sojourn").glob("journal*.jsonl")).read_text()
    assert '"launcher":"nohup"' in journal.replace(" ", "")
    assert python(package, "-m", "sojourn", "pull", "r", cwd=tmp_path).returncode == 0


@pytest.mark.campaign
def test_a_scheduler_of_another_package_passes_its_contract(scheduler: Path) -> None:
    done = python(scheduler, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tq.py", cwd=scheduler)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.campaign
def test_runs_and_sweeps_go_through_its_queue_and_nothing_of_ours_was_edited(
    scheduler: Path, tmp_path: Path, private_home: Path
) -> None:
    def sojourn(*words: str) -> "subprocess.CompletedProcess[str]":
        return python(scheduler, "-m", "sojourn", *words, cwd=tmp_path)

    settings = private_home / ".config" / "sojourn" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sites.q]\nlauncher = "tq"\n[sites.q.tq]\nqueue = "{tmp_path}/queue"\nslots = 1\n')
    job = tmp_path / "sojourn.yaml"
    first = "touch %s/on; until [ -e %s/gate ]; do sleep 0.1; done" % (tmp_path, tmp_path)
    job.write_text("name: first\nrun: %s\nsite: q\n" % first)
    assert "exec " in sojourn("run", "--dry-run").stdout
    assert sojourn("run").returncode == 0
    until((tmp_path / "on").exists)  # before the others queue up for its slot
    job.write_text(SWEEP)
    done = sojourn("sweep", "--slots", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all slots are taken (tq job" in sojourn("status").stdout
    (tmp_path / "gate").touch()
    sojourn("watch", "s")
    repaired = sojourn("reconcile", "s", "--repair")
    assert "s-lr1" in repaired.stdout, repaired.stdout + repaired.stderr
    sojourn("watch", "s")
    done = sojourn("pull", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sojourn("reconcile", "s").returncode == 0
