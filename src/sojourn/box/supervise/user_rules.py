"""The user's own rules for the log of an attempt that ended badly: the first that matches says what follows.

A rule is {"name","pattern","action"}; `pattern` is searched in single lines. The search is bounded, since a regular
expression may run for ever; then no rule matches.
"""

from __future__ import annotations

import functools
import re
import signal

from sojourn.box.run import secrets
from sojourn.box.run.root import Root
from sojourn.box.supervise.keeper import Keeper
from sojourn.wire.mask import Mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

STATES = frozenset(("failed", "killed", "oom", "lost"))
_LOOK_S = 20.0
_PIECE = 1 << 20
_LINE = 300  # of the line that are kept


def settle(keeper: Keeper) -> str:
    """The action for the last attempt's end: retry, fail, exclude-site, or "" if no rule matches. Recorded once, as the
    event `ruled`, for later keepers to follow."""
    history, rules = keeper.ledger.history, keeper.spec.get("rules")
    if not rules or history.state not in STATES:
        return ""
    if not history.ruled:
        keeper.ledger.note("ruled", history.attempt, **_judged(keeper.root, history.attempt, rules))
    return str(history.ruled.get("action") or "")


def _judged(root: Root, attempt: int, rules: List[Dict[str, Any]]) -> Dict[str, Any]:
    from sojourn.box.system import bounded

    act = functools.partial(_first, root, attempt, rules)
    try:
        answer = bounded.ask([bounded.Question("rules", act, _LOOK_S)])["rules"]
    except OSError as error:
        return {"rule": "", "number": 0, "action": "", "detail": str(error)}
    if answer.why or not answer.value:
        return {"rule": "", "number": 0, "action": "", "detail": answer.detail}
    number, line = answer.value
    rule = rules[number - 1]
    return {"rule": str(rule.get("name")), "number": number, "action": str(rule.get("action")), "line": line}


def _first(root: Root, attempt: int, rules: List[Dict[str, Any]]) -> Tuple[int, str] | None:
    """In a child: (number of the first matching rule, from 1, and the matching line), or None."""
    signal.alarm(int(2 * _LOOK_S))  # it holds our locks, and must not outlive us by much
    wanted = [(number, re.compile(str(rule["pattern"]))) for number, rule in enumerate(rules, 1) if _reads(rule)]
    hide = Mask(secrets.read_secrets(root))
    best: Tuple[int, str] | None = None
    for text in _pieces(root.log(attempt)):
        for number, pattern in wanted:
            if best is not None and number >= best[0]:
                break
            line = next((line for line in text.split("\n") if pattern.search(line)), None)
            if line is not None:
                best = (number, hide.over_text(line.strip())[:_LINE])
    return best


def _reads(rule: Dict[str, Any]) -> bool:
    """Whether this Python accepts the pattern; one in a later Python's grammar matches nothing here."""
    try:
        re.compile(str(rule["pattern"]))
    except (re.error, KeyError):
        return False
    return True


def _pieces(path: str) -> Any:
    """The log in whole lines, the rotated part first."""
    for name in (path + ".1", path):
        try:
            with open(name, "rb") as f:
                rest = b""
                while True:
                    data = f.read(_PIECE)
                    if not data:
                        break
                    cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 or len(data)
                    yield _text(rest + data[:cut])
                    rest = data[cut:]
                if rest:
                    yield _text(rest)
        except OSError:
            continue


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r", "\n")
