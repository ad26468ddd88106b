"""The reader: a small pod on a site's claim, in which commands run whether or not anything trains.

It is made when it is needed and ends by itself when nothing was asked of it for a while; its name is fixed, so two
clients share one. Nothing in it but the claim is kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.kube import attached, pending
from sojourn.backends.kube.api import Api, ApiRefused, NotAllowed
from sojourn.backends.kube.names import COMPONENT, MANAGED, MOUNT, READER, claim_label, claim_of, digest, options
from sojourn.backends.kube.podspec import overlaid
from sojourn.backends.kube.security import HINT, secured, with_tmp
from sojourn.core.values import NoAnswer, Site
from sojourn.wire.errors import WorldError

IMAGE = "python:3.12-slim"
IDLE_S = 600
READY_S = 180.0  # an image may have to be pulled first
HOPELESS_S = 20.0  # that an image cannot be pulled may pass; a missing claim does not
# It has 5 s to end, so its node is lost. Its name has to be free; a command that still runs there has lost its input.
STUCK_S = 45.0
_LOOK_S, _LONGEST_LOOK_S = 0.05, 1.0
# $1 seconds. Any process beside these two counts as asked; the mark is for calls that came and went between two looks.
_WAIT = r"""
trap 'exit 0' TERM INT
mark=${TMPDIR:-/tmp}/.sojourn-called.${HOSTNAME:-$(hostname)} left=$1
while [ "$left" -gt 0 ]; do
  sleep 5 & wait $!
  set -- /proc/[0-9]*
  if [ -e "$mark" ] || [ $# -gt 3 ]; then rm -f "$mark"; left=@idle@; else left=$((left - 5)); fi
done
"""
# Around every command: it marks that somebody called, where anything may be written; a shell ends where `:` cannot
# write, hence the other one. `exec` gives 127 for a program that is not there.
CALLED = '( : >"${TMPDIR:-/tmp}/.sojourn-called.${HOSTNAME:-$(hostname)}" ) 2>/dev/null; exec "$@"'


class NoReader(WorldError):
    """{site}: the pod {pod}, which reads and writes the claim {claim}, does not start: {why}."""

    code = "no-reader"
    retry = True
    next_step = "kubectl -n {namespace} describe pod {pod}"


class NoClaim(WorldError):
    """{site}: namespace {namespace} of {context} has no claim {claim}, which would hold its runs{others}."""

    code = "no-claim"
    next_step = "create it as docs/kubernetes.md shows, or set `claim` in [sites.NAME.kube]"


class NoNamespace(WorldError):
    """{site}: {context} has no namespace {namespace}."""

    code = "no-namespace"
    next_step = "kubectl get namespaces, then name one as k8s:{context}/NAMESPACE"


class ClaimForOnePod(WorldError):
    """{site}: claim {claim} is {modes}, but a run's pod and the one that reads its results both need to write it."""

    code = "claim-for-one-pod"
    next_step = "create a claim that is ReadWriteMany or ReadWriteOnce, and set `claim` in [sites.NAME.kube]"


class ReaderRefused(WorldError):
    """{site}: namespace {namespace} does not admit the pod that reads and writes the claim: {said}."""

    code = "reader-refused"
    next_step = "{step}"


def name(site: Site) -> str:
    """What the site's reader is called."""
    return f"sojourn-reader-{digest(claim_of(site))}"


def ready(api: Api, site: Site, timeout_s: float = READY_S) -> str | NoAnswer:
    """The name of a reader that runs; made where there is none. Blocks for `timeout_s` at the most.

    Raises: NoReader, NoClaim, NotAllowed, ApiRefused, BadPodSetting.
    """
    deadline_s, pause_s, pod = time.monotonic() + timeout_s, _LOOK_S, name(site)
    why, wrong_since_s, ends_since_s = "it was not created", 0.0, 0.0
    while True:
        found = look(api, site)
        if isinstance(found, NoAnswer):
            return found
        phase = "" if found is None else str(found.get("status", {}).get("phase"))
        if found is None:
            if (no := _make(api, site)) is not None:
                return no
            why = "it was not seen yet"
        elif phase in ("Succeeded", "Failed") and "deletionTimestamp" not in found["metadata"]:
            if (no := delete(api, site)) is not None:
                return no
            continue
        elif phase == "Running" and "deletionTimestamp" not in found["metadata"]:
            return pod
        elif "deletionTimestamp" in found["metadata"]:
            why, ends_since_s = "it is being deleted", ends_since_s or time.monotonic()
            if time.monotonic() - ends_since_s > STUCK_S and (no := delete(api, site, grace_s=0)) is not None:
                return no
        else:
            why, is_hopeless = pending.reason(found)
            wrong_since_s = (wrong_since_s or time.monotonic()) if is_hopeless else 0.0
        late = wrong_since_s and time.monotonic() - wrong_since_s > HOPELESS_S
        if late or time.monotonic() >= deadline_s:
            where = {"namespace": api.access.namespace, "pod": pod, "claim": claim_of(site)}
            raise NoReader(site=site.name, why=why, **where)
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_LOOK_S)


def look(api: Api, site: Site) -> dict[str, Any] | None | NoAnswer:
    """The reader as the cluster has it; None where there is none."""
    try:
        return api.ask("GET", api.path("pods", name(site)))
    except ApiRefused as no:
        if no.status != 404:
            raise
        return None


