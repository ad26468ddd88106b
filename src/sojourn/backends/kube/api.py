"""The API of a cluster: one question, one answer, over a client that lightkube makes of the kubeconfig.

What is safe to repeat is repeated where the server is busy or the connection breaks; what may have been done and was
not heard is NoAnswer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from sojourn.backends.kube import kubeconfig
from sojourn.backends.kube.kubeconfig import Access
from sojourn.core.values import NoAnswer, Site
from sojourn.wire.errors import Misuse, WorldError

CALL_S = 30.0
TRIES = 3  # where the connection is refused or breaks
PAGE = 5000  # objects an answer: more of ours than anybody has, so that one call is enough
BUSY = (429, 500, 502, 503, 504)
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_SAID_CHARS = 600


class ExtraMissing(Misuse):
    """The site {site} needs sojourn's extra for Kubernetes, which is not installed ({module} is missing)."""

    code = "extra-missing"
    next_step = "pip install 'sojourn[k8s]'"


class ApiRefused(WorldError):
    """{context}: {message}."""

    code = "api-refused"
    status = 0
    reason = ""


class NotAllowed(WorldError):
    """The cluster does not allow you to {verb} {resource} in namespace {namespace} of {context}."""

    code = "not-allowed"
    next_step = (
        "ask for this role: kubectl -n {namespace} create role sojourn-{word} --verb={verb} --resource={qualified}"
    )


