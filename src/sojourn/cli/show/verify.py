"""Artifacts on the screen: how many load, of which types, and every one that does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, count, line
from sojourn.core.artifact import UNKNOWN, Artifact, printable
from sojourn.verbs.retrieve.folders import half_written
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.retrieve.verify import Verified


_ALSO = 4  # files that share a remark and are named


def lines(answer: Verified, columns: int) -> list[str]:
    """The `loaded` line, remarks, and what is wrong with each bad artifact."""
    size_bytes = sum(artifact.bytes for artifact in answer.artifacts)
    out = line("checked", f"{count(len(answer.artifacts), 'file')}  {say_bytes(size_bytes)}", columns)
    if answer.remembered:
        text = f"{count(answer.remembered, 'file')} unchanged since the last check; --fresh reads everything again"
        out += line("skipped", text, columns)
    return out + artifacts(answer.artifacts, columns)


def artifacts(found: Sequence[Artifact], columns: int) -> list[str]:
    """`loaded  14 of 14  (torch_zip 3, json 11)`, then a line for every artifact that is bad, was only read, or is
    known by its bytes alone.
    """
    loaded = [a for a in found if a.state == "loaded"]
    out = line("loaded", f"{len(loaded)} of {len(found)}{_kinds(loaded)}", columns)
    read = [a for a in found if a.state == "content-read"]
    if read:
        how = "to the last value, without building objects"
        out += line("read", f"{len(read)} of {len(found)}{_kinds(read)} {how}", columns)
    told: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for artifact in found:
        path = clean(printable(artifact.path))
        label, remarks = "remark", [clean(remark) for remark in artifact.remarks]
        if artifact.state in ("bad", "unsafe"):
            why = ": ".join(clean(w) for w in (artifact.problem, artifact.detail) if w)
            out += line("bad", f"{path}: {why}", columns)
        elif artifact.state == "bytes-only":
            label, remarks = "bytes", remarks or ["only size and SHA-256 were checked"]
            is_known = artifact.kind != UNKNOWN and "bytes" in artifact.proved
            seen = "size and SHA-256 checked, " if is_known else ""
            remarks = [seen + r if r.startswith("not loaded") else r for r in remarks]
        for remark in remarks:
            told.setdefault((label, re.sub(r"\d+", "#", remark.partition(":")[0])), []).append((path, remark))
    for (label, _), some in told.items():  # one line a kind
        also = ", ".join(path for path, _ in some[1:_ALSO])
        more = f", and {len(some) - _ALSO} more" if len(some) > _ALSO else ""
        out += line(label, f"{some[0][0]}: {some[0][1]}" + (f" (also {also}{more})" if also else ""), columns)
    for said in half_written(found):
        out += line("folder", clean(printable(said)), columns)
    return out


def _kinds(found: Sequence[Artifact]) -> str:
    kinds = Counter(a.kind for a in found)
    return "  (" + ", ".join(f"{clean(kind)} {n}" for kind, n in kinds.most_common()) + ")" if kinds else ""
