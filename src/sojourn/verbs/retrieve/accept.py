"""`sojourn accept` and `compare`: another machine reads and loads everything again and says so in a file of its own;
two such files are held against each other.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.artifact import Artifact
from sojourn.verbs.retrieve.verify import BadManifest, NoSuchPath, Verified, read_manifest, verify
from sojourn.wire import atomic, machine, manifest, names, units
from sojourn.wire.errors import Misuse
from sojourn.wire.machine import this_machine

if TYPE_CHECKING:
    pass

SCHEMA = "sojourn/acceptance/v1"
_LIMIT_BYTES = 256 << 20
_OWN = ("by", "left_out")  # facts about who loaded it, not about what it holds


class NotIndependent(Misuse):
    """{detail}: an acceptance report must come from a different machine."""

    code = "not-independent"


class BadAcceptance(Misuse):
    """{path}: this acceptance report cannot be trusted: {detail}"""

    code = "bad-acceptance"


@dataclass(frozen=True)
class Accepted:
    """What `accept` found. `path`: the acceptance that was written, "" where something does not prove."""

    verified: Verified
    path: str
    document: Mapping[str, Any]
    remarks: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0 accepted, 1 not."""
        return 0 if self.path else 1

    def as_json(self) -> dict[str, Any]:
        """The `verify` document with the acceptance in it."""
        more = {"acceptance": dict(self.document), "acceptance_path": self.path or None, "remarks": list(self.remarks)}
        return {**self.verified.as_json(), "schema": "sojourn/accept/v1", **more}


