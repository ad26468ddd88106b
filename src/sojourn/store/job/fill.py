"""`${NAME}` in a job file: declared names are replaced, a near miss is an error, the rest is left to the shell.

In shell texts (run, setup, smoke) a value with characters special to the shell is left for the shell to fill in: every
declared name is an environment variable of the run, so quotes work as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

OWN = (
    "SOJOURN_RUN_ID",
    "SOJOURN_ATTEMPT",
    "SOJOURN_TOKEN",
    "SOJOURN_RUN_DIR",
    "SOJOURN_CHECKPOINT_DIR",
    "SOJOURN_SCRATCH_DIR",
    "SOJOURN_PROGRESS",
    "SOJOURN_NODE_RANK",
    "SOJOURN_NODE_IPS",
)
# Set by every shell or login; never a misspelling of our names.
_STANDARD = frozenset("HOME HOSTNAME LANG LOGNAME MAIL OLDPWD PATH PWD SHELL TERM TMPDIR TZ UID USER".split())
# `$$` is the shell's own number and `\$` its escape.
_BRACED = re.compile(r"(?<![\\$])\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# NAME=..., `for NAME in`, `read NAME`
_SET = re.compile(r"(?:^|[\s;&|(])(?:([A-Za-z_]\w*)\+?=|(?:for|read(?:\s+-\w+)*)\s+([A-Za-z_]\w*))", re.M)
_HARMLESS = re.compile(r"[A-Za-z0-9_./:=@%+, -]*")


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` of a field that no shell reads, with declared names replaced."""
    return _BRACED.sub(lambda hit: values.get(hit.group(1), hit.group(0)), text)


def fill_shell(text: str, values: Mapping[str, str]) -> str:
    """`text` for the shell, replacing declared names whose values mean the same in any quotes."""

    def value(hit: re.Match[str]) -> str:
        known = values.get(hit.group(1))
        return hit.group(0) if known is None or not _HARMLESS.fullmatch(known) else known

    return _BRACED.sub(value, text)


def undeclared(text: str, declared: Iterable[str]) -> list[tuple[int, str]]:
    """(offset, name) of every undeclared `${NAME}` in `text`, in order."""
    known = set(declared)
    return [(hit.start(), hit.group(1)) for hit in _BRACED.finditer(text) if hit.group(1) not in known]


def near_misses(text: str, declared: Iterable[str]) -> list[tuple[int, str, str]]:
    """(offset, name, nearest declared name) of every `${NAME}` that looks like a misspelled declared name.

    Names that the text itself sets, and every shell's own, do not count.
    """
    known = [*declared, *OWN]
    excused = _STANDARD | {hit.group(1) or hit.group(2) for hit in _SET.finditer(text)}
    out = []
    for offset, name in undeclared(text, known):
        near = next((other for other in known if _is_near(name, other)), "")
        if near and name not in excused:
            out.append((offset, name, near))
    return out


def _is_near(name: str, other: str) -> bool:
    """Equal but for case, one letter added, one missing, two swapped, or (in longer names) one wrong."""
    a, b = name.lower(), other.lower()
    if a == b:
        return True
    if min(len(a), len(b)) < 2 or abs(len(a) - len(b)) > 1:
        return False
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    if len(a) != len(b):
        longer, shorter = (a, b) if len(a) > len(b) else (b, a)
        return longer[same + 1 :] == shorter[same:]
    if a[same + 2 :] == b[same + 2 :] and a[same : same + 2] == b[same : same + 2][::-1]:
        return True
    return len(a) >= 4 and a[same + 1 :] == b[same + 1 :]
