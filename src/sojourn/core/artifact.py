"""One file of a run and how far it has been verified: the rows of `verify`, `pull`, `seal` and `accept`, and the source
of a Receipt. Only `Artifact.from_json` reads it from JSON; only `as_json` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sojourn.core.values import Receipt, state_of
from sojourn.wire.errors import Defect

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow

UNKNOWN, LOG = "unknown", "log"
INSTALL = "install "
_NOT_LOADED = "not loaded: "
_NOT_INSTALLED = re.compile(_NOT_LOADED + r"(\S+) is not installed")


@dataclass(frozen=True)
class Artifact:
    """What has been verified about one file. `path`: the name it was requested by.

    `proved`: of bytes (size and sha256 as expected; never without an expectation), structure, load, content. `problem`:
    "" or a word of `formats.damage.PROBLEMS`; `ok`: no problem. `sha256`: "" if it was not read.
    """

    path: str
    kind: str = UNKNOWN
    bytes: int = 0
    sha256: str = ""
    proved: tuple[str, ...] = ()
    problem: str = ""
    detail: str = ""
    remarks: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    loader: str = ""
    remembered: str = ""  # UTC stamp of an earlier verification, if the file has not changed since; "" = verified now

    @classmethod
    def of_row(cls, row: FileRow, kind: str) -> Artifact:
        """A file whose bytes match its manifest row but that was not loaded."""
        return cls(row["path"], kind, row["bytes"], row["sha256"], ("bytes",))

    @classmethod
    def of_receipt(cls, receipt: Receipt) -> Artifact:
        """A file at home, verified when its receipt was made."""
        return cls(
            receipt.path,
            receipt.kind,
            receipt.bytes,
            receipt.sha256,
            receipt.proved,
            remarks=receipt.remarks,
            facts=receipt.facts,
            loader=receipt.loader,
        )

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Artifact:
        """What `as_json` wrote, or the part an acceptance keeps. Raises: KeyError, TypeError, ValueError."""
        words = {name: str(row.get(name) or "") for name in ("sha256", "problem", "detail", "loader", "remembered")}
        proved, remarks = (tuple(str(one) for one in row.get(name, ())) for name in ("proved", "remarks"))
        path, kind, size_bytes = str(row["path"]), str(row["kind"]), int(row["bytes"])
        return cls(path, kind, size_bytes, proved=proved, remarks=remarks, facts=dict(row["facts"]), **words)

    def as_json(self) -> dict[str, Any]:
        """One element of `verify.artifacts` of docs/json.md."""
        return {
            "path": printable(self.path),
            "kind": self.kind,
            "ok": self.ok,
            "state": self.state,
            "bytes": self.bytes,
            "sha256": self.sha256 or None,
            "proved": list(self.proved),
            "problem": self.problem or None,
            "detail": self.detail or None,
            "remarks": list(self.remarks),
            "facts": dict(self.facts),
            "loader": self.loader or None,
            "remembered": self.remembered or None,
        }

    @property
    def ok(self) -> bool:
        """No problem found, as far as it could be checked."""
        return not self.problem

    @property
    def state(self) -> str:
        """Its `core.values.state_of`."""
        return state_of(self.proved, self.problem)

    @property
    def needs(self) -> str:
        """For a known type that was not loaded: what to install, or why no library would help; else ""."""
        if self.state != "bytes-only" or self.kind in (UNKNOWN, LOG):
            return ""
        for remark in self.remarks:
            if hit := _NOT_INSTALLED.match(remark):
                return f"{INSTALL}{hit[1]}"
            if remark.startswith(_NOT_LOADED):
                return remark.removeprefix(_NOT_LOADED)
        return f"no reader of {self.kind} here"

    def remarked(self, remark: str) -> Artifact:
        """A copy with one more remark."""
        return replace(self, remarks=(*self.remarks, remark))

    def receipt(self, run: str, home: str, code: str = "") -> Receipt:
        """The receipt of this successful verification, at `home` (absolute), for what `code` produced.

        Raises: Defect if it is not ok, or nothing was expected.
        """
        if not self.ok or "bytes" not in self.proved:
            why = self.problem or "nothing expected"
            raise Defect(detail=f"no receipt for {self.path}: its proof is not good ({why})")
        known = (self.bytes, self.sha256, self.kind, self.loader, self.proved, self.facts, self.remarks)
        return Receipt(run, self.path, home, *known, code)


def printable(name: str) -> str:
    """A file name as text that is safe to print anywhere: bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
