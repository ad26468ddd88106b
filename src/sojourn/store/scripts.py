"""Scripts with Windows line ends: a shell on the box would read the carriage return as part of the last word."""

from __future__ import annotations

import os

LIMIT_BYTES = 1 << 20  # a script; what is larger is read by nobody line by line
_SHELLS = (".sh", ".bash", ".zsh", ".ksh", ".csh", ".sbatch", ".slurm")


def mended(full: str, size_bytes: int, is_executable: bool) -> bytes | None:
    """The script at `full` with Unix line ends; None where it has them, or is no script. Raises: OSError.

    A script is what is named like one of a shell, and what is executable and begins with `#!`.
    """
    is_shell = os.path.splitext(full)[1].lower() in _SHELLS
    if size_bytes > LIMIT_BYTES or not (is_shell or is_executable):
        return None
    with open(full, "rb") as file:
        if not is_shell and file.read(2) != b"#!":
            return None
        file.seek(0)
        data = file.read(LIMIT_BYTES + 1)
    return None if b"\r\n" not in data or b"\0" in data else data.replace(b"\r\n", b"\n")
