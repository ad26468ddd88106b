"""Evidence as it may be shown to others: only what decides, and no secret; and texts of patches."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from sojourn.core.gotcha import Gotcha
from sojourn.diagnose import grammar
from sojourn.wire.mask import Mask

KEPT_LINES = 40  # of each text around what a pattern found, and at its end

_SECRET_NAME = re.compile(r"(?i)token|secret|passw|credential|(?:^|_)key$|api_?key")
# Forms in which well-known services give their keys, and in which programs print passwords.
_SECRET = re.compile(
    r"hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}"
    r"|xox[abps]-[\w-]{10,}|rpa_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+"
    r"|(?<=[Bb]earer )[\w.~+/-]{12,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|\b[0-9a-f]{40}\b"
    r"|(?i:(?<=password=)|(?<=passwd=)|(?<=token=)|(?<=secret=)|(?<=api_key=)|(?<=password: ))[^\s&'\"]{4,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)


class Hide:
    """Takes secrets out of texts: values of variables that are named like secrets, and what looks like a key.

    The home folder of `environ` becomes `~`. Idempotent.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._mask = Mask({name: value for name, value in environ.items() if _SECRET_NAME.search(name)})
        self._home = environ.get("HOME", "").rstrip("/")

    def text(self, text: str) -> str:
        """`text` without them."""
        text = _SECRET.sub("***", self._mask.over_text(text) if self._mask else text)
        return text.replace(self._home + "/", "~/") if len(self._home) > 1 else text

    def document(self, value: Any) -> Any:
        """A JSON value with every text in it so treated; what is kept under a secret's name is gone altogether."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.document(one) for one in value]
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): "***"
                if isinstance(one, str) and _SECRET_NAME.search(str(key))
                else self.document(one)
                for key, one in value.items()
            }
        return value


def kept(document: Mapping[str, Any], gotcha: Gotcha) -> dict[str, Any]:
    """The document with the facts that the gotcha's conditions name, and of each text the lines that matter."""
    named = {
        name
        for condition in (*gotcha.confirm, *gotcha.refute, *gotcha.weak)
        for predicate in grammar.parse(condition)
        for name in (predicate.what, predicate.other)
        if name
    }
    regexes = [re.compile(one.regex, re.I) for one in gotcha.patterns]
    out = {key: value for key, value in document.items() if key not in ("facts", "probes")}
    facts = {key: value for key, value in (document.get("facts") or {}).items() if key in named}
    if facts:
        out["facts"] = facts
    if document.get("probes"):
        out["probes"] = {name: _probe(told, regexes) for name, told in document["probes"].items()}
    return out


def without(document: Mapping[str, Any], gotcha: Gotcha) -> dict[str, Any]:
    """The same case without what decides: no line that a pattern matches, no fact that a condition names."""
    out = {key: value for key, value in document.items() if key != "facts"}
    told = json.dumps([*gotcha.confirm, *gotcha.refute, *gotcha.weak])
    facts = {key: value for key, value in (document.get("facts") or {}).items() if key not in told}
    if facts:
        out["facts"] = facts
    if document.get("probes"):
        regexes = [re.compile(one.regex, re.I) for one in gotcha.patterns]
        out["probes"] = {
            name: {key: _quiet(value, regexes) for key, value in probe.items()}
            if isinstance(probe, Mapping)
            else _quiet(probe, regexes)
            for name, probe in document["probes"].items()
        }
    return out


def pattern(line: str) -> str:
    """A regex for lines like this one: its words stay, numbers, addresses, paths and quoted names may differ."""
    parts = []
    for piece in re.split(r"(0x[0-9a-fA-F]+|(?<!\w)/[^\s'\",:]+|'[^']{1,80}'|\d+(?:\.\d+)*)", line[:300]):
        if re.fullmatch(r"0x[0-9a-fA-F]+", piece):
            parts.append("0x[0-9a-f]+")
        elif re.fullmatch(r"/[^\s'\",:]+", piece):
            parts.append(r"\S+")
        elif re.fullmatch(r"'[^']*'", piece):
            parts.append("'[^']*'")
        elif re.fullmatch(r"\d+(?:\.\d+)*", piece):
            parts.append(r"[\d.]+")
        else:
            parts.append(re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", piece))
    return "".join(parts).strip()


def toml(value: Any) -> str:
    """A value as TOML: a text with backslashes as a literal one where it can be."""
    if isinstance(value, str) and "\\" in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def added(name: str, text: str) -> str:
    """A patch that makes this file, as `git apply` takes it."""
    lines = text.splitlines()
    head = (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n"
    )
    return head + "".join(f"+{line}\n" for line in lines)


def changed(name: str, old: str, new: str) -> str:
    """A patch that changes this file, as `git apply` takes it. Both texts end with a newline."""
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}"))


def repository_path(name: str) -> str:
    """Where a data file lies in the repository."""
    return os.path.join("src/sojourn/data", name)


def _probe(told: Any, regexes: list[re.Pattern[str]]) -> Any:
    if isinstance(told, str):
        return _lines(told, regexes)
    if not isinstance(told, Mapping):
        return told
    return {key: _lines(one, regexes) if key in ("stdout", "stderr") else one for key, one in told.items()}


def _lines(text: Any, regexes: list[re.Pattern[str]]) -> Any:
    if not isinstance(text, str):
        return text
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(lines) <= 2 * KEPT_LINES:
        return text
    hit = next((i for i, line in enumerate(lines) if any(regex.search(line) for regex in regexes)), len(lines))
    wanted = {*range(max(0, hit - KEPT_LINES // 2), hit + 3), *range(len(lines) - KEPT_LINES, len(lines))}
    return "\n".join(line for i, line in enumerate(lines) if i in wanted)


def _quiet(text: Any, regexes: list[re.Pattern[str]]) -> Any:
    if not isinstance(text, str):
        return text
    return "\n".join(line for line in text.split("\n") if not any(regex.search(line) for regex in regexes))
