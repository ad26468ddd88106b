"""Reading an evidence document, as tests want it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any


def text(evidence: dict[str, Any], name: str) -> str:
    """What the one probe of that name said; a name with `*` in front is an end."""
    probes = evidence["probes"]
    names = [one for one in probes if one == name or (name.startswith("*") and one.endswith(name[1:]))]
    assert len(names) == 1, (name, sorted(probes))
    said: str = probes[names[0]]["stdout"]
    return said


def row_of(evidence: dict[str, Any], name: str, point: Path) -> list[str]:
    """The words of the line of `df` for one mount."""
    return next(line.split() for line in text(evidence, name).splitlines() if line.endswith(" %s" % point))


def kernel_lines(evidence: dict[str, Any]) -> list[str]:
    """Lines of the kernel's log since the launch."""
    since = evidence["launch"]["kmsg_s"]
    rows = [re.match(r"\[ *(\d+\.\d+)\] (.*)", line) for line in text(evidence, "dmesg").splitlines()]
    return [row.group(2) for row in rows if row and float(row.group(1)) > since]


def tree(evidence: dict[str, Any]) -> list[dict[str, str]]:
    """Rows of the process tree."""
    head, *rows = text(evidence, "process tree").splitlines()
    return [dict(zip(head.split(), row.split())) for row in rows]


def python(code: str) -> str:
    """A line of bash that runs Python."""
    return "exec %s -c '%s'" % (sys.executable, code)
