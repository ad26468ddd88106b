"""The quicker CRC-32 and the standard library's are the same number."""

import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.formats import crc
from sojourn.train.saving import writer

SRC = str(Path(crc.__file__).parent.parent.parent)


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_it_is_what_zlib_says_also_from_a_number_on(data: bytes, begin: int) -> None:
    assert crc.crc32(data) == zlib.crc32(data)
    assert crc.crc32(memoryview(data)[1:], begin) == zlib.crc32(data[1:], begin)


def module_of_crc32(*argv: str) -> str:
    """Where a Python without site-packages, started as the writer is, takes its CRC-32 from."""
    start = writer.START.replace("from sojourn.train.saving.writer import main; main(sys.argv[3:])", "")
    code = start + "from sojourn.formats.crc import crc32; print(crc32.__module__)"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code, *argv], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def test_the_writer_has_the_one_that_the_training_has() -> None:
    assert module_of_crc32(SRC, crc.FOLDER) == crc.crc32.__module__


def test_without_isal_it_is_the_standard_librarys() -> None:
    assert module_of_crc32(SRC, "") == "zlib"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="shown on the client's Python")
def test_the_installed_packages_hold_the_quicker_one() -> None:
    assert crc.crc32.__module__ == "isal.isal_zlib"
