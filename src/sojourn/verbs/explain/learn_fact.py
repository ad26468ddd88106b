"""`learn --platform`: one fact of a platform, looked at anew, as a patch of its file. Edits nothing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from sojourn.store.platforms import FACTS, GRAVE, document, faults, named, own, text_of
from sojourn.verbs.explain.learn import Learned, NotGrounded
from sojourn.verbs.explain.specimen import Hide, changed, repository_path, toml
from sojourn.wire.errors import Misuse


def fact(
    platform: str, where: str, says: str, source: str, *, month: str = "", environ: Mapping[str, str] | None = None
) -> Learned:
    """`where` is a table and a key, `traffic.out` or `stop.verb`; `source` is where it was read, or how it was seen.

    Raises: UnknownPlatform, Misuse (no such fact), NotGrounded (no source, or nothing new).
    """
    import tomllib

    name = named(platform)
    part, dot, key = where.partition(".")
    if part not in FACTS or not dot or not re.fullmatch(r"[a-z_]+", key):
        tables = ", ".join(FACTS)
        raise Misuse(detail=f"{where!r} is not a fact; write TABLE.KEY, with a table of {tables}")
    hide = Hide(os.environ if environ is None else environ)
    says, source = hide.text(says.strip()), hide.text(source.strip())
    month = month or time.strftime("%Y-%m", time.gmtime())
    known = document(name).get(part, {}).get(key, {})
    lacks = [] if says else ["--is TEXT: the value of the fact, or `unknown`"]
    lacks += [] if len(source) > 7 else ["--source TEXT: the page that documents it, or how and when it was observed"]
    if (known.get("is"), known.get("source"), known.get("verified")) == (says, source, month):
        lacks.append("it already says so, checked in the same month")
    if lacks:
        raise NotGrounded(count=f"{len(lacks)} thing{'' if len(lacks) == 1 else 's'}", lines=lacks)
    value: object = says
    if isinstance(known.get("is"), bool):
        if says not in ("true", "false"):
            raise Misuse(detail=f"{where} is true or false")
        value = says == "true"
    line = f"{key} = {{ is = {toml(value)}, source = {toml(source)}, verified = {toml(month)} }}"
    old = text_of(name)
    new = _with(old, part, key, line)
    wrong = faults(tomllib.loads(new))
    if wrong:
        raise NotGrounded(count=f"{len(wrong)} thing{'' if len(wrong) == 1 else 's'}", lines=wrong)
    was = f"before: {known['is']} ({known['verified']})" if known else "no value before"
    grave = "; it concerns money, storage or interruption: check twice" if part in GRAVE else ""
    inherited = "" if key in own(name).get(part, {}) or not known else ", inherited from the platform it extends"
    path = repository_path(f"platforms/{name}.toml")
    return Learned("patch", changed(path, old, new), (was + inherited + grave, "then make test"))


def _with(text: str, part: str, key: str, line: str) -> str:
    """The file with this line in this table: in the place of the key's old one, else at the table's end."""
    lines = text.splitlines()
    head = f"[{part}]"
    if head not in lines:
        return text.rstrip("\n") + f"\n\n{head}\n{line}\n"
    start = lines.index(head)
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("[")), len(lines))
    for i in range(start + 1, end):
        if re.match(rf"{re.escape(key)} *=", lines[i]):
            lines[i] = line
            return "\n".join(lines) + "\n"
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return "\n".join([*lines[:end], line, *lines[end:]]) + "\n"
