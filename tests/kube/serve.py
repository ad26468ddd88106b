"""The stand-in's HTTP side: who may, which object, which verb. WebSockets and logs are in `streams`."""

from __future__ import annotations

import copy
import json
import re
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.kube import admission, streams
from tests.kube.jobs import Jobs
from tests.kube.store import KINDS, Kind, Object, Refused, details, merge, selected

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

VERSION = {
    "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35", "gitVersion": "v1.36.2", "gitCommit": "vendored", "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.27.3", "compiler": "gc", "platform": "linux/amd64",
}  # fmt: skip
PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[\w.]+)/(?P<version>v1))(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?/?"
)
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
ORPHANS = (
    '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them'
    ' or set propagationPolicy=Orphan to suppress this warning"'
)


class Door(BaseHTTPRequestHandler):
    """One request a time, from any number of clients."""

    cluster: Cluster
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Any method."""
        self.warnings: list[str] = []
        at = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(at.query, keep_blank_values=True).items()}
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        self.cluster.calls.append(f"{self.command} {at.path}")
        for fault in list(self.cluster.faults):
            said = fault(self.command, self.path)
            if said == "cut":
                self.close_connection = True
                self.connection.close()
                return
            if isinstance(said, Refused):
                self._say(said.body["code"], said.body, {"Retry-After": str(said.retry_s)} if said.retry_s else {})
                return
        try:
            self._route(at.path)
        except Refused as no:
            self._say(no.body["code"], no.body, {"Retry-After": str(no.retry_s)} if no.retry_s else {})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *words: Any) -> None:
        """Quiet."""

    def _route(self, path: str) -> None:
        user = self._user()
        if path == "/version":
            return self._say(200, VERSION)
        if (found := discovery(path)) is not None:
            return self._say(200, found)
        at = PATH.fullmatch(path)
        if at is None or at["plural"] not in KINDS or KINDS[at["plural"]].group != (at["group"] or ""):
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "details": {}}
            more = {"message": "the server could not find the requested resource", "reason": "NotFound", "code": 404}
            return self._say(404, {**body, **more})
        kind, namespace, name, sub = KINDS[at["plural"]], at["namespace"] or "", at["name"] or "", at["sub"] or ""
        watches = self.query.get("watch") in ("1", "true")
        verb = VERBS.get(self.command, "get" if name else "watch" if watches else "list")
        self._may(user, verb, kind, namespace, name, sub)
        if sub == "exec" and verb == "get":  # read: AuthorizePodWebsocketUpgradeCreatePermission, on from 1.35
            self._may(user, "create", kind, namespace, name, sub)
        if kind.plural == "selfsubjectaccessreviews":
            return self._say(201, self._review(user))
        if sub in ("exec", "log"):
            return streams.serve(self, self.cluster, namespace, name, sub)
        if verb == "watch":
            return streams.watch(self, self.cluster, kind, namespace)
        return self._object(verb, kind, namespace, name)

    def _object(self, verb: str, kind: Kind, namespace: str, name: str) -> None:
        store = self.cluster.store
        if verb == "list":
            return self._say(200, self._list(kind, namespace))
        if verb == "get":
            return self._say(200, clean(store.get(kind.plural, namespace, name)))
        if verb == "create":
            return self._say(201, clean(self._create(kind, namespace)))
        if verb == "update":
            value = self._read(kind)
            value["metadata"].setdefault("name", name)
            self._check_template(kind, namespace, value)
            return self._say(200, clean(store.replace(kind.plural, namespace, value)))
        if verb == "patch":
            return self._say(200, clean(self._patch(kind, namespace, name)))
        return self._delete(kind, namespace, name)

    def _list(self, kind: Kind, namespace: str) -> Object:
        labels, fields = self.query.get("labelSelector", ""), self.query.get("fieldSelector", "")
        with self.cluster.store.lock:
            items = [one for one in self.cluster.store.all(kind.plural, namespace) if selected(one, labels, fields)]
            version = str(self.cluster.store.version)
        at, _, first_text = (self.query.get("continue") or "").partition(".")
        if at and int(at) < self.cluster.store.oldest:  # read: API concepts, "410 Gone responses" of chunked lists
            text = (
                "The provided continue parameter is too old to display a consistent list result. You can start a new"
                " list without the continue parameter"
            )
            raise Refused(410, "Expired", text)
        first = int(first_text or 0)
        limit = int(self.query.get("limit") or 0) or len(items)
        more = {"continue": f"{version}.{first + limit}"} if first + limit < len(items) else {}
        shown = [{key: value for key, value in clean(one).items() if key not in ("kind", "apiVersion")}
                 for one in items[first : first + limit]]  # fmt: skip
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api, "metadata": {"resourceVersion": version, **more},
                "items": shown}  # fmt: skip

    def _read(self, kind: Kind) -> Object:
        value = json.loads(self.body)
        given = self.query.get("fieldValidation", "Warn")
        value.setdefault("apiVersion", kind.api)
        value.setdefault("kind", kind.kind)
        unknown = admission.unknown_fields(kind.plural, value, self.cluster.version)
        if unknown and given == "Strict":
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error'
            raise Refused(400, "BadRequest", f"{text}: {listed}")
        self.warnings += [f'299 - "unknown field \\"{path}\\""' for path in unknown]
        return dict(value)

    def _create(self, kind: Kind, namespace: str) -> Object:
        store, value = self.cluster.store, self._read(kind)
        if kind.is_namespaced:
            store.get("namespaces", "", namespace)
        with store.lock:
            if kind.plural == "jobs":
                admission.admit_job(value)
                if said := admission.check_pod_security(store, namespace, value["spec"]["template"]):
                    quoted = said.replace('"', '\\"')
                    self.warnings.append(f'299 - "would violate PodSecurity {quoted}"')
            if kind.plural == "pods":
                admission.admit_pod(value["spec"])
                value["status"] = {"phase": "Pending"}
                name = value["metadata"].get("name") or value["metadata"].get("generateName", "")
                admission.check_quota(store, namespace, value, name)
                if said := admission.check_pod_security(store, namespace, value):
                    text = f'pods "{name}" is forbidden: violates PodSecurity {said}'
                    raise Refused(403, "Forbidden", text, {"name": name, "kind": "pods"})
            made = store.create(kind.plural, namespace, value)
            if kind.plural == "jobs":
                made = store.change("jobs", namespace, made["metadata"]["name"], admission.own_job)
            if self.query.get("dryRun") == "All":
                store.objects.pop((kind.plural, namespace, made["metadata"]["name"]))
                store.log = [row for row in store.log if row[3]["metadata"].get("uid") != made["metadata"]["uid"]]
            return made

    def _patch(self, kind: Kind, namespace: str, name: str) -> Object:
        patch = json.loads(self.body)
        new = self.cluster.store.get(kind.plural, namespace, name)
        merge(new, copy.deepcopy(patch))
        self._check_template(kind, namespace, new)
        if self.query.get("dryRun") == "All":
            return new
        return self.cluster.store.change(kind.plural, namespace, name, lambda it: merge(it, patch))

    def _check_template(self, kind: Kind, namespace: str, new: Object) -> None:
        from tests.kube.store import invalid

        if kind.plural != "jobs":
            return
        name = new["metadata"]["name"]
        old = self.cluster.store.get("jobs", namespace, name)
        given = new["metadata"].get("resourceVersion")
        if given in (None, old["metadata"]["resourceVersion"]) and new["spec"]["template"] != old["spec"]["template"]:
            raise invalid(kind, name, [("spec.template", "Invalid value: field is immutable")])

    def _delete(self, kind: Kind, namespace: str, name: str) -> None:
        store = self.cluster.store
        options = json.loads(self.body) if self.body else {}
        policy = self.query.get("propagationPolicy") or options.get("propagationPolicy") or ""
        grace = self.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        if not name:
            items = self._list(kind, namespace)
            for one in items["items"]:
                self._delete_one(kind, namespace, one["metadata"]["name"], policy, grace)
            return self._say(200, items)
        uid = (options.get("preconditions") or {}).get("uid")
        with store.lock:
            there = store.get(kind.plural, namespace, name)
            if uid and uid != there["metadata"]["uid"]:
                text = f"the UID in the precondition ({uid}) does not match the UID in record"
                raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind.full} "{name}": {text}',
                              details(kind, name))  # fmt: skip
            answer = self._delete_one(kind, namespace, name, policy, grace)
        return self._say(200, answer)

    def _delete_one(self, kind: Kind, namespace: str, name: str, policy: str, grace: Any) -> Object:
        store, jobs = self.cluster.store, self.cluster.jobs
        if self.query.get("dryRun") == "All":
            return store.get(kind.plural, namespace, name)
        if kind.plural == "pods":
            jobs.delete_pod(store.get("pods", namespace, name), None if grace is None else float(grace))
            left = store.objects.get(("pods", namespace, name))
            return clean(left) if left else success(kind, name)
        if kind.plural == "jobs" and policy != "Background":
            finalizer = "foregroundDeletion" if policy == "Foreground" else "orphan"
            if not policy:
                self.warnings.append(ORPHANS)

            def act(it: Object) -> None:
                from tests.kube.store import stamp

                it["metadata"].update(deletionTimestamp=stamp(), deletionGracePeriodSeconds=0, finalizers=[finalizer])

            return clean(store.change("jobs", namespace, name, act))
        store.remove(kind.plural, namespace, name)
        return success(kind, name)

    def _user(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        user = self.cluster.tokens.get(token, "")
        if scheme != "Bearer" or not user:
            raise Refused(401, "Unauthorized", "Unauthorized")
        return user

    def _may(self, user: str, verb: str, kind: Kind, namespace: str, name: str, sub: str) -> None:
        resource = kind.plural + (f"/{sub}" if sub else "")
        if f"{verb} {resource}" in self.cluster.denied.get(user, ()):
            what = f'{kind.full} "{name}"' if name and verb != "create" else kind.full
            where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
            text = f'{what} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{kind.group}"'
            raise Refused(403, "Forbidden", text + where, details(kind, name if verb != "create" else ""))

    def _review(self, user: str) -> Object:
        value = json.loads(self.body)
        asked = value["spec"]["resourceAttributes"]
        asked = {key: one for key, one in asked.items() if one}
        resource = asked["resource"] + (f"/{asked['subresource']}" if asked.get("subresource") else "")
        allowed = f"{asked['verb']} {resource}" not in self.cluster.denied.get(user, ())
        head = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
        return {**head, "spec": {"resourceAttributes": asked}, "status": {"allowed": allowed}}

    def _say(self, code: int, value: Object, more: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for line in self.warnings:
            self.send_header("Warning", line)
        for key, text in (more or {}).items():
            self.send_header(key, text)
        self.end_headers()
        self.wfile.write(data)


def clean(value: Object) -> Object:
    """What a client sees: without the stand-in's own notes."""
    meta = value["metadata"]
    if value.get("kind") == "Status":
        return value
    if "annotations" in meta:
        meta["annotations"] = {key: one for key, one in meta["annotations"].items() if not key.startswith("standin/")}
        if not meta["annotations"]:
            del meta["annotations"]
    for one in value.get("status", {}).get("conditions", ()):
        one.pop("standin_s", None)
    return value


