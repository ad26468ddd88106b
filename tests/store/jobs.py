"""A project folder, and its job file read or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.store.job.read import read_job
from sojourn.store.job.tree import BadJobFile
from sojourn.store.job.values import JobFile


def read(folder: Path, text: str | bytes, **env: str) -> JobFile:
    path = folder / "sojourn.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_job(str(path), env)


def refused(folder: Path, text: str | bytes, **env: str) -> list[str]:
    """Every mistake, as line:column: what."""
    with pytest.raises(BadJobFile) as caught:
        read(folder, text, **env)
    error = caught.value
    assert error.exit_status == 2 and "\n" not in error.message
    problems = error.fields["problems"]
    assert error.message.startswith(problems[0])
    return [problem.removeprefix(f"{folder}/sojourn.yaml:") for problem in problems]
