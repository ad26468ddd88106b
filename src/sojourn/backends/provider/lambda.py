"""`lambda`: instances of Lambda Cloud. They cannot be stopped, only terminated.

Settings in [sites.NAME.lambda]: `key`, `max_price`, `regions` (the first with capacity is taken), `ssh_key_name` (a key
of the account, where it has several), `image_family`, `file_systems`, `public_key`, `api`.
Source: Lambda Cloud API 1.8.3, openapi.json, 2025-12.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sojourn.backends.client import answers, keys, listing, machines, reach
from sojourn.backends.client.https import Api, Reply, address
from sojourn.backends.client.renting import Renting
from sojourn.core import law
from sojourn.core.inventory import Asset, Inventory
from sojourn.core.law import Clearance
from sojourn.core.need import GIB, Need
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse, Site
from sojourn.wire.errors import Misuse

USER = "ubuntu"
OVER = ("terminated", "preempted")  # `terminating` still bills
EVERY_S = {"read": 1.0, "write": 1.0, "create": 12.0}  # docs.lambda.ai, 2025-12: 1 a second; a launch every 12 s
_MICRO_PER_CENT = 10_000
# docs.lambda.ai, undated copy: the rate that its pages give as an example; billed until the file system is deleted.
FILES_MICRO_PER_GIB_MONTH = 200_000
_STOP = ("terminate the instance", "")


class NoAccountKey(Misuse):
    """Site {site}: Lambda needs the name of one of the account's ssh keys; the account has {count}."""

    code = "no-account-key"
    next_step = 'add a key in the console of Lambda, then write ssh_key_name = "NAME" into [sites.{site}.lambda]'


