"""A box for every test that asks for one."""

from pathlib import Path
from typing import Iterator

import pytest

from tests.box.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A box in a folder with an awkward name; everything on it is ended afterwards."""
    box = Rig(tmp_path)
    yield box
    box.close()