def delete(api: Api, site: Site, grace_s: int = 1) -> None | NoAnswer:
    """Have it ended; harmless where there is none. With a grace of 0 the cluster forgets it unseen."""
    try:
        said = api.ask("DELETE", api.path("pods", name(site)), body={"gracePeriodSeconds": grace_s}, is_repeatable=True)
    except ApiRefused as no:
        if no.status != 404:
            raise
        return None
    return said if isinstance(said, NoAnswer) else None


def give_way(api: Api, site: Site, pods: Sequence[Mapping[str, Any]]) -> None:
    """End the reader where it holds a claim of one node, for which a pod of a run waits on another.

    `pods`: those of runs. Costs nothing while none waits. Raises: NotAllowed, ApiRefused.
    """
    mine = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("sojourn-claim") == claim_label(site)]
    node = attached.waits_on(mine)
    found = look(api, site) if node else None
    if found is None or isinstance(found, NoAnswer):
        return
    its = (found.get("spec") or {}).get("nodeName")
    if not its or its == node or (found.get("status") or {}).get("phase") not in ("Pending", "Running"):
        return
    claims = api.listed(api.path("persistentvolumeclaims"), fields=f"metadata.name={claim_of(site)}")
    if not isinstance(claims, NoAnswer) and any(map(attached.is_for_one_node, claims)):
        delete(api, site)


def manifest(site: Site, node: str = "") -> dict[str, Any]:
    """The pod. `node`: the one that has the claim, where only one may. Raises: BadPodSetting."""
    claim, chosen = claim_of(site), options(site)
    beside = {"labelSelector": {"matchLabels": {MANAGED: "sojourn", "sojourn-claim": claim_label(site)}}}
    near = {"weight": 100, "podAffinityTerm": {**beside, "topologyKey": "kubernetes.io/hostname"}}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # A claim that one node may mount at a time is on the node of what trains on it.
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]}},
        "volumes": [{"name": "sojourn", "persistentVolumeClaim": {"claimName": claim}}],
        "containers": [
            {
                "name": READER,
                "image": str(chosen.get("reader_image") or IMAGE),
                "command": ["sh", "-c", _WAIT.replace("@idle@", str(IDLE_S)), "sojourn", str(IDLE_S)],
                "env": [{"name": "HOME", "value": MOUNT}, *registry()],
                "volumeMounts": [{"name": "sojourn", "mountPath": MOUNT}],
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            }
        ],
    }
    if secrets := chosen.get("pull_secrets"):
        spec["imagePullSecrets"] = [{"name": str(one)} for one in secrets]
    spec = attached.put_there(secured(spec, site), node) if node else secured(spec, site)
    labels = {MANAGED: "sojourn", COMPONENT: READER, "sojourn-claim": claim_label(site)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name(site), "labels": labels},
        "spec": with_tmp(overlaid(spec, chosen.get("reader_pod") or {}, site.name, "reader_pod")),
    }


def registry() -> list[dict[str, str]]:
    """The variable that has keepers register their base on the claim, not in the container."""
    return [{"name": "SOJOURN_BOX_REGISTRY", "value": f"{MOUNT}/.sojourn-registry"}]


def _make(api: Api, site: Site) -> None | NoAnswer:
    node = _node(api, site)
    if isinstance(node, NoAnswer):
        return node
    params = {"fieldValidation": "Strict"}
    try:
        said = api.ask("POST", api.path("pods"), params=params, body=manifest(site, node), is_repeatable=True)
    except ApiRefused as no:
        if no.reason == "AlreadyExists":
            return None
        if no.status not in (403, 422):
            raise
        told = str(no.fields["message"])
        step = "set the fields that it names under `reader_pod` in [sites.{site}.kube]"
        step = (HINT if "PodSecurity" in told else step).format(site=site.name)
        if "exceeded quota" in told:
            step = f"kubectl -n {api.access.namespace} describe quota  (the pod needs 0.1 CPU and 256 MiB)"
        why = pending.brief(told)
        raise ReaderRefused(site=site.name, namespace=api.access.namespace, said=why, step=step) from no
    return said if isinstance(said, NoAnswer) else None


def _node(api: Api, site: Site) -> str | NoAnswer:
    """The node on which the reader must be; "" for any.

    Raises: NoClaim, NoNamespace, ClaimForOnePod. Who may not list claims learns from the pod what is wrong with his.
    """
    try:
        claims = api.listed(api.path("persistentvolumeclaims"))
    except NotAllowed:
        return ""
    if isinstance(claims, NoAnswer):
        return claims
    known = {str(one["metadata"]["name"]): one for one in claims}
    mine = known.get(claim_of(site))
    where = {"namespace": api.access.namespace, "context": api.access.context}
    if mine is None:
        if not known and not _has_namespace(api):
            raise NoNamespace(site=site.name, **where)
        others = f" (it has: {', '.join(known)})" if known else ""
        raise NoClaim(site=site.name, claim=claim_of(site), others=others, **where)
    modes = attached.modes(mine)
    if modes and not {"ReadWriteMany", "ReadWriteOnce"} & set(modes):
        raise ClaimForOnePod(site=site.name, claim=claim_of(site), modes=", ".join(modes))
    if not attached.is_for_one_node(mine):
        return ""
    pods = api.listed(api.path("pods"), attached.runs(site))
    return pods if isinstance(pods, NoAnswer) else attached.wanted_on(pods)


def _has_namespace(api: Api) -> bool:
    """False only where the cluster says that there is none."""
    try:
        api.ask("GET", f"/api/v1/namespaces/{api.access.namespace}")
    except WorldError as no:
        return getattr(no, "status", 0) != 404
    return True
