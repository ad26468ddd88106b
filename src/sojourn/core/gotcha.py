"""A gotcha as a frozen value: a known way in which work or money is lost, with what confirms it and what rules it out.

Conditions are text in the grammar of `diagnose.grammar`: predicates over observations, joined by " && ", one string for
each alternative. Made from `data/gotchas/<id>.toml` by `store.catalog`, judged by `diagnose.reason`.
"""

from __future__ import annotations

from dataclasses import dataclass

_KEPT = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n\r"
# Beside ASCII letters and line ends, bytes of other scripts stay, but for those that progress bars are drawn with.
_DROPPED = bytes(b for b in range(256) if b not in _KEPT and (b < 0x80 or b == 0xE2 or 0x88 <= b <= 0x96))
_LOWER = bytes(range(256)).lower().replace(b"\r", b"\n")


def letters(data: bytes) -> bytes:
    """What of a log says the same in every line of one kind: lower-case letters and line ends; \\r ends a line too."""
    return data.translate(_LOWER, _DROPPED)


# What a gotcha is in a chain of events. A cause is told before the program's own error, and that before what follows
# from either (a collective that timed out, a launcher that reports its child); advice never explains an end.
ROLES = ("cause", "program", "consequence", "advice")
OWN = "rules"  # the theme of the user's own rules, which come before every other
SEVERITIES = ("blocker", "warning", "note")


@dataclass(frozen=True)
class Pattern:
    """A literal error text. `regex`: searched in single lines of `where` (log, kernel, ssh, smi, k8s), capital
    letters or not.

    `proves`: the text alone confirms the gotcha; else it makes it likely. `fatal`: a run that goes on after it has got
    over it, and then it says nothing about an end, unless the text is `final`: whoever wrote it ends the run.
    `gate`: letters that every match holds, as `letters` leaves them; it makes a scan of a large log cheap.
    """

    regex: str
    where: str = "log"
    proves: bool = True
    fatal: bool = True
    final: bool = False
    gate: str = ""


@dataclass(frozen=True)
class Merged:
    """A seed entry that is told by another gotcha. `scope`: where its number is the one to show; "" = nowhere."""

    was: str
    scope: str
    why: str


@dataclass(frozen=True)
class Gotcha:
    """One entry of the catalog. `was`: its seed number, "" for an entry of our own."""

    id: str
    title: str
    was: str = ""
    merged: tuple[Merged, ...] = ()
    theme: str = ""
    scope: tuple[str, ...] = ("universal",)
    severity: str = "warning"
    role: str = "cause"
    tier: int = 50  # among findings of one kind: the lower, the earlier in the usual chain of causes
    refines: tuple[str, ...] = ()  # gotchas that are true as well where this one is, and say less
    see: tuple[str, ...] = ()
    symptom_en: str = ""
    symptom_zh: str = ""
    synonyms: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    cause: str = ""
    fix: str = ""
    never: str = ""
    confirm: tuple[str, ...] = ()
    refute: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    undecidable: str = ""  # why no observation can decide it; only where it has no conditions and no patterns
    sources: tuple[str, ...] = ()

    @property
    def is_decidable(self) -> bool:
        """Whether some evidence can confirm it."""
        return bool(self.confirm) or any(pattern.proves for pattern in self.patterns)

    def number(self, scope: frozenset[str]) -> str:
        """The seed number to show for evidence of this scope: that of a merged entry made for it, else its own."""
        for entry in self.merged:
            if entry.scope and entry.scope in scope:
                return entry.was
        return self.was