class Backend(Renting):
    """Provider `lambda`."""

    stop, stop_verb = _STOP, _STOP[0]
    key_env = "LAMBDA_API_KEY"

    def __init__(self, site: Site) -> None:
        base = address(keys.text(site, "api", "https://cloud.lambda.ai"))
        super().__init__(site, Api("lambda", base + "/api/v1", self.key_of(site), every_s=EVERY_S))

    def offers(self, need: Need) -> Sequence[Offer]:
        """Types that fit, in the first region that has capacity for them."""
        types = self._asked("/instance-types", "list its instance types").fields.get("data")
        found = [self._offer(need, one) for one in (types or {}).values() if isinstance(one, Mapping)]
        return sorted((one for one in found if one), key=lambda one: (one.rate_micro_per_h, one.native))

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """An instance called `token`. The user's ssh key comes by cloud-init, beside the one of the account."""
        body: dict[str, Any] = {
            "region_name": offer.facts["region"],
            "instance_type_name": offer.facts["type"],
            "ssh_key_names": [self._key_name()],
            "name": token,
            "user_data": _trusting(keys.public_key(self._site)),
        }
        if systems := keys.words(self._site, "file_systems"):
            body["file_system_names"] = systems
        if family := keys.text(self._site, "image_family"):
            body["image"] = {"family": family}
        reply = self._api.write("POST", "/instance-operations/launch", body, kind="create")
        answer = answers.created(reply, _id)
        if not isinstance(answer, answers.Accepted):
            return answer
        told = {key: offer.facts[key] for key in ("region", "gpu", "gpus")}
        return self._lease(answer.native, token, offer.rate_micro_per_h, now_s, {**told, "fault": answer.fault})

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The instance of that very name in the account's list."""
        listed = self._list()
        if isinstance(listed, NoAnswer):
            return listed
        mine = [one for one in listed if one.get("name") == token and one.get("status") not in OVER]
        return [self._lease(str(one["id"]), token, _rate(one), now_s, _told(one)) for one in mine]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When it is active, has an address, and an sshd answers there. Raises: MachineFailed."""
        reply = self._api.read(f"/instances/{lease.native}", timeout_s=deadline_s)
        one = reply.fields.get("data") if isinstance(reply, Reply) and reply.is_ok else None
        if not isinstance(one, Mapping):
            detail = answers.said(reply) if isinstance(reply, Reply) else reply.detail
            return NoAnswer(sent=True, kind="not-ready", detail=detail)
        status = one.get("status")
        if status in (*OVER, "terminating"):
            raise answers.MachineFailed(lease=lease.name, why=f"the instance is {status}")
        if status != "active" or not one.get("ip"):
            return NoAnswer(sent=True, kind="not-ready", detail=f"the instance is {status}")
        port = keys.number(self._site, "ssh_port", 22)
        quiet = reach.answers_ssh(self._site, str(one["ip"]), port, deadline_s)
        where = f"{USER}@{one['ip']}" + (f":{port}" if port != 22 else "")
        return quiet or replace(lease, address=where, facts={**lease.facts, **_told(one)})

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id, and not in the list."""
        reply = self._api.read(f"/instances/{lease.native}")
        one = reply.fields.get("data") if isinstance(reply, Reply) and reply.is_ok else None
        listed = answers.by_list(self._list(), lease.native, _pulse)
        return answers.standing(answers.by_id(reply, one, _pulse), listed)

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Terminate it. Raises: Defect, ProviderSays."""
        law.check(clearance, lease)
        reply = self._api.write("POST", "/instance-operations/terminate", {"instance_ids": [lease.native]})
        done = answers.accepts(reply, 404)
        if done is False:
            self._must(reply, "terminate the instance")
        return f"lambda was told to terminate {lease.native}" + ("" if done else "; its answer was lost")

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the key says of the account. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        listed = answers.rows(self._asked("/instances", "list its instances").body, "data") or ()
        return {"key": self._api.key().name, "machines": len([one for one in listed if one.get("status") not in OVER])}

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Instances and file systems. Raises: NoKey, Misuse."""
        lists = (
            ("machine", lambda: listing.rows_of(self._api.read("/instances"), "data"), self._instance),
            ("file system", lambda: listing.rows_of(self._api.read("/file-systems"), "data"), self._files),
        )
        return listing.inventory(lists, kinds)

    def _instance(self, one: Mapping[str, Any]) -> Asset | None:
        if one.get("status") in OVER:
            return None
        return Asset("machine", str(one["id"]), str(one.get("name") or ""), str(one["status"]), _rate(one))

    def _files(self, one: Mapping[str, Any]) -> Asset:
        held = one.get("bytes_used")
        price = None if not isinstance(held, int) else -(-held * FILES_MICRO_PER_GIB_MONTH // GIB)
        state = "in use" if one.get("is_in_use") else "unused"
        command = listing.deletes(f"{self._api.base}/filesystems/{one['id']}", self.key_env)
        name = str(one.get("name") or "")
        return Asset("file system", str(one["id"]), name, state, micro_per_month=price, command=command)

    def _offer(self, need: Need, item: Mapping[str, Any]) -> Offer | None:
        one, wanted = item["instance_type"], keys.words(self._site, "regions")
        specs, regions = one["specs"], [str(region["name"]) for region in item["regions_with_capacity_available"]]
        regions = [name for name in wanted if name in regions] if wanted else regions
        name, gpus = str(one["gpu_description"]), int(specs["gpus"])
        memory = re.search(r"\((\d+) GB", name)
        fits = machines.has_gpus(need, gpus, f"{name} {memory[1]}GB" if memory else name)
        has_disk = specs["storage_gib"] >= need.disk_gib
        if not regions or not fits or not has_disk or not machines.has_cpus(need, specs["vcpus"], specs["memory_gib"]):
            return None
        cents = one["price_cents_per_hour"]
        facts = {
            "gpu": name,
            "gpus": gpus,
            "cpus": specs["vcpus"],
            "memory_gib": specs["memory_gib"],
            "disk_gib": specs["storage_gib"],
            "region": regions[0],
            "egress_micro_per_gib": 0,
            "is_spot": False,
            "survives_stop": "nothing: it cannot be stopped",
            "type": one["name"],
        }
        if memory:
            facts["gpu_memory_gib"] = int(memory[1])
        is_known = isinstance(cents, int) and not isinstance(cents, bool)
        rate = cents * _MICRO_PER_CENT if is_known else 0
        return Offer(f"{one['name']} in {regions[0]}", rate, "USD", facts, is_rate_known=is_known)

    def _key_name(self) -> str:
        """The name of the account's key that the launch must have. Raises: NoAccountKey, ..."""
        told = keys.text(self._site, "ssh_key_name")
        if told:
            return told
        listed = answers.rows(self._asked("/ssh-keys", "list its ssh keys").body, "data") or []
        mine = keys.public_key(self._site).split()[:2]
        same = [str(one["name"]) for one in listed if str(one.get("public_key", "")).split()[:2] == mine]
        if not same and len(listed) != 1:
            raise NoAccountKey(site=self._site.name, count=len(listed))
        return same[0] if same else str(listed[0]["name"])

    def _list(self) -> Sequence[Mapping[str, Any]] | NoAnswer:
        reply = self._api.read("/instances")
        if isinstance(reply, NoAnswer):
            return reply
        found = answers.rows(reply.body, "data") if reply.is_ok else None
        return NoAnswer(sent=True, kind="refused", detail=answers.said(reply)) if found is None else found


def _id(body: Any) -> object:
    """The first of the instance ids; one is all that is asked for."""
    data = body.get("data") if isinstance(body, Mapping) else None
    ids = data.get("instance_ids") if isinstance(data, Mapping) else None
    return ids[0] if isinstance(ids, list) and ids else None


def _rate(one: Mapping[str, Any]) -> int | None:
    cents = (one.get("instance_type") or {}).get("price_cents_per_hour")
    return cents * _MICRO_PER_CENT if isinstance(cents, int) else None


def _told(one: Mapping[str, Any]) -> dict[str, Any]:
    kind = one.get("instance_type") or {}
    gpus = (kind.get("specs") or {}).get("gpus")
    return {"region": (one.get("region") or {}).get("name"), "gpu": kind.get("gpu_description"), "gpus": gpus}


def _trusting(public_key: str) -> str:
    """A first-boot script that lets the user in."""
    home = f"/home/{USER}/.ssh"
    return (
        f"#!/bin/sh\nmkdir -p {home} && echo '{public_key}' >> {home}/authorized_keys"
        f" && chown -R {USER}: {home} && chmod 700 {home} && chmod 600 {home}/authorized_keys\n"
    )


def _pulse(one: Mapping[str, Any]) -> Pulse:
    return Pulse.GONE if one.get("status") in OVER else Pulse.ALIVE
