"""The kubeconfig as kubectl reads it: several files merged, contexts, credential plugins, proxies.

Source: kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig (2026-11): the files of KUBECONFIG,
or ~/.kube/config; of each named entry, and of current-context, the first file that has it wins; relative paths are
relative to the file they stand in.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn.wire import names
from sojourn.wire.errors import Misuse, WorldError

_PLUGIN_S = 60.0
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
IN_CLUSTER = "in-cluster"  # what the context of a pod without a kubeconfig is called
_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


class BadKubeconfig(Misuse):
    """{path}: {detail}."""

    code = "bad-kubeconfig"
    next_step = "kubectl config view"


class NoContext(Misuse):
    """No context is called {wanted!r} in {paths}{hint}."""

    code = "no-context"
    next_step = "kubectl config get-contexts"


class NoCredential(WorldError):
    """The credential plugin {command} of the kubeconfig gave no credential: {detail}."""

    code = "no-credential"
    retry = True
    next_step = "run it by hand; you may have to log in again"


@dataclass(frozen=True)
class Access:
    """One context and the namespace that is meant. `cluster`, `user`: as they stand in the file, paths absolute."""

    context: str
    namespace: str
    cluster: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The address of the API."""
        return str(self.cluster.get("server") or "http://localhost:8080")


def access(address: str) -> Access:
    """The context and namespace that `address`, CONTEXT[/NAMESPACE], names; "" is the current context.

    A context may contain `/` and `:`, so the longest that fits is meant. Raises: BadKubeconfig, NoContext.
    """
    found = _merged()
    contexts = found["contexts"]
    wanted = address or str(found["current-context"])
    fits = [name for name in contexts if wanted == name or wanted.startswith(name + "/")]
    if not fits:
        near = names.nearest(wanted, contexts)
        hint = f"; the nearest is {near!r}" if near else f"; there are: {', '.join(contexts) or 'none'}"
        raise NoContext(wanted=wanted, paths=" or ".join(paths()), hint=hint)
    name = max(fits, key=len)
    context = contexts[name]
    namespace = wanted[len(name) + 1 :] or str(context.get("namespace") or "default")
    parts = {}
    for part in ("cluster", "user"):
        key = str(context.get(part) or "")
        if key and key not in found[f"{part}s"]:
            raise BadKubeconfig(
                path=" or ".join(paths()), detail=f"context {name!r} names the {part} {key!r}, which is not there"
            )  # noqa: E501  fmt: skip
        parts[part] = found[f"{part}s"].get(key, {})
    return Access(name, namespace, parts["cluster"], parts["user"])


def paths() -> list[str]:
    """The files, whether they exist or not."""
    given = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return given or [os.path.join(os.path.expanduser("~"), ".kube", "config")]


