"""The objects of the stand-in API server: versions that only grow, events for those who watch, and refusals in the
server's own words. Written from tests/kube/recordings, which say what a real server of 1.36 answered.
"""

from __future__ import annotations

import copy
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]  # plural, namespace ("" for none), name


@dataclass(frozen=True)
class Kind:
    """A kind that is served."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True

    @property
    def api(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full(self) -> str:
        """As messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


KINDS = {
    one.plural: one
    for one in (
        Kind("pods", "Pod"),
        Kind("events", "Event"),
        Kind("secrets", "Secret"),
        Kind("services", "Service"),
        Kind("resourcequotas", "ResourceQuota"),
        Kind("persistentvolumeclaims", "PersistentVolumeClaim"),
        Kind("namespaces", "Namespace", is_namespaced=False),
        Kind("nodes", "Node", is_namespaced=False),
        Kind("persistentvolumes", "PersistentVolume", is_namespaced=False),
        Kind("jobs", "Job", "batch"),
        Kind("selfsubjectaccessreviews", "SelfSubjectAccessReview", "authorization.k8s.io", is_namespaced=False),
    )
}


class Refused(Exception):
    """An answer that is a Status object."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None, retry_s: int = 0) -> None:
        super().__init__(message)
        self.retry_s = retry_s
        self.body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self.body.update(message=message, reason=reason, **({"details": details} if details else {}), code=code)


def details(kind: Kind, name: str = "", spelled: str = "") -> Object:
    out = {"name": name, "group": kind.group, "kind": spelled or kind.plural}
    return {key: value for key, value in out.items() if value}


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{kind.full} "{name}" not found', details(kind, name))


def invalid(kind: Kind, name: str, causes: list[tuple[str, str]]) -> Refused:
    """`causes`: (field, what is wrong)."""
    lines = [f"{where}: {what}" for where, what in causes]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    spelled = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    more = details(kind, name, kind.kind)
    words = {"Invalid": "FieldValueInvalid", "Required": "FieldValueRequired"}
    more["causes"] = [
        {"reason": words.get(what.split(" ")[0], "FieldValueInvalid"), "message": what, "field": where}
        for where, what in causes
    ]
    return Refused(422, "Invalid", f'{spelled} "{name}" is invalid: {text}', more)


def stamp(now_s: float | None = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))


@dataclass
class Store:
    """All objects. Whoever changes one holds `lock`; `changed` wakes those who watch."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    objects: dict[Key, Object] = field(default_factory=dict)
    log: list[tuple[int, str, str, Object]] = field(default_factory=list)  # version, type, plural, object
    version: int = 1000
    oldest: int = 1000  # what was seen before this version is forgotten

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)

    def create(self, plural: str, namespace: str, value: Object) -> Object:
        """Raises: Refused (409)."""
        kind = KINDS[plural]
        with self.lock:
            meta = value.setdefault("metadata", {})
            if not meta.get("name") and meta.get("generateName"):
                meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
            name = meta["name"]
            if (plural, namespace, name) in self.objects:
                raise Refused(409, "AlreadyExists", f'{kind.full} "{name}" already exists', details(kind, name))
            value.update(kind=kind.kind, apiVersion=kind.api)
            if kind.is_namespaced:
                meta["namespace"] = namespace
            meta.update(uid=str(uuid.uuid4()), creationTimestamp=stamp(), generation=1)
            value.setdefault("status", {}) if kind.plural in ("jobs", "pods") else None
            self.objects[plural, namespace, name] = value
            self._note("ADDED", plural, value)
            return copy.deepcopy(value)

    def get(self, plural: str, namespace: str, name: str) -> Object:
        """Raises: Refused (404)."""
        with self.lock:
            if (plural, namespace, name) not in self.objects:
                raise not_found(KINDS[plural], name)
            return copy.deepcopy(self.objects[plural, namespace, name])

    def all(self, plural: str, namespace: str = "") -> list[Object]:
        """Copies, in order of their names; of all namespaces where none is named."""
        with self.lock:
            keys = sorted(key for key in self.objects if key[0] == plural and namespace in ("", key[1]))
            return [copy.deepcopy(self.objects[key]) for key in keys]

    def replace(self, plural: str, namespace: str, value: Object) -> Object:
        """Raises: Refused (404, 409 where it was read before the last change)."""
        name = value["metadata"]["name"]
        with self.lock:
            old = self.get(plural, namespace, name)
            given = value["metadata"].get("resourceVersion")
            if given and given != old["metadata"]["resourceVersion"]:
                kind = KINDS[plural]
                text = (
                    f'Operation cannot be fulfilled on {kind.full} "{name}": the object has been modified; please'
                    " apply your changes to the latest version and try again"
                )
                raise Refused(409, "Conflict", text, details(kind, name))
            return self.change(plural, namespace, name, lambda there: there.update(copy.deepcopy(value)))

    def change(self, plural: str, namespace: str, name: str, act: Callable[[Object], Any]) -> Object:
        """Act on the object itself; nobody hears of it where nothing changes. Raises: Refused (404)."""
        with self.lock:
            if (plural, namespace, name) not in self.objects:
                raise not_found(KINDS[plural], name)
            there = self.objects[plural, namespace, name]
            before = copy.deepcopy(there)
            act(there)
            if there != before:
                if there.get("spec") != before.get("spec"):
                    there["metadata"]["generation"] = there["metadata"].get("generation", 1) + 1
                self._note("MODIFIED", plural, there)
            return copy.deepcopy(there)

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """At once; harmless where it is not there."""
        with self.lock:
            value = self.objects.pop((plural, namespace, name), None)
            if value is not None:
                self._note("DELETED", plural, value)

    def forget(self) -> None:
        """Compaction: nobody can go on from a version before this."""
        with self.lock:
            self.oldest = self.version
            self.log.clear()

    def since(self, plural: str, version: int) -> list[tuple[int, str, Object]]:
        """What happened after `version`. Raises: Refused (410)."""
        with self.lock:
            if version < self.oldest:
                raise Refused(410, "Expired", f"too old resource version: {version} ({self.oldest})")
            return [(at, word, copy.deepcopy(it)) for at, word, of, it in self.log if of == plural and at > version]

    def _note(self, word: str, plural: str, value: Object) -> None:
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, word, plural, copy.deepcopy(value)))
        self.changed.notify_all()


def merge(into: Object, patch: Object) -> None:
    """A JSON merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def selected(value: Object, labels: str, fields: str) -> bool:
    """Whether selectors as in a query choose this object."""
    has = value["metadata"].get("labels") or {}
    for term in _terms(labels):
        if found := re.fullmatch(r"\s*(\S+)\s+(in|notin)\s+\((.*)\)\s*", term):
            one_of = [word.strip() for word in found[3].split(",")]
            if (has.get(found[1]) in one_of) != (found[2] == "in"):
                return False
        elif "!=" in term:
            key, _, want = term.partition("!=")
            if has.get(key.strip()) == want.strip():
                return False
        elif "=" in term:
            key, _, want = term.replace("==", "=").partition("=")
            if has.get(key.strip()) != want.strip():
                return False
        elif term.startswith("!"):
            if term[1:] in has:
                return False
        elif term.strip() not in has:
            return False
    for term in filter(None, fields.split(",")):
        key, _, want = term.replace("==", "=").partition("=")
        at: Any = value
        for part in key.rstrip("!").split("."):
            at = at.get(part, "") if isinstance(at, dict) else ""
        if (str(at) == want) == key.endswith("!"):
            return False
    return True


def _terms(text: str) -> Iterator[str]:
    yield from (term for term in re.split(r",(?![^(]*\))", text) if term.strip())