@dataclass(frozen=True)
class Compared:
    """Two acceptances side by side. differences: {"path", "what", "a", "b"}; `remarks`: what differs and may."""

    manifest: str
    nodes: tuple[str, str]
    files: int
    differences: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0 they say the same, 1 they do not."""
        return 1 if self.differences else 0

    def as_json(self) -> dict[str, Any]:
        """The document `compare`."""
        return {
            "schema": "sojourn/comparison/v1",
            "ok": not self.differences,
            "manifest": self.manifest,
            "nodes": list(self.nodes),
            "files": self.files,
            "differences": [dict(row) for row in self.differences],
            "remarks": list(self.remarks),
        }


def accept(
    path: str,
    manifest_path: str,
    *,
    to: str,
    node: str = "",
    say: Callable[[str], None] | None = None,
) -> Accepted:
    """Read and load every file of the folder `path` again, whatever is remembered, and write the acceptance `to`.

    `node`: a name for this machine; "": what it calls itself. Where it is the machine that made the manifest, under
    another name that was given to it here, that is remarked. Nothing is written where a file does not prove.
    Raises: NotIndependent (the manifest was made on this machine), NoSuchPath, BadManifest, NothingToVerify, OSError.
    """
    made = read_manifest(manifest_path)
    own = {**this_machine(), **({"name": node} if node else {})}
    sealed = made.get("made")
    producer = sealed.get("node") if isinstance(sealed, dict) else made.get("node")
    remarks = []
    if isinstance(producer, dict):
        is_one = machine.is_one(own, producer)
        if _is_same(own, producer) or (is_one and not node):
            raise NotIndependent(detail=f"{own['name']} made {manifest_path} itself")
        if is_one:
            remarks.append(
                f"the same machine made the manifest, as {producer.get('name')}: this does not prove a second copy"
            )
    else:
        remarks.append(
            "the manifest does not name the machine that made it, so it is not proven that this is another one"
        )
    if os.path.lexists(to):
        raise Misuse(detail=f"{to} exists: an acceptance report is never overwritten")
    found = verify([path], manifest_path, say=say, fresh=True)
    document = _document(made, found, own)
    if not found.ok:
        return Accepted(found, "", {}, tuple(remarks))
    unloaded = [artifact for artifact in found.artifacts if artifact.state == "bytes-only"]
    if unloaded:
        remarks.append(f"{len(unloaded)} of {len(found.artifacts)} files were not loaded: only their bytes are proven")
    atomic.write_json(to, document)
    return Accepted(found, to, document, tuple(remarks))


def compare(first: str, second: str) -> Compared:
    """Hold two acceptances against each other: what the files are and hold, not who loaded them with what.

    Raises: BadAcceptance, NotIndependent (both come from one machine), NoSuchPath, OSError.
    """
    a, b = _read(first), _read(second)
    if _is_same(a["node"], b["node"]):
        raise NotIndependent(detail=f"{first} and {second} both come from {a['node']['name']}")
    rows_a, rows_b = _artifacts(first, a), _artifacts(second, b)
    differences: list[Mapping[str, Any]] = []
    remarks = []
    if a["manifest"] != b["manifest"]:
        differences.append({"path": "", "what": "manifest", "a": a["manifest"], "b": b["manifest"]})
    for path in sorted(rows_a.keys() | rows_b.keys()):
        if path not in rows_a or path not in rows_b:
            there = [path in rows_a, path in rows_b]
            differences.append({"path": path, "what": "accepted", "a": there[0], "b": there[1]})
            continue
        one, other = rows_a[path], rows_b[path]
        for what in ("bytes", "sha256", "kind"):
            a_has, b_has = getattr(one, what), getattr(other, what)
            if a_has != b_has:
                differences.append({"path": path, "what": what, "a": a_has, "b": b_has})
        for key in sorted((one.facts.keys() & other.facts.keys()) - set(_OWN)):
            if one.facts[key] != other.facts[key]:
                row = {"path": path, "what": f"facts.{key}", "a": one.facts[key], "b": other.facts[key]}
                differences.append(row)
        if set(one.proved) != set(other.proved):
            remarks.append(f"{path}: proved {', '.join(one.proved)} there, {', '.join(other.proved)} here")
    if machine.is_one(a["node"], b["node"]):
        remarks.append(f"the same machine made both, as {a['node']['name']} and as {b['node']['name']}")
    nodes = (str(a["node"]["name"]), str(b["node"]["name"]))
    return Compared(str(a["manifest"]), nodes, len(rows_a.keys() & rows_b.keys()), tuple(differences), tuple(remarks))


def who() -> str:
    """The name of the user, as the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _is_same(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    """Both bear one name, and nothing says that they are two machines of that name."""
    is_other = a.get("machine") and b.get("machine") and a["machine"] != b["machine"]
    return a.get("name") == b.get("name") and not is_other


def _document(made: Mapping[str, Any], found: Verified, node: Mapping[str, str]) -> dict[str, Any]:
    from sojourn.backends.proof.proof import libraries

    kept = ("path", "bytes", "sha256", "kind", "proved", "loader", "facts", "remarks")
    rows = [{key: row[key] for key in kept} for row in (artifact.as_json() for artifact in found.artifacts)]
    document = {
        "schema": SCHEMA,
        "run": made.get("run", ""),
        "manifest": made["digest"],
        "node": dict(node),
        "by": who(),
        "at": units.stamp(time.time()),
        "runtime": {"python": platform.python_version(), "system": platform.system(), **libraries()},
        "files": rows,
        "bytes": found.bytes,
    }
    return {**document, "digest": names.digest(document)}


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as f:
            document = json.loads(f.read(_LIMIT_BYTES))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise NoSuchPath(path=path, detail="no such acceptance") from error
    except (ValueError, RecursionError) as error:
        raise BadAcceptance(path=path, detail="it is not JSON") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BadAcceptance(path=path, detail=f"its schema is not {SCHEMA}")
    if document.get("digest") != names.digest({key: value for key, value in document.items() if key != "digest"}):
        raise BadAcceptance(path=path, detail="its digest does not match: it was changed or truncated")
    rows = document.get("files")
    if (
        not isinstance(document.get("node"), dict)
        or not isinstance(rows, list)
        or not all(isinstance(row, dict) and manifest.is_safe(str(row.get("path", ""))) for row in rows)
    ):
        raise BadAcceptance(path=path, detail="it does not say who accepted what")
    return document


def _artifacts(path: str, document: Mapping[str, Any]) -> dict[str, Artifact]:
    """The entry of each file in the acceptance report at `path`, by path. Raises: BadAcceptance."""
    try:
        return {str(row["path"]): Artifact.from_json(row) for row in document["files"]}
    except (KeyError, TypeError, ValueError) as error:
        raise BadAcceptance(path=path, detail="a row does not say what its file is") from error


__all__ = [
    "Accepted",
    "BadAcceptance",
    "BadManifest",
    "Compared",
    "NotIndependent",
    "accept",
    "compare",
]
