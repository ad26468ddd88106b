"""Scripts with Windows line ends: a shell on the box would read the carriage return as part of the last word."""

from __future__ import annotations

import os

LIMIT_BYTES = 1 << 20  # of a script; nothing reads a larger file line by line
_SHELLS = (".sh", ".bash", ".zsh", ".ksh", ".csh", ".sbatch", ".slurm")


def mended(full: str, size_bytes: int, is_executable: bool) -> bytes | None:
    """The script at `full` with Unix line ends; None if it has them already, or is not a script. Raises: OSError.

    A script has a shell script's name, or is executable and begins with `#!`.
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