def in_cluster(environ: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Clusters, users and contexts for a pod whose service account is mounted in `folder`; {} where none is.

    Source: kubernetes.io/docs/tasks/run-application/access-api-from-pod (2026-11).
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = os.path.join(folder, "token")
    if not host or not os.path.exists(token):
        return {}
    try:
        with open(os.path.join(folder, "namespace"), encoding="utf-8") as file:
            namespace = file.read().strip()
    except OSError:
        namespace = ""
    at = f"[{host}]" if ":" in host else host
    cluster = {"server": f"https://{at}:{port}", "certificate-authority": os.path.join(folder, "ca.crt")}
    return {
        "clusters": {IN_CLUSTER: cluster},
        "users": {IN_CLUSTER: {"tokenFile": token}},
        "contexts": {IN_CLUSTER: {"cluster": IN_CLUSTER, "user": IN_CLUSTER, "namespace": namespace}},
        "current-context": IN_CLUSTER,
    }


def acting_as(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Headers by which a user acts as another one: `as`, `as-uid`, `as-groups`, `as-user-extra`.

    Source: kubernetes.io/docs/reference/access-authn-authz/user-impersonation (2026-11).
    """
    from urllib.parse import quote

    out = [
        (f"Impersonate-{word}", str(user[key])) for key, word in (("as", "User"), ("as-uid", "Uid")) if user.get(key)
    ]
    out += [("Impersonate-Group", str(one)) for one in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        out += [(f"Impersonate-Extra-{quote(str(key), safe='')}", str(one)) for one in values]
    return out


def credential(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, str]:
    """What the user's plugin says: token, or client-certificate-data and client-key-data, as in a kubeconfig.

    Source: kubernetes.io/docs/reference/access-authn-authz/authentication, client-go credential plugins (2026-11).
    Blocks for a minute at the most. Raises: NoCredential.
    """
    import base64

    plugin = user["exec"]
    info: dict[str, Any] = {
        "apiVersion": plugin["apiVersion"],
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    if plugin.get("provideClusterInfo"):
        info["spec"]["cluster"] = {"server": cluster.get("server", "")} | {
            key: cluster[key]
            for key in ("certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
            if key in cluster
        }
        for one in cluster.get("extensions") or ():
            if one.get("name") == "client.authentication.k8s.io/exec":
                info["spec"]["cluster"]["config"] = one.get("extension")
    env = {**os.environ, **{one["name"]: one["value"] for one in plugin.get("env") or ()}}
    words = [str(plugin["command"]), *map(str, plugin.get("args") or ())]
    try:
        ran = subprocess.run(
            words, env={**env, "KUBERNETES_EXEC_INFO": json.dumps(info)}, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PLUGIN_S,
        )  # fmt: skip
    except FileNotFoundError as error:
        hint = " ".join(str(plugin.get("installHint") or "").split())[:300]
        raise NoCredential(command=words[0], detail=f"it is not installed here. {hint}".strip()) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCredential(command=words[0], detail=str(error)) from error
    said = (ran.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {ran.returncode}"])[-1]
    try:
        status = json.loads(ran.stdout)["status"] if ran.returncode == 0 else {}
    except (ValueError, KeyError, TypeError):
        status = {}
    if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
        raise NoCredential(command=words[0], detail=said[:300])
    out = {"token": str(status["token"])} if status.get("token") else {}
    for key, name in (("clientCertificateData", "client-certificate-data"), ("clientKeyData", "client-key-data")):
        if status.get(key):
            out[name] = base64.b64encode(str(status[key]).encode()).decode()
    return out


def _merged() -> dict[str, Any]:
    """{clusters, users, contexts: name -> entry; current-context}. Raises: BadKubeconfig."""
    import yaml

    out: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    if not any(map(os.path.exists, paths())):
        out |= in_cluster(os.environ, SERVICE_ACCOUNT)
    for path in paths():
        try:
            with open(path, encoding="utf-8") as file:
                read = yaml.safe_load(file)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise BadKubeconfig(path=path, detail=str(error).splitlines()[0]) from error
        if read is None:
            continue
        if not isinstance(read, dict):
            raise BadKubeconfig(path=path, detail="it is not a mapping of clusters, users and contexts")
        out["current-context"] = out["current-context"] or read.get("current-context") or ""
        for part in ("cluster", "user", "context"):
            for entry in read.get(f"{part}s") or ():
                if not isinstance(entry, dict) or not isinstance(entry.get(part), dict):
                    if isinstance(entry, dict) and entry.get(part) is None and "name" in entry:
                        out[f"{part}s"].setdefault(str(entry["name"]), {})
                        continue
                    raise BadKubeconfig(path=path, detail=f"an entry of `{part}s` is not {{name, {part}}}")
                out[f"{part}s"].setdefault(str(entry.get("name")), _absolute(part, entry[part], path))
    return out


def _absolute(part: str, entry: Mapping[str, Any], path: str) -> dict[str, Any]:
    folder, out = os.path.dirname(os.path.abspath(path)), dict(entry)
    for key in _PATHS.get(part, ()):
        if out.get(key):
            out[key] = os.path.join(folder, str(out[key]))
    plugin = out.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        out["exec"] = {**plugin, "command": os.path.join(folder, str(plugin["command"]))}
    return out
