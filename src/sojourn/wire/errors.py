"""The base error and its four families. Every code is listed in docs/errors.md (generated from code)."""

from __future__ import annotations

from typing import Any, ClassVar, Dict


class SojournError(Exception):
    """{detail}"""

    # The docstring of a subclass is its message; keyword fields fill the braces. A missing field would hide the
    # message, so `__init__` checks by formatting at once.

    code: ClassVar[str] = "error"  # stable and greppable; listed in docs/errors.md
    exit_status: ClassVar[int] = 70  # from the table in docs/json.md
    retry: ClassVar[bool] = False  # would the same call, later, be reasonable?
    next_step: ClassVar[str] = ""  # the next command; filled from the same fields

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.message = " ".join((type(self).__doc__ or "").format(**fields).split())
        self.next = type(self).next_step.format(**fields)
        super().__init__(self.message)

    def as_json(self) -> Dict[str, Any]:
        """The typed error line of docs/json.md: {"kind","code","exit","message","next"}."""
        return {
            "kind": "error",
            "code": self.code,
            "exit": self.exit_status,
            "message": self.message,
            "next": self.next,
        }


class Misuse(SojournError):
    """{detail}"""

    # Your input is wrong: say what, where (file:line:column), and the nearest valid thing.
    code = "misuse"
    exit_status = 2


class WorldError(SojournError):
    """{detail}"""

    # The other side answered with an error.
    code = "world"
    exit_status = 5


class Unreachable(WorldError):
    """Cannot reach {site}: {detail}. The state of its runs is unknown."""

    code = "unreachable"
    exit_status = 3
    retry = True


class Refusal(SojournError):
    """{detail}"""

    # We will not do it; says what is missing.
    code = "refused"
    exit_status = 4


class BadResult(SojournError):
    """{detail}"""

    # Done, and the answer is bad: a run failed, an artifact does not load, something is missing.
    code = "bad-result"
    exit_status = 1


class Defect(SojournError):
    """{detail}"""

    # Ours. The traceback is shown.
    code = "defect"
    exit_status = 70
