"""Artifacts on the screen: how many load, of which kinds, and every one that does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.text import clean, count, line
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.verify import Verified


def lines(answer: Verified, columns: int) -> list[str]:
    """The `loaded` line, remarks, and what is wrong with each bad artifact."""
    size_bytes = sum(artifact.get("bytes") or 0 for artifact in answer.artifacts)
    out = line("checked", f"{count(len(answer.artifacts), 'file')}  {say_bytes(size_bytes)}", columns)
    if answer.remembered:
        text = f"{count(answer.remembered, 'file')} unchanged since it was proven; --fresh reads all again"
        out += line("known", text, columns)
    return out + artifacts(answer.artifacts, columns)


def artifacts(found: Sequence[Mapping[str, Any]], columns: int) -> list[str]:
    """`loaded  14 of 14  (torch_zip 3, json 11)`, then a line for all that is bad or only known by its bytes."""
    loaded = [a for a in found if a["ok"] and "load" in a["proved"]]
    kinds = Counter(str(a["kind"]) for a in loaded)
    named = "  (" + ", ".join(f"{clean(kind)} {n}" for kind, n in kinds.most_common()) + ")" if kinds else ""
    out = line("loaded", f"{len(loaded)} of {len(found)}{named}", columns)
    for artifact in found:
        path = clean(artifact["path"])
        label, remarks = "remark", [clean(remark) for remark in artifact["remarks"]]
        if not artifact["ok"]:
            why = ": ".join(clean(w) for w in (artifact["problem"], artifact["detail"]) if w)
            out += line("bad", f"{path}: {why}", columns)
        elif "load" not in artifact["proved"]:
            label, remarks = "bytes", remarks or ["only its bytes are proven"]
        for remark in remarks:
            out += line(label, f"{path}: {remark}", columns)
    return out
