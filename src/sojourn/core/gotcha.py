"""A gotcha as a frozen value: a known way to lose work or money, with what confirms it and what rules it out.

Conditions are text in the grammar of `diagnose.grammar`: predicates over observations, joined by " && ", one string per
alternative. Made from `data/gotchas/<id>.toml` by `store.catalog`, judged by `diagnose.reason`.
"""

from __future__ import annotations

from dataclasses import dataclass

_KEPT = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n\r"
# Beside ASCII letters and line ends, bytes of other scripts stay, except those that progress bars are drawn with.
_DROPPED = bytes(b for b in range(256) if b not in _KEPT and (b < 0x80 or b == 0xE2 or 0x88 <= b <= 0x96))
_LOWER = bytes(range(256)).lower().replace(b"\r", b"\n")


def letters(data: bytes) -> bytes:
    """What all log lines of one kind share: lower-case letters and line ends; \\r also ends a line."""
    return data.translate(_LOWER, _DROPPED)


# A gotcha's place in a chain of events. A cause comes before the program's own error, and that before its consequences
# (a collective that timed out, a launcher reporting its child); advice never explains an end.
ROLES = ("cause", "program", "consequence", "advice")
OWN = "rules"  # the theme of the user's own rules, which come first
SEVERITIES = ("blocker", "warning", "note")


@dataclass(frozen=True)
class Pattern:
    """A literal error text. `regex`: searched in single lines of `where` (log, kernel, ssh, smi, k8s), ignoring case.

    `proves`: the text alone confirms the gotcha; else it makes it likely. `fatal`: a run that continues after it has
    recovered, so it does not explain an end, unless the text is `final`: its writer ends the run. `gate`: letters in
    every match, as `letters` leaves them; they make scanning a large log cheap.
    """

    regex: str
    where: str = "log"
    proves: bool = True
    fatal: bool = True
    final: bool = False
    gate: str = ""


@dataclass(frozen=True)
class Merged:
    """A seed entry covered by another gotcha. `scope`: where its number is the one to show; "" = nowhere."""

    was: str
    scope: str
    why: str


@dataclass(frozen=True)
class Check:
    """What to type, and what it shows if this is the cause. It changes nothing."""

    run: str
    shows: str


@dataclass(frozen=True)
class Gotcha:
    """One entry of the catalog. `was`: its seed number, "" for our own entries."""

    id: str
    title: str
    was: str = ""
    merged: tuple[Merged, ...] = ()
    theme: str = ""
    scope: tuple[str, ...] = ("universal",)
    severity: str = "warning"
    role: str = "cause"
    ends: bool = False  # it ends a run, or keeps it from beginning: one that goes on, or is done, cannot be of it
    tier: int = 50  # among findings of one kind: lower = earlier in the usual chain of causes
    refines: tuple[str, ...] = ()  # more general gotchas that hold whenever this one does
    see: tuple[str, ...] = ()
    symptom_en: str = ""
    symptom_zh: str = ""
    synonyms: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    cause: str = ""
    fix: str = ""
    never: str = ""
    check: tuple[Check, ...] = ()
    confirm: tuple[str, ...] = ()
    refute: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()  # observations that quantify it: shown with it if known
    undecidable: str = ""  # why no observation can decide it; only without conditions and patterns
    sources: tuple[str, ...] = ()

    @property
    def is_decidable(self) -> bool:
        """Whether any evidence can confirm it."""
        return bool(self.confirm) or any(pattern.proves for pattern in self.patterns)

    def number(self, scope: frozenset[str]) -> str:
        """The seed number to show for evidence of this scope: that of an entry merged for it, else its own."""
        for entry in self.merged:
            if entry.scope and entry.scope in scope:
                return entry.was
        return self.was