class Api:
    """The cluster of one context. Holds a connection, and nothing that a second one would miss."""

    def __init__(self, access: Access, site: str = "") -> None:
        self.access, self.site = access, site
        self._client: Any = None
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        kind: str = "application/json",
        timeout_s: float = CALL_S,
        is_repeatable: bool | None = None,
    ) -> dict[str, Any] | NoAnswer:
        """The JSON that the server answers. `is_repeatable`: it may be sent twice; by default only what reads.

        Raises: ApiRefused, NotAllowed, NoCredential, ExtraMissing.
        """
        may_repeat = method == "GET" if is_repeatable is None else is_repeatable
        deadline_s, pause_s, is_fresh = time.monotonic() + timeout_s, _PAUSE_S, False
        tries = 0
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", **({"Content-Type": kind} if data is not None else {})}
        while True:
            left_s = max(0.5, deadline_s - time.monotonic())
            said = self._sent(method, path, params, headers, data, left_s)
            if isinstance(said, NoAnswer):
                tries += 1
                no, wait_s, again = said, pause_s, tries < TRIES and (may_repeat or not said.sent)
            elif said.status_code == 401 and not is_fresh:
                self.renew()  # a token that expired: the plugin or the file has a new one
                is_fresh = True
                continue
            elif said.status_code < 400:
                return self._object(said.content)
            else:
                if said.status_code == 401:
                    return self.no_credentials()
                again = said.status_code in BUSY and (may_repeat or said.status_code in (429, 503))
                if not again and said.status_code not in (500, 502, 504):
                    raise self.refusal(said.status_code, said.content, method, path)
                no = NoAnswer(not again, "busy", f"{self.access.context}: {self._words(said)}")
                wait_s = max(pause_s, seconds(said.headers.get("Retry-After")))
            if not again or time.monotonic() + wait_s >= deadline_s:
                return no
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def listed(
        self, path: str, labels: str = "", fields: str = "", timeout_s: float = CALL_S
    ) -> list[dict[str, Any]] | NoAnswer:
        """All objects of a collection that the selectors choose. Raises: as `ask`.

        A server that has forgotten where the last page ended (410) is asked for all of it again.
        """
        params: dict[str, Any] = {"limit": PAGE}
        params |= {"labelSelector": labels} if labels else {}
        params |= {"fieldSelector": fields} if fields else {}
        out: list[dict[str, Any]] = []
        tries = 0
        while True:
            try:
                said = self.ask("GET", path, params=params, timeout_s=timeout_s)
            except ApiRefused as no:
                tries += 1
                if no.status != 410 or "continue" not in params or tries == TRIES:
                    raise
                out.clear()
                del params["continue"]
                continue
            if isinstance(said, NoAnswer):
                return said
            out += [one for one in said.get("items") or () if isinstance(one, dict)]
            more = (said.get("metadata") or {}).get("continue")
            if not more:
                return out
            params["continue"] = more

    def text(self, path: str, params: Mapping[str, Any], timeout_s: float = CALL_S) -> str | NoAnswer:
        """What a pod's log holds. Raises: ApiRefused, NotAllowed."""
        said = self._sent("GET", path, params, {}, None, timeout_s)
        if isinstance(said, NoAnswer):
            return said
        if said.status_code >= 400:
            raise self.refusal(said.status_code, said.content, "GET", path)
        return str(said.content.decode("utf-8", "replace"))

    def path(self, plural: str, name: str = "", sub: str = "", namespace: str = "") -> str:
        """The path of a namespaced collection or object."""
        group = "apis/batch/v1" if plural == "jobs" else "api/v1"
        parts = [group, "namespaces", namespace or self.access.namespace, plural, name, sub]
        return "/" + "/".join(part for part in parts if part)

    @property
    def extensions(self) -> dict[str, Any]:
        """What goes along with each request: the name by which the server's certificate is checked."""
        name = self.access.cluster.get("tls-server-name")
        return {"sni_hostname": str(name)} if name else {}

    def client(self) -> Any:
        """The HTTP client, made once. Raises: ExtraMissing, NoCredential, BadKubeconfig."""
        with self._lock:
            if self._client is None:
                self._client = self._made()
            return self._client

    def renew(self) -> None:
        """Forget the client: the next one reads tokens and asks plugins again."""
        with self._lock:
            old, self._client = self._client, None
        if old is not None:
            old.close()

    def refusal(self, status: int, content: bytes, method: str, path: str) -> WorldError:
        """The server's no as an error."""
        said = self._object(content)
        text = str(said.get("message") or content[:_SAID_CHARS].decode("utf-8", "replace")).strip().rstrip(".")
        found = said.get("reason") == "Forbidden" and " cannot " in text
        if status == 403 and (found or not said):
            return self.not_allowed(text, method, path)
        error = ApiRefused(context=self.access.context, message=text[:_SAID_CHARS] or f"status {status}")
        error.status, error.reason = status, str(said.get("reason") or "")
        return error

    def not_allowed(self, text: str, method: str, path: str) -> NotAllowed:
        """Which right is missing, from the server's text, otherwise from the request."""
        import re

        verbs = {"GET": "get", "POST": "create", "DELETE": "delete", "PATCH": "patch", "PUT": "update"}
        told = re.search(r'cannot (\w+) resource "([\w/]+)" in API group "([\w.]*)"', text)
        tail = path.split("/namespaces/")[-1].split("/")[1:] or ["resources"]
        verb, resource, group = told.groups() if told else (verbs.get(method, "get"), tail[0], "")
        plural, slash, sub = resource.partition("/")
        qualified = f"{plural}.{group}" if group else plural
        return NotAllowed(
            verb=verb, resource=resource, namespace=self.access.namespace, context=self.access.context,
            qualified=qualified + slash + sub, word=f"{verb}-{resource.replace('/', '-')}",
        )  # fmt: skip

    def _object(self, content: bytes) -> dict[str, Any]:
        try:
            value = json.loads(content)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def _words(self, said: Any) -> str:
        return str(self._object(said.content).get("message") or f"status {said.status_code}")[:_SAID_CHARS]

    def _sent(
        self, method: str, path: str, params: Mapping[str, Any] | None, headers: Mapping[str, str], data: bytes | None,
        timeout_s: float,
    ) -> Any:  # fmt: skip
        """The client's response, or a NoAnswer."""
        client = self.client()
        import httpx2

        how = {"params": dict(params or {}), "content": data, "headers": dict(headers), "extensions": self.extensions}
        try:
            return client.request(method, path, timeout=timeout_s, **how)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.PoolTimeout) as error:
            return self.no_answer(error, sent=False)
        except httpx2.HTTPError as error:
            return self.no_answer(error, sent=True)

    def no_credentials(self) -> NoAnswer:
        """They were not accepted, also when they were asked for anew."""
        step = "log in to the cluster again (kubectl get pods shows whether you are)"
        return NoAnswer(False, "auth", f"{self.access.context} does not accept your credentials", step)

    def no_answer(self, error: Exception, *, sent: bool) -> NoAnswer:
        """Nobody answered, in one line."""
        kind = "timeout" if "Timeout" in type(error).__name__ else "reset" if sent else "refused"
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "CERTIFICATE" in text.upper():
            return NoAnswer(False, "certificate", f"{self.access.server}: {text}", "kubectl get pods")
        return NoAnswer(sent, kind, f"{self.access.server}: {text}")

    def _made(self) -> Any:
        try:
            from lightkube.config.client_adapter import Client, ConnectionParams
            from lightkube.config.kubeconfig import KubeConfig
            from lightkube.core.exceptions import ConfigError
        except ImportError as error:
            raise ExtraMissing(site=self.site or self.access.context, module=error.name) from error
        user, name = dict(self.access.user), self.access.context
        if user.get("exec"):
            user = kubeconfig.credential(user, self.access.cluster)
        cluster = {**self.access.cluster, "server": self.access.server}
        proxy = cluster.pop("proxy-url", None)
        whole = {
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
        try:
            config: Any = KubeConfig.from_dict(whole).get(name)
            client = Client(config, ConnectionParams(proxy=str(proxy) if proxy else None))
            client.headers = [*client.headers.multi_items(), *kubeconfig.acting_as(self.access.user)]
            return client
        except (OSError, ValueError, ConfigError) as error:
            where = " or ".join(kubeconfig.paths())
            raise kubeconfig.BadKubeconfig(path=where, detail=f"context {name!r}: {error}") from error


_apis: dict[str, Api] = {}  # of this process, by all that they are made of


def of_site(site: Site, address: str) -> Api:
    """The API of a site: the same one in all of a process. Raises: BadKubeconfig, NoContext."""
    found = kubeconfig.access(address)
    key = json.dumps([site.name, found.context, found.namespace, dict(found.cluster), dict(found.user)], default=str)
    return _apis.setdefault(key, Api(found, site.name))


def seconds(text: Any) -> float:
    """What a Retry-After says; 0 for none."""
    return float(text) if str(text).isdigit() else 0.0
