"""Scheduler and kubelets of the stand-in: a pod is a process in mount, pid and uts namespaces of its own.

Claims are folders, mounted where the pod wants them; a mount below /mnt is seen by that pod alone. A node that is lost
is not heard any more, and its processes live on, as recorded.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.kube import admission
from tests.kube.jobs import Jobs
from tests.kube.pods import (
    ROOTLESS,
    claims_of,
    conditions,
    container_status,
    field_of,
    fit,
    is_fixed,
    user_of,
)
from tests.kube.store import Object, Refused, Store, stamp

NAMESPACES = ["--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]


@dataclass
class Process:
    """A container that runs or ran. `told_s`: since when it is asked to end."""

    child: subprocess.Popen[bytes]
    began: str
    told_s: float = 0.0
    grace_s: float = 0.0
    reason: str = ""  # instead of what its exit status says: OOMKilled
    is_killed: bool = False


@dataclass
class Nodes:
    """All nodes of a cluster. `folder`: where pods and claims lie; `images`: those that can be pulled."""

    store: Store
    jobs: Jobs
    folder: Path
    images: tuple[str, ...] = ("local/train:1",)
    running: dict[str, Process] = field(default_factory=dict)  # by uid
    lost: set[str] = field(default_factory=set)  # names of nodes that are not heard
    env: dict[str, str] = field(default_factory=dict)

    def sync(self) -> None:
        """One round."""
        with self.store.lock:
            pods = self.store.all("pods")
            for pod in pods:
                if not pod["spec"].get("nodeName"):
                    self._schedule(pod, pods)
            there = {pod["metadata"]["uid"]: pod for pod in self.store.all("pods")}
            for uid, process in list(self.running.items()):
                if uid not in there and self._node_of(uid) not in self.lost:
                    self._kill(uid, process)
            for pod in there.values():
                node = pod["spec"].get("nodeName")
                if node and node not in self.lost and self._has(node):
                    self._tend(pod)

    def close(self) -> None:
        """End every process of every pod."""
        for uid, process in list(self.running.items()):
            self._kill(uid, process)

    def claim(self, namespace: str, name: str) -> Path:
        """The folder that is this claim."""
        return self.folder / "claims" / namespace / name

    def end(self, pod: Object, *, reason: str = "", code: int = 137) -> None:
        """Kill the containers of a pod as the kernel would; `reason`: what its status says then."""
        process = self.running[pod["metadata"]["uid"]]
        process.reason = reason
        signalled(process, signal.SIGKILL)

    def pid(self, uid: str) -> int:
        """The process that is PID 1 in there; 0 for none."""
        process = self.running.get(uid)
        return inside(process.child.pid) if process is not None and process.child.poll() is None else 0

    def _has(self, name: str) -> bool:
        return ("nodes", "", name) in self.store.objects

    def _node_of(self, uid: str) -> str:
        return (self.folder / "pods" / uid / "node").read_text()

    def _schedule(self, pod: Object, pods: list[Object]) -> None:
        against: dict[str, int] = {}
        nodes = self.store.all("nodes")
        why = self._claims(pod)
        for node in nodes:
            said = why or self._unfit(pod, node, pods)
            if not said:
                self._bind(pod, node["metadata"]["name"])
                return
            against[said] = against.get(said, 0) + 1
        if why:
            text = f"0/{len(nodes)} nodes are available: {why}. not found"
        else:
            parts = ", ".join(sorted(f"{number} {said}" for said, number in against.items()))
            help_ = f"0/{len(nodes)} nodes are available: {len(nodes)} Preemption is not helpful for scheduling."
            text = f"0/{len(nodes)} nodes are available: {parts}. no new claims to deallocate, preemption: {help_}"

        def act(it: Object) -> None:
            at = {"lastProbeTime": None, "lastTransitionTime": stamp()}
            one = {"type": "PodScheduled", "observedGeneration": 1, "status": "False", **at}
            known = it["status"].get("conditions") or [{}]
            if known[0].get("message") != text:
                it["status"]["conditions"] = [{**one, "reason": "Unschedulable", "message": text}]

        changed = self.store.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], act)
        if changed["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]:
            self.jobs.event("Warning", "FailedScheduling", text, "Pod", pod)

    def _claims(self, pod: Object) -> str:
        for name in claims_of(pod):
            if ("persistentvolumeclaims", pod["metadata"]["namespace"], name) not in self.store.objects:
                return f'persistentvolumeclaim "{name}" not found'
        return ""

    def _unfit(self, pod: Object, node: Object, pods: list[Object]) -> str:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if name in self.lost or any(
            c["type"] == "Ready" and c["status"] != "True" for c in node["status"]["conditions"]
        ):
            return "node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
        for taint in node["spec"].get("taints") or ():
            if taint["effect"] == "NoSchedule" and not any(
                one.get("key") in (None, taint["key"]) for one in pod["spec"].get("tolerations") or ()
            ):
                return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        if node["spec"].get("unschedulable"):
            return "node(s) were unschedulable"
        wanted = (pod["spec"].get("nodeSelector") or {}).items()
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
        named = {"metadata.name": name}
        fits = [all(fit(labels, one) for one in term.get("matchExpressions", ()))
                and all(fit(named, one) for one in term.get("matchFields", ())) for term in terms]  # fmt: skip
        if any(labels.get(key) != value for key, value in wanted) or (fits and not any(fits)):
            return "node(s) didn't match Pod's node affinity/selector"
        for claim in claims_of(pod):
            zone = self.store.get("persistentvolumeclaims", pod["metadata"]["namespace"], claim)["metadata"]
            zone = (zone.get("annotations") or {}).get("standin/zone", "")
            if zone and labels.get("topology.kubernetes.io/zone") != zone:
                return "node(s) had volume node affinity conflict"
        there = [one for one in pods if one["spec"].get("nodeName") == name
                 and one["status"].get("phase") in ("Pending", "Running")]  # fmt: skip
        for key, much in admission.requests(pod["spec"]).items():
            used = sum(admission.requests(one["spec"]).get(key, 0.0) for one in there)
            if used + much > admission.amount(node["status"]["allocatable"].get(key, "0")):
                return f"Insufficient {key}"
        return ""

    def _bind(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]

        def act(it: Object) -> None:
            it["spec"]["nodeName"] = node
            it["status"]["conditions"] = conditions(pod, is_ready=False)

        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self.store.change("pods", meta["namespace"], meta["name"], act)
        home = self.folder / "pods" / meta["uid"]
        home.mkdir(parents=True, exist_ok=True)
        (home / "node").write_text(node)
        self.jobs.event("Normal", "Scheduled", text, "Pod", pod)

    def _tend(self, pod: Object) -> None:
        meta, phase = pod["metadata"], pod["status"].get("phase")
        process = self.running.get(meta["uid"])
        if process is None and phase == "Pending":
            if "deletionTimestamp" in meta:
                self._ended(pod, {"exitCode": 137, "reason": "Error"})
            else:
                self._begin(pod)
            return
        if process is None:
            if phase == "Running":
                self._ended(pod, {"exitCode": 137, "reason": "Error"})
            elif "deletionTimestamp" in meta:
                self._gone(pod)
            return
        rc = process.child.poll()
        if rc is not None:
            code = 137 if process.is_killed else rc if rc >= 0 else 128 - rc  # unshare has no status for a SIGKILL
            self._kill(meta["uid"], process)
            self._ended(pod, {"exitCode": code, "reason": process.reason or ("Completed" if not code else "Error")})
        elif "deletionTimestamp" in meta:
            if not process.told_s:
                process.told_s, process.grace_s = time.monotonic(), float(meta["deletionGracePeriodSeconds"])
                self.jobs.event("Normal", "Killing", "Stopping container", "Pod", pod)
                signalled(process, signal.SIGTERM)
            elif time.monotonic() > process.told_s + min(process.grace_s, float(meta["deletionGracePeriodSeconds"])):
                signalled(process, signal.SIGKILL)

    def _begin(self, pod: Object) -> None:
        meta, container = pod["metadata"], pod["spec"]["containers"][0]
        if container["image"] not in self.images:
            error = f'failed to pull and unpack image "{container["image"]}": failed to resolve reference'
            self._waits(pod, "ErrImagePull", error) if int(time.time()) % 2 else self._waits(
                pod, "ImagePullBackOff", f'Back-off pulling image "{container["image"]}": ErrImagePull: {error}'
            )
            return
        for one in container.get("env") or ():
            ref = (one.get("valueFrom") or {}).get("secretKeyRef")
            if ref and ("secrets", meta["namespace"], ref["name"]) not in self.store.objects:
                self._waits(pod, "CreateContainerConfigError", f'secret "{ref["name"]}" not found')
                return
        if said := self._attached_elsewhere(pod):
            self._waits(pod, "ContainerCreating", "")
            self.jobs.event("Warning", "FailedAttachVolume", said, "Pod", pod)
            return
        home = self.folder / "pods" / meta["uid"]
        with open(home / "log", "ab") as log:
            argv = [*container.get("command", ()), *container.get("args", ())]
            child = subprocess.Popen(
                ["unshare", *ROOTLESS, *NAMESPACES, "sh", "-c", self._mounts(pod), "pod", *argv],
                env=self._env(pod), cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.running[meta["uid"]] = Process(child, stamp())
        for reason, text in (("Pulled", f'Container image "{container["image"]}" already present on machine'),
                             ("Created", "Container created"), ("Started", "Container started")):  # fmt: skip
            self.jobs.event("Normal", reason, text, "Pod", pod)

        def act(it: Object) -> None:
            state = {"running": {"startedAt": stamp()}}
            it["status"].update(phase="Running", startTime=stamp(), conditions=conditions(pod, is_ready=True))
            it["status"]["containerStatuses"] = [container_status(container, state, is_ready=True)]

        self.store.change("pods", meta["namespace"], meta["name"], act)

    def _attached_elsewhere(self, pod: Object) -> str:
        """Read, not recorded: what the controller says of a claim that one node may mount, and another one has."""
        meta = pod["metadata"]
        for name in claims_of(pod):
            claim = self.store.get("persistentvolumeclaims", meta["namespace"], name)
            if "ReadWriteMany" in claim["spec"]["accessModes"]:
                continue
            for one in self.store.all("pods", meta["namespace"]):
                process = self.running.get(one["metadata"]["uid"])
                elsewhere = one["spec"].get("nodeName") != pod["spec"].get("nodeName")
                if process is not None and elsewhere and name in claims_of(one):
                    volume = f'Multi-Attach error for volume "pvc-{claim["metadata"]["uid"]}"'
                    return f"{volume} Volume is already used by pod(s) {one['metadata']['name']}"
        return ""

    def _mounts(self, pod: Object) -> str:
        """A shell that mounts and becomes the command."""
        meta, lines = (
            pod["metadata"],
            [f"hostname {shlex.quote(pod['spec'].get('hostname') or pod['metadata']['name'])}"],
        )
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        mounts = pod["spec"]["containers"][0].get("volumeMounts") or ()
        binds = []
        for one in mounts:
            volume = volumes[one["name"]]
            if "persistentVolumeClaim" in volume:
                source = self.claim(meta["namespace"], volume["persistentVolumeClaim"]["claimName"])
                source.mkdir(parents=True, exist_ok=True)
            elif (volume.get("emptyDir") or {}).get("medium") == "Memory":
                lines.append(f"mount -t tmpfs tmpfs {shlex.quote(one['mountPath'])}")
                continue
            else:
                source = self.folder / "pods" / meta["uid"] / "volumes" / one["name"]
                source.mkdir(parents=True, exist_ok=True)
            if group := (pod["spec"].get("securityContext") or {}).get("fsGroup"):
                lines.append(
                    f"chgrp -R {group} {shlex.quote(str(source))} && chmod -R g+rwX {shlex.quote(str(source))}"
                )
            binds.append((str(source), one["mountPath"]))
        if any(to.startswith("/mnt/") for _, to in binds):
            lines.append("mount -t tmpfs tmpfs /mnt")
        for source, to in binds:
            quoted = shlex.quote(to)
            lines.append(f"mkdir -p {quoted} && mount --bind {shlex.quote(source)} {quoted}")
        if is_fixed(pod):
            lines.append("mount -o remount,ro,bind /")
        if user := user_of(pod):
            lines.append("cd /")
            return " && ".join(lines) + f' && exec setpriv --reuid {user} --regid {user} --clear-groups "$@"'
        return " && ".join(lines) + ' && exec "$@"'

    def _env(self, pod: Object) -> dict[str, str]:
        meta, container = pod["metadata"], pod["spec"]["containers"][0]
        env = {
            "PATH": os.environ["PATH"],
            "OMP_NUM_THREADS": "1",
            "HOME": str(self.folder / "pods" / meta["uid"]),
            **self.env,
        }
        env["KUBERNETES_SERVICE_HOST"] = "192.0.2.1"
        if user_of(pod):
            env["HOME"] = "/"  # as of a user whom the image does not know
        for one in container.get("env") or ():
            source = one.get("valueFrom") or {}
            if "fieldRef" in source:
                env[one["name"]] = field_of(pod, source["fieldRef"]["fieldPath"])
            elif "secretKeyRef" in source:
                ref = source["secretKeyRef"]
                data = self.store.get("secrets", meta["namespace"], ref["name"])
                env[one["name"]] = (data.get("stringData") or {}).get(ref["key"], "")
            else:
                env[one["name"]] = one.get("value", "")
        return env

    def _waits(self, pod: Object, reason: str, message: str) -> None:
        container = pod["spec"]["containers"][0]

        def act(it: Object) -> None:
            state = {"waiting": {"reason": reason, "message": message}}
            it["status"]["containerStatuses"] = [container_status(container, state, is_ready=False)]

        self.store.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], act)

    def _ended(self, pod: Object, how: Object) -> None:
        meta, container = pod["metadata"], pod["spec"]["containers"][0]

        def act(it: Object) -> None:
            state = {"terminated": {**how, "finishedAt": stamp()}}
            kept = [one for one in it["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"]
            it["status"].update(phase="Failed" if how["exitCode"] else "Succeeded")
            it["status"]["conditions"] = [*conditions(pod, is_ready=False), *kept]
            it["status"]["containerStatuses"] = [container_status(container, state, is_ready=False)]
            if "deletionTimestamp" in it["metadata"]:
                it["metadata"].setdefault("annotations", {})["standin/ended"] = "yes"

        self.store.change("pods", meta["namespace"], meta["name"], act)

    def _gone(self, pod: Object) -> None:
        if not pod["metadata"].get("finalizers"):
            self.store.remove("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _kill(self, uid: str, process: Process) -> None:
        signalled(process, signal.SIGKILL)
        process.child.wait()
        self.running.pop(uid, None)


def inside(pid: int) -> int:
    """The child of an `unshare`, which is PID 1 in there; 0 where there is none (any more)."""
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(told[0]) if told else 0


def signalled(process: Process, number: int) -> None:
    """Signal PID 1 in there, which takes all of it along when it ends."""
    pid = inside(process.child.pid)
    try:
        if pid:
            os.kill(pid, number)
            process.is_killed = process.is_killed or number == signal.SIGKILL
        elif number == signal.SIGKILL:
            process.child.kill()
    except ProcessLookupError:
        return


def gone(store: Store, namespace: str, name: str) -> bool:
    """Whether there is no such pod."""
    try:
        store.get("pods", namespace, name)
    except Refused:
        return True
    return False
