"""What can be wrong with an artifact, in the words of docs/json.md; walkers and loaders raise `Unloadable` with one.

missing       no such file                          missing-shard  a set of files lacks one
empty         no bytes                              non-finite     loads, and holds NaN or infinity
truncated     ends before its own arithmetic says   unparseable    text that is not what its name says
corrupt       damaged inside, or followed by more   escapes-root   a link or device, or a path that leaves the root
unsafe        cannot be judged without running it   mismatch       another type than its name, or not the bytes expected
unsupported   whole as far as we can see, but in a form that we do not read (or that our rights do not let us read)
"""

from __future__ import annotations

from sojourn.wire.errors import BadResult

PROBLEMS = (
    "missing",
    "empty",
    "truncated",
    "corrupt",
    "unsafe",
    "missing-shard",
    "non-finite",
    "unparseable",
    "escapes-root",
    "mismatch",
    "unsupported",
)


class Unloadable(BadResult):
    """{problem}: {why}"""

    # `problem`: one of PROBLEMS. `why`: one sentence a person can act on; no path, whoever shows it knows which file.
    code = "unloadable"
    next_step = "sojourn pull"

    def __init__(self, problem: str, why: str) -> None:
        super().__init__(problem=problem, why=why)
        self.problem = problem
        self.why = why
