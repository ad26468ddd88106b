"""The page of every observation that gotchas are judged by, made from `diagnose.vocabulary`: `help observations`."""

from __future__ import annotations

from sojourn.diagnose.facts import table
from sojourn.diagnose.vocabulary import observations


def unit_of(name: str) -> str:
    """The unit of an observation, "" for an unknown name or one without a unit."""
    known = observations().get(name)
    return known.unit if known else ""


def text() -> str:
    """The whole page: what an evidence file may hold, then every observation by family, then the probes we read."""
    lines = [
        "# Observations",
        "",
        "Generated from the code; to change it, change `diagnose/vocabulary.py`.",
        "",
        "Gotchas are judged by observations. In an evidence file (`sojourn/evidence/v1`) they stand under `facts`, or",
        "are read from the raw texts under `probes`; raw text wins. An absent observation is unknown; `null` means",
        "looked for and not there (only where the type has a `?`). A share is between 0 and 1.",
        "",
        "| observation | type | unit | probe | how |",
        "| --- | --- | --- | --- | --- |",
    ]
    for known in observations().values():
        kind = known.type + ("?" if known.may_be_null else "")
        how = known.how.replace("|", "\\|")
        lines.append(f"| `{known.name}` | {kind} | {known.unit} | {known.probe} | {how} |")
    lines += [
        "",
        "## Probes that are read",
        "",
        "A probe is known by its name (a path, a command, a short word), and some by how their text begins.",
        "",
        "| the name matches | or the text |",
        "| --- | --- |",
    ]
    for reader in table.readers():
        cells = [f"`{regex}`".replace("|", "\\|") if regex else "" for regex in (reader.named, reader.begins)]
        lines.append(f"| {cells[0]} | {cells[1]} |".replace("\n", "\\n"))
    return "\n".join(lines) + "\n"
