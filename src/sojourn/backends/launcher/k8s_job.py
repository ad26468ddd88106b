"""A Kubernetes Job: the keeper in a pod on whatever node the cluster gives it, in another one where that is taken away.

The Job survives this client and the link. What ends it for the cluster's own reasons is made good by the cluster with
another pod, and the run goes on as its next attempt; see `box.supervise.seat`. The Job stays when it is over, without a
time to live, until `down` takes it away. `[sites.NAME.k8s_job]`: how its pods look; see docs/kubernetes.md.
"""

from __future__ import annotations

import json
import math
import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sojourn.backends.kube import api as kube_api
from sojourn.backends.kube import cells, foresight, gpus, leftovers, manifest, names, reader, remains, states
from sojourn.backends.kube.api import Api, ApiRefused
from sojourn.backends.kube.states import Seen
from sojourn.backends.way import way
from sojourn.core.inventory import Inventory
from sojourn.core.ports import ArrayTask, DryRun, Handle, LaunchRequest, SchedulerStatus
from sojourn.core.values import NoAnswer, Place, Pulse, Site
from sojourn.wire import quote
from sojourn.wire.errors import Misuse, WorldError

CALL_S = 30.0
END_S = 60.0  # beyond the grace, for a node to say that a pod has ended
_LOOK_S = 0.2
_LOG_LINES, _LOG_BYTES = 200, 1 << 18


class JobRefused(WorldError):
    """{site}: the cluster rejected the Job: {said}."""

    code = "job-refused"
    next_step = "sojourn plan (shows the Job), and [sites.{site}.k8s_job] in your settings"

    @property
    def is_end(self) -> bool:
        """Asked again as it stands, the cluster would say the same."""
        return int(self.fields.get("status", 0)) in (400, 404, 422)


class CannotWait(Misuse):
    """{site}: a Job cannot wait for another run (`after`)."""

    code = "cannot-wait"
    next_step = "sojourn watch the other run, and then sojourn run"


