"""Fixtures of the laboratory, for every test that is marked `lab`. A test file takes them by `pytest_plugins`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import lab as laboratory
from tests.lab.lab import Box, Lab

BOXES = 3


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The boxes, up for the whole session; whatever a killed session left behind is cleared away first."""
    why_not = laboratory.missing()
    if why_not:
        pytest.skip(why_not)
    with laboratory.locked():
        laboratory.boxes("down")
        laboratory.boxes("up", str(BOXES))
        try:
            yield Lab(tuple(Box(n + 1) for n in range(BOXES)))
        finally:
            laboratory.boxes("down")


@pytest.fixture
def inside(lab: Lab) -> Iterator[Lab]:
    """The test, and all it starts, sees nothing but the boxes; they are whole again afterwards."""
    with laboratory.client_namespace():
        yield lab
    for box in lab.boxes:
        box.heal()


@pytest.fixture
def box(inside: Lab) -> Box:
    """The first box, at `box1` of the laboratory's ssh settings."""
    return inside.boxes[0]


@pytest.fixture
def ssh_config(inside: Lab, shared_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings for `ssh -F` with the aliases box1 to box3, this test's own to change; SOJOURN_SSH_CONFIG points
    to it.
    """
    path = tmp_path / "ssh_config"
    text = (inside.folder / "ssh_config").read_text()
    key = f"  User root\n  IdentityFile {inside.folder}/key\n  IdentitiesOnly yes\n"
    text += f"Host 127.0.0.1 10.213.0.*\n{key}  UserKnownHostsFile {inside.folder}/known_hosts\n"
    text += "  StrictHostKeyChecking accept-new\n"
    path.write_text(text.replace(str(inside.folder / "known_hosts"), str(tmp_path / "known_hosts")))
    monkeypatch.setenv("SOJOURN_SSH_CONFIG", str(path))
    return path


@pytest.fixture
def shared_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the test's own for the sockets of shared connections; they are hung up afterwards."""
    from sojourn.backends.ssh import share as ssh_share

    with tempfile.TemporaryDirectory(prefix="sj-") as folder:  # short: a socket's path is limited
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder) / "sojourn"
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        ssh_share.hang_up_all()
