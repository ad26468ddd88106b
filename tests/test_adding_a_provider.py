"""`docs/adding-a-provider.md` followed to the letter: a package of its own, its contract, and a run through it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.installed import blocks, of_page, python

SERVE = "import test_puffin; server = test_puffin.serve(); print(server.server_port, flush=True); input()"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return of_page(tmp_path / "site", "adding-a-provider.md")


@pytest.fixture
def api(package: Path) -> Iterator[str]:
    """The page's stub of a cloud, as a program."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(package), *sys.path]))
    words = [sys.executable, "-c", SERVE]
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stub:
        assert stub.stdout is not None
        yield f"http://127.0.0.1:{stub.stdout.readline().strip()}"
        stub.kill()


def machines(api: str) -> list[dict[str, Any]]:
    with urlopen(f"{api}/machines", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def test_the_pages_provider_passes_the_contract(package: Path) -> None:
    done = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_puffin.py", cwd=package)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_a_site_that_names_it_rents_runs_and_releases_and_nothing_of_ours_was_edited(
    package: Path, api: str, tmp_path: Path, private_home: Path
) -> None:
    def sojourn(*words: str, rc: int = 0) -> str:
        done = python(package, "-m", "sojourn", *words, cwd=tmp_path)
        assert done.returncode == rc, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    settings = private_home / ".config" / "sojourn" / "settings.toml"
    settings.parent.mkdir(parents=True)
    # The page's own settings; its machines are this one.
    text = blocks("adding-a-provider.md", "toml")[1]
    settings.write_text(text.replace("https://api.puffin.example", api).replace('"ssh"', '"local"'))
    job = tmp_path / "sojourn.yaml"
    job.write_text("name: r\nrun: echo done > out.txt\noutputs: [out.txt]\nsite: cloud\nbudget: 1 USD\n")
    assert "rents small at 0.50 USD per hour" in " ".join(sojourn("plan").split()) and not machines(api)
    assert "at 0.50 USD per hour" in sojourn("run", rc=4) and not machines(api)
    sojourn("run", "-y")
    sojourn("watch", "r", rc=110)
    (machine,) = machines(api)
    assert machine["name"].startswith("sojourn-") and "cloud" in sojourn("leases")
    sojourn("pull", "r")
    assert "puffin deleted" in sojourn("down", "cloud", "--confirm", "cloud") and not machines(api)
