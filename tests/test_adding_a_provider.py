"""`docs/adding-a-provider.md` followed to the letter: a package of its own, its contract, and a run on its machine."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.installed import of_page, python

SETTINGS = """
[sites.cloud]
transport = "local"
provider = "slab"
[sites.cloud.slab]
api = "http://127.0.0.1:{port}"
max_price = "0.60 USD/h"
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return of_page(tmp_path / "site", "adding-a-provider.md")


def test_the_pages_provider_passes_the_contract(package: Path) -> None:
    done = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_slab.py", cwd=package)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def stub_of(package: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's own stub of the API, served."""
    monkeypatch.syspath_prepend(str(package))
    spec = importlib.util.spec_from_file_location("page_test_slab", package / "test_slab.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module.serve()


@pytest.mark.campaign
def test_a_run_rents_its_machine_and_gives_it_back_and_nothing_of_ours_was_edited(
    package: Path, tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = stub_of(package, monkeypatch)
    machines = server.RequestHandlerClass.machines
    settings = private_home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS.format(port=server.server_port))
    project = tmp_path / "project"
    project.mkdir()
    job = "name: r\nsite: cloud\nrun: echo 0.5 > out.json\noutputs: [out.json]\nbudget: 1 USD\n"
    (project / "sojourn.yaml").write_text(job)

    def sojourn(*words: str, rc: int = 0) -> str:
        done = python(package, "-m", "sojourn", *words, cwd=project)
        assert done.returncode == rc, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "rent small from slab as cloud, at 0.50 USD an hour" in sojourn("run", rc=4) and not machines
    sojourn("run", "-y", "--follow")
    assert [one["type"] for one in machines.values()] == ["small"]
    assert json.loads(sojourn("leases", "--json"))["leases"][0]["meter"] == "running"
    sojourn("down", "cloud", "--confirm", "cloud", rc=4)
    sojourn("pull", "r")
    sojourn("down", "cloud", "--confirm", "cloud")
    assert not machines
    server.shutdown()
