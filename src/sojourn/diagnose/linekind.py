"""What a line of a log is: something that happened, or words about something that did not.

A matched text inside a help page, a printed configuration or an echoed command is no event. One inside a warning, or
beside the word that it is tried again, is an event of which nobody ends.
"""

from __future__ import annotations

import re

NOTICE, WARNING, ERROR, TERMINAL = KINDS = ("notice", "warning", "error", "terminal")

# A shell that echoes what it runs (`set -x`, a prompt), and programs that say which command they start.
_ECHO = re.compile(
    r"\s*(?:\++ (?!exit)\S|\$ \S|>>> \S|(?:\([\w.-]+\) )?[\w.-]+@[\w.-]+[: ][^$#]{0,80}[$#] (?![\w./-]+: )\S"
    r"|(?:running|executing|launching|run|cmd)(?: (?:the )?(?:command|cmd))?: )",
    re.I,
)
# A help page: usage, or an option with its description.
_HELP = re.compile(r"\s*usage: |\s{2,}-{1,2}[A-Za-z][\w-]*(?:[ ,=]+(?:--?[\w-]+|[A-Z][A-Z_]*|\{[^}]*\}))*\s{2,}\S")
# A configuration that is printed: a constructor's repr, a dictionary of settings, a list of texts.
_REPR = re.compile(
    r"\s*(?:\w+ ?[:=] ?)?(?:Namespace|SimpleNamespace|OrderedDict|\w*(?:Config|Args|Arguments|Options|Settings|Params))"
    r"\(\w|\s*(?:args|config|cfg|options|settings|hparams|parameters)\w* ?[:=] ?[{\[(]"
    r"|\s*\[['\"].*['\"],? ?\]\s*$",
    re.I,
)
# What warns of itself: Python's warnings, and loggers at that level. NCCL and the kernel warn of what ends a run.
_WARNING = re.compile(
    r"\.py:\d+: \w*Warning: |^\s*(?:\w+\.)*\w*Warning: "
    r"|^(?:\W*[\d:.,TZ/ -]{5,40}\W*)?[\[|( ]*(?:WARNING|WARN)\b(?! NCCL)[\])|: -]"
    r"|^[\w.:-]{1,60}[ :|-]{1,3}(?:WARNING|WARN)\b[\])|: -]",
)
_NCCL = re.compile(r"NCCL WARN|NVRM|Xid")
# What is no end: the program tries again.
_AGAIN = re.compile(
    r"(?i)\bretrying (?:in \d|request|up to [1-9]|\(try=)|\bRetrying \(Retry\(total=[1-9]|, retrying\b|\bwill retry\b"
    r"|\blow level retry [1-9]"
)


def is_no_event(text: str) -> bool:
    """Whether a line only has words about something: a command, a help page, a configuration."""
    return any(regex.match(text) is not None for regex in (_ECHO, _HELP, _REPR))


def warns(text: str) -> bool:
    """Whether a line says of itself that it is a warning, or that it is tried again."""
    return _AGAIN.search(text) is not None or (_WARNING.search(text) is not None and not _NCCL.search(text))


def kind_of(text: str, *, is_fatal: bool, is_final: bool) -> str:
    """The kind of an event. `is_fatal`, `is_final`: of the pattern that matched it."""
    if _AGAIN.search(text):
        return WARNING
    if not is_fatal:
        return NOTICE
    if is_final:
        return TERMINAL
    return WARNING if warns(text) else ERROR
