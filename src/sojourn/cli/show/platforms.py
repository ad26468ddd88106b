"""Platforms on the screen: the list, one platform's page, outdated facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.text import clean, command, count, cut, fold, line, pad, table, width

if TYPE_CHECKING:
    from sojourn.verbs.explain.platforms import Listed, PlatformPage, Stale

_SSH = (("way", ""), ("user", "user"), ("scp", "scp"), ("host_stays", "host stays"), ("port_stays", "port stays"))
_PAIRS = {
    "interruption": (("model", ""), ("signal", "signal"), ("grace_s", "grace in seconds"), ("seen_as", "seen as"))
    + (("goes_on", "continues by"),),
    "storage": (("shared", "shared"), ("inodes", "inodes")),
    "traffic": (("out", "out"), ("into", "in"), ("note", "note:")),
    "price": (("bills", "bills while it exists:"), ("read_by", "read by")),
    "detach": (("by", ""), ("else", "or"), ("survives", "survives"), ("dies_on", "dies on")),
    "network": (("proxy", "proxy"), ("mirror", "mirror")),
    "ssh": (*_SSH, ("keys", "keys"), ("note", "note:")),
    "credentials": (("env", "variable"), ("file", "file"), ("box", "on the box")),
    "ports": (("tensorboard", "tensorboard"), ("jupyter", "jupyter"), ("others", "others")),
    "api": (("base", ""), ("auth", "auth"), ("same_twice", "same call twice is harmless"), ("rate", "rate"))
    + (("client", "client"), ("note", "note:")),
}
_LABELS = {"interruption": "cut off", "credentials": "secrets"}
_SILENT = ("none", "does not apply", "")


def listed(answer: Listed, columns: int) -> list[str]:
    """One entry per platform: its name, what stops its billing, how old the oldest money or storage fact is."""
    wide = max(len(card.platform) for card in answer.cards)
    out = []
    for card in answer.cards:
        out += _hanging(f"{pad(card.platform, wide)}  ", clean(_called(card.title, card.names)), columns)
        final = "final" if card.is_final else "not final"
        out += _hanging(" " * (wide + 2), f"stop: {clean(card.stop_verb)}; {final}; checked {card.oldest}", columns)
    return [*out, command("next", "sojourn platforms show NAME")]


def page(answer: PlatformPage, columns: int) -> list[str]:
    """The page of one platform: the meter first, then what survives, the clocks, and how to work there."""
    whole = answer.document
    called = clean(_called(whole["title"], whole.get("names", ())))
    out = line("platform", f"{answer.platform}: {called}", columns)
    if whole.get("kind"):
        out += line("kind", f"{clean(whole['kind'])}; controlled by {clean(whole['control'])}", columns)
    stop = whole["stop"]
    final = "final: deletes what is on the box" if stop["is_final"]["is"] else "not final: see what it keeps"
    out += line("stop", f"{clean(stop['verb']['is'])} ({final}) [{stop['verb']['verified']}]", columns)
    if "from_inside" in stop and stop["from_inside"]["is"] not in _SILENT:
        out += line("", f"from inside: {clean(stop['from_inside']['is'])}", columns)
    if "keeping" in stop:
        out += line("", f"to keep a disk: {clean(stop['keeping']['is'])} [{stop['keeping']['verified']}]", columns)
    if whole.get("tier"):
        out += ["", *_survival(whole["tier"], columns)]
    for row in whole.get("verb", ()):
        says = f"stops compute: {row['ends_compute']}; keeps {clean(row['keeps'])}; still bills {clean(row['bills'])}"
        note = f"; {clean(row['note'])}" if row.get("note") else ""
        out += ["", *line("verb", f"{clean(row['name'])} [{row['verified']}]", columns)]
        out += line("", f"{says}; reversible: {row['undo']}{note}", columns)
    out.append("")
    for row in whole.get("clock", ()):
        seen = f"; readable: {clean(row['readable'])}" if row.get("readable", "no") not in ("no", *_SILENT) else ""
        says = f"{clean(row['what'])}: {clean(row['at'])}; loses {clean(row['loses'])}{seen} [{row['verified']}]"
        out += line("clock", says, columns)
    for part, pairs in _PAIRS.items():
        if part in whole:
            out += _pairs(part, whole[part], pairs, answer, columns)
    places = {k: v for k, v in whole.get("overrides", {}).items() if k not in ("source", "verified") and v}
    for number, (key, value) in enumerate(places.items()):
        out += line("settings" if not number else "", f"{key} = {clean(value)}", columns)
    for label, key in (("quirk", "quirks"), ("conflict", "conflicts"), ("unknown", "open")):
        for number, text in enumerate(whole.get(key, ())):
            out += line(label if not number else "", clean(text), columns)
    for number, source in enumerate(_sources(whole)):
        out += line("sources" if not number else "", clean(source), columns)
    return out


def stale(answer: Stale, columns: int) -> list[str]:
    """By month, oldest first; facts about money, storage or interruption come first."""
    if not answer.facts:
        return line("ok", f"every fact was checked in the {answer.months} months before {answer.at}", columns)
    out: list[str] = []
    for fact in answer.facts:
        grave = "" if fact.is_grave else "  (not about money or storage)"
        out += line(fact.verified, f"{fact.platform}  {clean(fact.where)}{grave}", columns)
        out += line("", clean(fact.says), columns)
    grave_ones = sum(fact.is_grave for fact in answer.facts)
    told = f"{count(len(answer.facts), 'fact')} not checked in the {answer.months} months before {answer.at}"
    return [*out, *line("stale", f"{told}; {grave_ones} about money, storage or interruption", columns)]


def _survival(tiers: Iterable[Mapping[str, Any]], columns: int) -> list[str]:
    rows = [
        (cut(clean(row["name"]), 28), _cell(row["stop"]), _cell(row["destroy"]), clean(row["path"])) for row in tiers
    ]
    wide = max(width(row[0]) for row in rows)
    room = max(10, columns - max(8, wide) - 22)
    out = table(("SURVIVES", "STOP", "DESTROY", "WHERE"), [(*row[:3], cut(row[3], room)) for row in rows], columns)
    for row in tiers:
        note = f"; {clean(row['note'])}" if row.get("note") else ""
        out += _hanging(" " * 2, f"{clean(row['name'])}: {clean(row['size'])}{note} [{row['verified']}]", columns)
    return out


def _cell(told: str) -> str:
    return "n/a" if told == "does not apply" else told


def _pairs(
    part: str, data: Mapping[str, Any], pairs: Iterable[tuple[str, str]], answer: PlatformPage, columns: int
) -> list[str]:
    """`label  value; word value; ...`, without empty values."""
    values = {key: value["is"] if isinstance(value, dict) else value for key, value in data.items()}
    said = [
        f"{word} {clean(values[key])}".strip()
        for key, word in pairs
        if key in values and (str(values[key]) not in _SILENT or key in ("model", "way"))
    ]
    if all(part.split(" ")[-1] == "unknown" for part in said):
        said = ["unknown"] if said else []
    above = f" (as {answer.own['extends']})" if part not in answer.own and "extends" in answer.own else ""
    return line(_LABELS.get(part, part), "; ".join(said) + above, columns) if said else []


def _sources(whole: Mapping[str, Any]) -> list[str]:
    """Every source once, with the month of its latest check."""
    seen: dict[str, str] = {}
    for value in whole.values():
        rows = value if isinstance(value, list) else [value, *value.values()] if isinstance(value, dict) else []
        for row in rows:
            if isinstance(row, dict) and isinstance(row.get("source"), str):
                for source in row["source"].split("; "):
                    seen[source] = max(row["verified"], seen.get(source, ""))
    return [f"{source} [{month}]" for source, month in sorted(seen.items())]


def _called(title: str, names: Iterable[str]) -> str:
    """The title, and other common names not contained in it."""
    others = [name for name in names if name.lower() not in title.lower()]
    return title + (f" ({', '.join(others)})" if others else "")


def _hanging(left: str, text: str, columns: int) -> list[str]:
    """`left` and the text after it, folded below itself."""
    gap = " " * width(left)
    return [(left if not i else gap) + part for i, part in enumerate(fold(text, columns - width(left)))]