class Backend:
    """Launcher `k8s_job`."""

    survives: ClassVar[frozenset[str]] = frozenset({"link-drop", "client-exit", "logout", "reboot"})
    schedules: ClassVar[bool] = True
    spans: ClassVar[bool] = False

    def __init__(self, site: Site | None = None) -> None:
        """`site`: its address, and `options["kube"]` and `options["k8s_job"]`."""
        self._site = site or Site("kube", "kube", "k8s_job")

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """A Job, unless one of this root waits or runs. Raises: JobRefused, NotAllowed, NoSuchGpu, BadPodSetting."""
        api, request = self._api(place), request or LaunchRequest()
        names.check_base(place.site, root)
        found = api.listed(api.path("jobs"), f"{names.OURS},sojourn-root={names.digest(root)}")
        if isinstance(found, NoAnswer):
            return found
        numbers = [0]
        for job in found:
            numbers.append(_number(str(job["metadata"]["name"])))
            if not _is_over(job) and "deletionTimestamp" not in job["metadata"]:
                return _handle(str(job["metadata"]["name"]), root)
        run = root.rstrip("/").rpartition("/")[2]
        name = f"{names.as_dns(run)}-{names.digest(root)}-{max(numbers) + 1}"
        made = self._manifest(place.site, api, argv, root, name, request)
        if isinstance(made, NoAnswer):
            return made
        said = self._create(api, place.site, made)
        return said if isinstance(said, NoAnswer) else _handle(name, root)

    def script(self, argv: Sequence[str], root: str, request: LaunchRequest) -> str:
        """The Job as YAML. Raises: BadPodSetting, OffClaim, NoSuchGpu."""
        import yaml

        api = self._api(Place(self._site))
        run = root.rstrip("/").rpartition("/")[2]
        made = self._manifest(self._site, api, argv, root, f"{names.as_dns(run)}-{names.digest(root)}-1", request)
        if isinstance(made, NoAnswer):
            made = manifest.job(self._site, root, f"{names.as_dns(run)}-1", argv, request, {})
        return str(yaml.safe_dump(made, sort_keys=False, width=120))

    def try_out(self, place: Place, script: str) -> DryRun | NoAnswer:
        """A dry run by the server of the Job and of its pod; then quota and nodes, as far as one may look."""
        return foresight.try_out(self._api(place), script, place.site.name)

    def start_all(
        self,
        place: Place,
        argv: Sequence[str],
        home: str,
        roots: Sequence[ArrayTask],
        request: LaunchRequest,
        at_once: int,
    ) -> list[Handle] | NoAnswer:
        """Indexed Jobs for those of them that were not asked for yet. Raises: as `start`."""
        api, site = self._api(place), place.site
        listed = cells.listed(way(place), home, roots, at_once)
        if isinstance(listed, NoAnswer):
            return listed
        picked = self._picked(site, api, request)
        if isinstance(picked, NoAnswer):
            return picked
        for part in listed.parts:
            if part.is_made:
                continue
            made = manifest.cells(
                site, posixpath.dirname(roots[0].root), part.path, part.job, argv, (part.count, listed.limit), request,
                picked,
            )  # fmt: skip
            said = self._create(api, site, made) or cells.mark(way(place), part)
            if isinstance(said, NoAnswer):
                return said
        return [_handle(listed.natives[posixpath.basename(one.root)], one.root) for one in roots]

    def states(self, place: Place, handles: Sequence[Handle]) -> Sequence[SchedulerStatus]:
        """Two lists for all; two more where a node or a quota is in doubt, or a pod waits for its claim."""
        try:
            api = self._api(place)
            seen = self._seen(api)
            if not isinstance(seen, NoAnswer):
                reader.give_way(api, place.site, [pod for pods in seen.pods.values() for pod in pods])
        except WorldError as no:
            return [SchedulerStatus(Pulse.UNKNOWN, reason=no.message) for _ in handles]
        if isinstance(seen, NoAnswer):
            return [
                SchedulerStatus(Pulse.UNKNOWN, reason=f"the cluster does not answer: {seen.detail}") for _ in handles
            ]
        return [states.word(handle.native, seen) for handle in handles]

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """ALIVE while the Job waits or runs."""
        return self.states(place, [handle])[0].pulse

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """Delete the Job; its pods get SIGTERM and `grace_s`."""
        return self._end(place, [handle], grace_s)

    def cancel(self, place: Place, handles: Sequence[Handle]) -> None | NoAnswer:
        """Delete their Jobs; of one that has other cells too, take these cells out."""
        return self._end(place, handles, None)

    def records(self, place: Place, handle: Handle, root: str) -> Mapping[str, tuple[int, str]]:
        """Job, pods, events, claim and nodes as kubectl prints them, and the end of the pod's own log."""
        api = self._api(place)
        name, _ = states.split(handle.native)
        try:
            seen = self._seen(api)
            if isinstance(seen, NoAnswer):
                return {}
            pods = states.pods_of(handle.native, seen)
            about = {name, *(str(pod["metadata"]["name"]) for pod in pods)}
            job = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": name}} | dict(
                seen.jobs.get(name) or {}
            )
            out = {f"kubectl get job {name} -o json": (0, json.dumps(job))}
            out["kubectl get pods -o json"] = (0, _listed("Pod", pods[-1:]))
            out |= leftovers.around(api, place.site, about)
            if pods:
                out |= leftovers.log(api, str(pods[-1]["metadata"]["name"]), _LOG_LINES, _LOG_BYTES)
        except WorldError:
            return {}
        return out

    def by_hand(self, root: str, native: str) -> dict[str, str]:
        """Lines for whoever has kubectl and this kubeconfig."""
        access = self._api(Place(self._site)).access
        kubectl = quote.join(["kubectl", "--context", access.context, "-n", access.namespace])
        name, _ = states.split(native)
        chosen = f"-l job-name={name}" if name else f"-l sojourn-root={names.digest(root)}"
        which = name or f"-l sojourn-root={names.digest(root)}"
        return {
            "look": f"{kubectl} get pods {chosen} -o wide; {kubectl} describe job {which}",
            "stop": f"{kubectl} delete job {which} --cascade=foreground",
            "start": f"sojourn resume {quote.join([posixpath.basename(root)])}",
        }

    def used(self, place: Place, handles: Sequence[Handle]) -> str:
        """Nothing that the cluster keeps account of for us."""
        return ""

    def tidy(self, place: Place, handles: Sequence[Handle]) -> str | NoAnswer:
        """Take away what is over of these, and the reader; what stays, in a line."""
        roots = {str(one.facts.get("root")) for one in handles}
        return leftovers.tidy(self._api(place), place.site, {states.split(one.native)[0] for one in handles}, roots)

    def kept(self, place: Place, handles: Sequence[Handle]) -> Inventory | NoAnswer:
        """All of ours in the namespace, with the claims that hold runs; see `core.ports.Scheduler`."""
        return remains.kept(self._api(place), place.site, handles)

    def check(self, place: Place) -> WorldError | None:
        """What `start` would raise, as far as can be told before: a right that is missing."""
        return foresight.missing_right(self._api(place))

    def _api(self, place: Place) -> Api:
        return kube_api.of_site(place.site, place.address)

    def _picked(self, site: Site, api: Api, request: LaunchRequest) -> dict[str, Any] | NoAnswer:
        if request.after:
            raise CannotWait(site=site.name)
        wanted = (request.spec.get("resources") or {}).get("accelerators") or ()
        return gpus.pick(api, site.name, [str(one) for one in wanted], manifest.chosen(site, request))

    def _manifest(
        self, site: Site, api: Api, argv: Sequence[str], root: str, name: str, request: LaunchRequest
    ) -> dict[str, Any] | NoAnswer:
        picked = self._picked(site, api, request)
        return picked if isinstance(picked, NoAnswer) else manifest.job(site, root, name, argv, request, picked)

    def _create(self, api: Api, site: Site, job: Mapping[str, Any]) -> None | NoAnswer:
        """Idempotent: a Job of that name is this one. Raises: JobRefused."""
        try:
            said = api.ask("POST", api.path("jobs"), params={"fieldValidation": "Strict"}, body=job, is_repeatable=True)
        except ApiRefused as no:
            if no.reason == "AlreadyExists":
                return None
            raise JobRefused(site=site.name, said=no.fields["message"], status=no.status) from no
        return said if isinstance(said, NoAnswer) else None

    def _seen(self, api: Api) -> Seen | NoAnswer:
        jobs = api.listed(api.path("jobs"), names.OURS)
        if isinstance(jobs, NoAnswer):
            return jobs
        pods = api.listed(api.path("pods"), f"{names.OURS},{names.COMPONENT}=run")
        if isinstance(pods, NoAnswer):
            return pods
        by_job: dict[str, list[Any]] = {}
        for pod in pods:
            by_job.setdefault(str((pod["metadata"].get("labels") or {}).get("job-name")), []).append(pod)
        known = {str(job["metadata"]["name"]): job for job in jobs}
        bare = [name for name, job in known.items() if not _is_over(job) and not by_job.get(name)]
        events = foresight.refusals(api) if bare else {}
        unready = foresight.unready(api) if any(map(_is_doubtful, pods)) else frozenset[str]()
        return Seen(known, by_job, unready, {name: events[name] for name in bare if name in events})

    def _end(self, place: Place, handles: Sequence[Handle], grace_s: float | None) -> None | NoAnswer:
        api = self._api(place)
        seen = self._seen(api)
        if isinstance(seen, NoAnswer):
            return seen
        whole, some = cells.parted([handle.native for handle in handles], seen)
        for name in whole:
            no = self._delete(api, name, seen, grace_s)
            if no is not None:
                return no
        for name, indexes in some.items():
            no = cells.take_out(api, way(place), seen, name, indexes)
            if no is not None:
                return no
        return None

    def _delete(self, api: Api, name: str, seen: Seen, grace_s: float | None) -> None | NoAnswer:
        """Nothing new is begun once the Job is marked; it is gone when its pods are, and that is seen here."""
        try:
            said = api.ask(
                "DELETE", api.path("jobs", name), body={"propagationPolicy": "Foreground"}, is_repeatable=True
            )
            if isinstance(said, NoAnswer):
                return said
        except ApiRefused as no:
            if no.status != 404:
                raise
        # Never 0, by which the cluster forgets a pod at once and whoever runs it does not.
        whole_s = None if grace_s is None else max(1, math.ceil(grace_s))
        body = {} if whole_s is None else {"gracePeriodSeconds": whole_s}
        longest_s = 0.0
        for pod in seen.pods.get(name, ()):
            longest_s = max(longest_s, float((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 30))
            try:
                answer = api.ask(
                    "DELETE", api.path("pods", str(pod["metadata"]["name"])), body=body, is_repeatable=True
                )
            except ApiRefused as no:
                if no.status != 404:
                    raise
                continue
            if isinstance(answer, NoAnswer):
                return answer
        deadline_s = time.monotonic() + END_S + (longest_s if whole_s is None else whole_s)
        while True:
            left = api.listed(api.path("pods"), f"job-name={name}")
            if isinstance(left, NoAnswer):
                return left
            if not left:
                return None
            if time.monotonic() >= deadline_s:
                detail = f"pod {left[0]['metadata']['name']} is still there"
                return NoAnswer(sent=True, kind="no-end", detail=detail)
            time.sleep(_LOOK_S)


def _handle(native: str, root: str) -> Handle:
    return Handle("k8s_job", native, {"root": root, "job": native})


def _number(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def _is_over(job: Mapping[str, Any]) -> bool:
    ends = (job.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in ends)


def _is_doubtful(pod: Mapping[str, Any]) -> bool:
    """It is said to run, and is being deleted or not ready: its node may be cut off."""
    status = pod.get("status") or {}
    ready = [one.get("status") for one in status.get("conditions") or () if one.get("type") == "Ready"]
    return status.get("phase") == "Running" and ("deletionTimestamp" in pod["metadata"] or ready != ["True"])


def _listed(kind: str, items: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "items": list(items)})