def success(kind: Kind, name: str) -> Object:
    """A Status for what is deleted."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**head, "details": details(kind, name)}


def discovery(path: str) -> Object | None:
    """What kubectl asks first."""
    groups = sorted({kind.group for kind in KINDS.values()} - {""})
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        of = [{"name": name, "versions": [{"groupVersion": f"{name}/v1", "version": "v1"}],
               "preferredVersion": {"groupVersion": f"{name}/v1", "version": "v1"}} for name in groups]  # fmt: skip
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": of}
    at = re.fullmatch(r"/(?:api/v1|apis/([\w.]+)/v1)/?", path)
    if at is None:
        return None
    verbs = "create delete deletecollection get list patch update watch".split()
    kinds = [kind for kind in KINDS.values() if kind.group == (at[1] or "")]
    rows = [{"name": kind.plural, "singularName": kind.kind.lower(), "namespaced": kind.is_namespaced,
             "kind": kind.kind, "verbs": verbs} for kind in kinds]  # fmt: skip
    if not at[1]:
        rows += [{"name": f"pods/{sub}", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
                 for sub in ("exec", "log")]  # fmt: skip
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{at[1]}/v1" if at[1] else "v1",
            "resources": rows}  # fmt: skip


__all__ = ["Door", "Jobs", "time"]
