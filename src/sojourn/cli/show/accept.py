"""An acceptance report, and two of them compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sojourn.cli.show import verify
from sojourn.cli.show.text import clean, command, count, line

if TYPE_CHECKING:
    from sojourn.verbs.retrieve.accept import Accepted, Compared


def lines(answer: Accepted, columns: int) -> list[str]:
    """The lines of `verify`, then who accepted it, or that it was refused."""
    out = verify.lines(answer.verified, columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    if not answer.path:
        return out + line("refused", "a file failed verification; no report was written", columns)
    node = answer.document["node"]["name"]
    out += line("accepted", f"by {clean(answer.document['by'])} on {clean(node)}", columns)
    out += line("report", clean(answer.path), columns)
    return [*out, command("next", f"sojourn compare {clean(answer.path)} OTHER-REPORT")]


def compared(answer: Compared, columns: int) -> list[str]:
    """Whether they agree, and every difference."""
    how = "agree on" if not answer.differences else "disagree on"
    nodes = " and ".join(clean(node) for node in answer.nodes)
    out = line("compared", f"{nodes} {how} {count(answer.files, 'file')} of manifest {answer.manifest[:12]}", columns)
    for row in answer.differences:
        a, b = (clean(json.dumps(row[key])[:60]) for key in ("a", "b"))
        out += line("differs", f"{clean(row['path'])}, {clean(row['what'])}: {a} vs. {b}", columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    return out
