"""A box for every test that asks for one."""

import sys
from pathlib import Path
from typing import Iterator

import pytest

from tests.box.rig import Rig

# It judges too, which only the client does.
collect_ignore = ["test_faults_of_verdicts.py"] if sys.version_info < (3, 11) else []


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A box in a folder with an awkward name; everything on it is ended afterwards."""
    box = Rig(tmp_path)
    yield box
    box.close()
