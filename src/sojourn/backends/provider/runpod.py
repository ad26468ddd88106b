"""`runpod`: pods of runpod.io, by its REST API v2. v1 and GraphQL are not used: they are being retired.

Settings in [sites.NAME.runpod]: `key`, `max_price`, `image`, `cloud` (SECURE or COMMUNITY), `regions` (data centers),
`disk_gb` (container disk), `volume_gb` (/workspace, which outlives a stop), `public_key`, `api`.
Source: runpod/docs api-reference-v2/openapi.json 2.0.0, 2026-08.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sojourn.backends.client import answers, keys, listing, machines, reach
from sojourn.backends.client.https import Api, Reply, address
from sojourn.backends.client.renting import Renting
from sojourn.core import law
from sojourn.core.inventory import Asset, Inventory
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse, Site
from sojourn.wire.errors import Misuse

IMAGE = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"  # the example of the API's description, 2026-08
DISK_GB, VOLUME_GB, LEAST_VOLUME_GB = 50, 20, 10
VOLUME_PATH = "/workspace"
# Source: docs.runpod.io, Pods, pricing of storage, 2026-08: 0.10 USD a GB and month while it runs, twice that stopped.
DISK_MICRO_PER_GB_MONTH = 100_000
STOPPED_FACTOR = 2
# The same, Network volumes, 2026-08: 0.07 USD a GB and month, 0.05 above 1 TB; a high-performance one costs more.
SHARED_MICRO_PER_GB_MONTH, SHARED_ABOVE_TB_MICRO, TB_GB = 70_000, 50_000, 1000
GONE, DEAD = "TERMINATED", ("EXITED", "ERROR", "TERMINATED")
EVERY_S = {"read": 0.2, "write": 1.0}  # 60 a minute for all, 2026-08; polls are seconds apart, and 429 says when to ask
_STOP = ("terminate the pod", "stop the pod")


class Backend(Renting):
    """Provider `runpod`."""

    stop, stop_verb = _STOP, _STOP[0]
    key_env = "RUNPOD_API_KEY"

    def __init__(self, site: Site) -> None:
        base = address(keys.text(site, "api", "https://api.runpod.io"))
        super().__init__(site, Api("runpod", base + "/v2", self.key_of(site), every_s=EVERY_S))

    def offers(self, need: Need) -> Sequence[Offer]:
        """GPU types that fit, at the price of the wanted number; those without stock are left out."""
        cloud = self._cloud()
        found: dict[str, Offer] = {}
        for count in sorted({count for _, count in need.accelerators} or {1}):
            query = {"include": "AVAILABILITY", "product": "POD", "count": count, "cloud": cloud}
            body = self._asked("/catalog/gpus", "list its GPUs", query).body
            for gpu in answers.rows(body, "gpus") or ():
                offer = self._offer(need, gpu, count, cloud)
                if offer:
                    found[offer.native] = offer
        return sorted(found.values(), key=lambda one: (one.rate_micro_per_h, one.native))

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """A pod called `token`. Its ssh key goes into its environment, so the account's keys stay as they are."""
        body: dict[str, Any] = {
            "name": token,
            "image": keys.text(self._site, "image", IMAGE),
            "gpu": {"id": offer.facts["gpu_id"], "count": offer.facts["gpus"]},
            "cloud": offer.facts["cloud"],
            "disk": keys.number(self._site, "disk_gb", DISK_GB),
            "mounts": {"persistent": {"size": int(offer.facts["disk_gib"]), "path": VOLUME_PATH}},
            "ports": ["22/tcp"],
            "env": {"PUBLIC_KEY": keys.public_key(self._site)},
            "startSsh": True,
        }
        if regions := keys.words(self._site, "regions"):
            body["dataCenterIds"] = regions
        answer = answers.created(self._api.write("POST", "/pods", body, kind="create"), _id)
        if not isinstance(answer, answers.Accepted):
            return answer
        rate = _rate(answer.body) or offer.rate_micro_per_h
        return self._lease(answer.native, token, rate, now_s, {**_told(answer.body), "fault": answer.fault})

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The pod of that very name in the account's list."""
        listed = self._list()
        if isinstance(listed, NoAnswer):
            return listed
        mine = [pod for pod in listed if pod.get("name") == token and pod.get("status") != GONE]
        return [self._lease(str(one["id"]), token, _rate(one), now_s, _told(one)) for one in mine]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When the pod runs, has a public port for ssh, and something answers there. Raises: MachineFailed."""
        reply = self._api.read(f"/pods/{lease.native}", timeout_s=deadline_s)
        if isinstance(reply, NoAnswer) or not reply.is_ok:
            detail = reply.detail if isinstance(reply, NoAnswer) else answers.said(reply)
            return NoAnswer(sent=True, kind="not-ready", detail=detail)
        pod = reply.fields
        if pod.get("status") in DEAD:
            raise answers.MachineFailed(lease=lease.name, why=f"the pod is {pod.get('status')}")
        direct = (pod.get("ssh") or {}).get("direct")
        if pod.get("status") != "RUNNING" or not direct:
            return NoAnswer(sent=True, kind="not-ready", detail=f"the pod is {pod.get('status')}")
        quiet = reach.answers_ssh(self._site, str(direct["host"]), int(direct["port"]), deadline_s)
        where = f"{direct['username']}@{direct['host']}:{direct['port']}"
        return quiet or replace(lease, address=where, facts={**lease.facts, **_told(pod)})

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id, and not in the list."""
        reply = self._api.read(f"/pods/{lease.native}")
        pod = reply.fields if isinstance(reply, Reply) and reply.is_ok else None
        listed = answers.by_list(self._list(), lease.native, _pulse)
        return answers.standing(answers.by_id(reply, pod, _pulse), listed)

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Terminate the pod, or stop it where its disk is to stay. Raises: Defect, ProviderSays."""
        law.check(clearance, lease)
        if lease.is_final:
            reply = self._api.write("DELETE", f"/pods/{lease.native}")
            done, what = answers.accepts(reply, 404, 410), "terminate the pod"
        else:
            reply = self._api.write("POST", f"/pods/{lease.native}/action", {"action": "stop"})
            # 409: not among the pod's actions, because it has exited; `look` tells.
            done, what = answers.accepts(reply, 409), lease.stop_verb
        if done is False:
            self._must(reply, what)
        asked = f"runpod was told to {what} {lease.native}"
        if done is None:
            return f"{asked}; its answer was lost"
        return asked if lease.is_final else f"{asked}; /workspace goes on billing, at twice its price"

    def wake(self, lease: Lease) -> str:
        """Start the pod; its host may have no free GPU then. Raises: ProviderSays, ..."""
        return self._woken(lease, self._api.write("POST", f"/pods/{lease.native}/action", {"action": "start"}))

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the key says of the account. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        pods = answers.rows(self._asked("/pods", "list its pods").body, "pods") or ()
        return {"key": self._api.key().name, "machines": len([pod for pod in pods if pod.get("status") != GONE])}

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Pods and network volumes. Raises: NoKey, Misuse."""
        owners: dict[str, list[str]] = {}  # network volume -> its pods

        def pod(one: Mapping[str, Any]) -> Asset | None:
            mounts = one.get("mounts") or {}
            for mount in mounts.get("network") or ():
                owners.setdefault(str(mount.get("volumeId")), []).append(str(one["id"]))
            if one.get("status") == GONE:
                return None
            disk_gb = (mounts.get("persistent") or {}).get("size")
            month = None
            if one.get("status") == "EXITED" and isinstance(disk_gb, int):
                month = disk_gb * DISK_MICRO_PER_GB_MONTH * STOPPED_FACTOR
            return Asset("machine", str(one["id"]), str(one["name"]), str(one["status"]), _rate(one), month)

        def volume(one: Mapping[str, Any]) -> Asset:
            size_gb, month = int(one["size"]), None
            if one.get("type") == "STANDARD":
                month = min(size_gb, TB_GB) * SHARED_MICRO_PER_GB_MONTH
                month += max(0, size_gb - TB_GB) * SHARED_ABOVE_TB_MICRO
            native, name = str(one["id"]), str(one["name"])
            command = listing.deletes(f"{self._api.base}/network-volumes/{native}", self.key_env)
            of = tuple(owners.get(native, ()))
            return Asset("volume", native, name, f"{size_gb} GB", None, month, of=of, command=command)

        lists = (
            ("machine", lambda: listing.rows_of(self._api.read("/pods"), "pods"), pod),
            ("volume", lambda: listing.rows_of(self._api.read("/network-volumes"), "networkVolumes"), volume),
        )
        return listing.inventory(lists, kinds)

    def _offer(self, need: Need, gpu: Mapping[str, Any], count: int, cloud: str) -> Offer | None:
        where = cloud.lower()
        names = [f"{gpu.get(key)} {gpu.get('memory')}GB" for key in ("id", "name")]
        fits = count in machines.counts(need, *names)
        stock, price = gpu.get("availability"), answers.micro((gpu.get("price") or {}).get(where))
        if not fits or not gpu.get(where) or stock == "NONE" or count > (gpu.get("maxCount") or {}).get(where, 0):
            return None
        volume_gb = keys.number(self._site, "volume_gb", VOLUME_GB)
        facts = {
            "gpu": gpu["name"],
            "gpus": count,
            "gpu_memory_gib": gpu["memory"],
            "disk_gib": max(LEAST_VOLUME_GB, volume_gb, math.ceil(need.disk_gib)),
            "disk_micro_per_gib_month": DISK_MICRO_PER_GB_MONTH,
            "egress_micro_per_gib": 0,
            "is_spot": False,
            "stock": str(stock or "unknown").lower(),
            "survives_stop": VOLUME_PATH,
            "gpu_id": gpu["id"],
            "cloud": cloud,
        }
        native = f"{count} x {gpu['id']} ({where})"
        return Offer(native, (price or 0) * count, "USD", facts, is_rate_known=bool(price))

    def _cloud(self) -> str:
        cloud = keys.text(self._site, "cloud", "SECURE").upper()
        if cloud not in ("SECURE", "COMMUNITY"):
            raise Misuse(detail=f"[sites.{self._site.name}.runpod] cloud: write SECURE or COMMUNITY, not {cloud!r}")
        return cloud

    def _list(self) -> Sequence[Mapping[str, Any]] | NoAnswer:
        reply = self._api.read("/pods")
        if isinstance(reply, NoAnswer):
            return reply
        pods = answers.rows(reply.body, "pods") if reply.is_ok else None
        return NoAnswer(sent=True, kind="refused", detail=answers.said(reply)) if pods is None else pods


def _id(body: Any) -> object:
    return body.get("id") if isinstance(body, Mapping) else None


def _rate(pod: Any) -> int | None:
    """`cost` of a pod that bills; it is 0 once the pod is stopped, which says nothing."""
    return (answers.micro(pod.get("cost")) if isinstance(pod, Mapping) else None) or None


def _told(pod: Any) -> dict[str, Any]:
    if not isinstance(pod, Mapping):
        return {}
    gpu = pod.get("gpu") or {}
    disk_gb = ((pod.get("mounts") or {}).get("persistent") or {}).get("size")
    disk = {"disk_gib": disk_gb, "disk_micro_per_gib_month": DISK_MICRO_PER_GB_MONTH} if disk_gb else {}
    return {"region": pod.get("dataCenterId"), "gpu": gpu.get("id"), "gpus": gpu.get("count"), **disk}


def _pulse(pod: Mapping[str, Any]) -> Pulse:
    status = pod.get("status")
    return Pulse.GONE if status == GONE else Pulse.STOPPED if status == "EXITED" else Pulse.ALIVE
