"""`digitalocean`: GPU Droplets. A droplet that is powered off bills in full, so it is only ever destroyed.

Settings in [sites.NAME.digitalocean]: `key`, `max_price`, `image`, `regions` (the first that has the size is taken),
`ssh_keys` (ids or fingerprints of keys of the account, beside the user's own), `public_key`, `api`.
Source: digitalocean/openapi, 2026-08.
"""

from __future__ import annotations

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

TAG = "sojourn"
PER_PAGE, PAGES = 200, 50
EVERY_S = {"read": 0.25, "write": 1.0}  # docs.digitalocean.com, 2026-08: 250 a minute, 5,000 an hour
EGRESS_MICRO_PER_GIB = 10_000  # beyond the pooled allowance; docs.digitalocean.com, 2026-05
MINIMUM_S = 60  # docs.digitalocean.com, 2026-05: billed by the second, 60 s or 0.01 USD at least
IMAGES = {"amd": "gpu-amd-base", "8": "gpu-h100x8-base", "": "gpu-h100x1-base"}  # the same, 2026-08
# docs.digitalocean.com, Snapshots pricing, checked 2026-11. What volumes and reserved addresses cost is in no list.
SNAPSHOT_MICRO_PER_GB_MONTH = 60_000
# What the API calls things that outlive a droplet, and what they are here. An address is listed by itself, not by id.
ASSOCIATED = {
    "reserved_ips": "address",
    "floating_ips": "address",
    "volumes": "volume",
    "snapshots": "snapshot",
    "volume_snapshots": "snapshot",
}
_STOP = ("destroy the droplet", "")


class Backend(Renting):
    """Provider `digitalocean`."""

    stop, stop_verb = _STOP, _STOP[0]
    key_env = "DIGITALOCEAN_ACCESS_TOKEN"

    def __init__(self, site: Site) -> None:
        base = address(keys.text(site, "api", "https://api.digitalocean.com"))
        super().__init__(site, Api("digitalocean", base + "/v2", self.key_of(site), every_s=EVERY_S))

    def offers(self, need: Need) -> Sequence[Offer]:
        """Sizes with GPUs that fit, in the first region that has them."""
        sizes = self._pages("/sizes", "sizes", {})
        if isinstance(sizes, (Reply, NoAnswer)):
            self._must(sizes, "list its sizes")
            return ()
        found = [self._offer(need, one) for one in sizes if one.get("gpu_info")]
        return sorted((one for one in found if one), key=lambda one: (one.rate_micro_per_h, one.native))

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """A droplet called `token`, with that as a tag too. The user's ssh key comes by cloud-init."""
        key = keys.public_key(self._site)
        body: dict[str, Any] = {
            "name": token,
            "size": offer.facts["size"],
            "region": offer.facts["region"],
            "image": keys.text(self._site, "image") or offer.facts["image"],
            "tags": [TAG, token],
            "ssh_keys": keys.words(self._site, "ssh_keys"),
            "user_data": f"#!/bin/sh\nmkdir -p /root/.ssh && echo '{key}' >> /root/.ssh/authorized_keys\n",
        }
        answer = answers.created(self._api.write("POST", "/droplets", body, kind="create"), _id)
        if not isinstance(answer, answers.Accepted):
            return answer
        told = {name: offer.facts[name] for name in ("region", "gpu", "gpus")}
        return self._lease(answer.native, token, offer.rate_micro_per_h, now_s, {**told, "fault": answer.fault})

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The droplet of that very name, among those with GPUs and the others."""
        listed = self._list()
        if isinstance(listed, (Reply, NoAnswer)):
            return answers.no_answer(listed)
        mine = [one for one in listed if one.get("name") == token and one.get("status") != "archive"]
        return [self._lease(str(one["id"]), token, _rate(one), now_s, _told(one)) for one in mine]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When it is active, has a public address, and an sshd answers there. Raises: MachineFailed."""
        reply = self._api.read(f"/droplets/{lease.native}", timeout_s=deadline_s)
        one = reply.fields.get("droplet") if isinstance(reply, Reply) and reply.is_ok else None
        if not isinstance(one, Mapping):
            return replace(answers.no_answer(reply), kind="not-ready")
        if one.get("status") in ("off", "archive"):
            raise answers.MachineFailed(lease=lease.name, why=f"the droplet is {one['status']}, and bills in full")
        nets = (one.get("networks") or {}).get("v4") or ()
        ip = next((str(net["ip_address"]) for net in nets if net.get("type") == "public"), "")
        if one.get("status") != "active" or not ip:
            return NoAnswer(sent=True, kind="not-ready", detail=f"the droplet is {one.get('status')}")
        port = keys.number(self._site, "ssh_port", 22)
        quiet = reach.answers_ssh(self._site, ip, port, deadline_s)
        where = f"root@{ip}" + (f":{port}" if port != 22 else "")
        return quiet or replace(lease, address=where, facts={**lease.facts, **_told(one)})

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id, and in neither list. `off` is not gone: it bills in full."""
        reply = self._api.read(f"/droplets/{lease.native}")
        one = reply.fields.get("droplet") if isinstance(reply, Reply) and reply.is_ok else None
        listed = answers.by_list(self._list(), lease.native, _pulse)
        return answers.standing(answers.by_id(reply, one, _pulse), listed)

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Destroy it. Raises: Defect, ProviderSays."""
        law.check(clearance, lease)
        reply = self._api.write("DELETE", f"/droplets/{lease.native}")
        done = answers.accepts(reply, 404)
        if done is False:
            self._must(reply, "destroy the droplet")
        return f"digitalocean was told to destroy {lease.native}" + ("" if done else "; its answer was lost")

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the key says of the account. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        self._must(self._api.read("/account"), "show the account")
        money = self._api.read("/customers/my/balance")
        balance = money.fields.get("account_balance") if isinstance(money, Reply) and money.is_ok else None
        listed = self._list()
        return {
            "key": self._api.key().name,
            "machines": len(listed) if isinstance(listed, list) else 0,
            "balance": f"{balance} USD owed" if balance is not None else "",
        }

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Droplets, volumes, snapshots and reserved addresses. Raises: NoKey, Misuse."""
        lists = (
            ("machine", self._list, _droplet),
            ("volume", lambda: self._pages("/volumes", "volumes", {}), self._volume),
            ("snapshot", lambda: self._pages("/snapshots", "snapshots", {}), self._snapshot),
            ("address", lambda: self._pages("/reserved_ips", "reserved_ips", {}), self._address),
        )
        return listing.inventory(lists, kinds)

    def _volume(self, one: Mapping[str, Any]) -> Asset:
        of = tuple(str(native) for native in one.get("droplet_ids") or ())
        return self._beside("volume", "volumes", one["id"], one, f"{one.get('size_gigabytes')} GB", of)

    def _snapshot(self, one: Mapping[str, Any]) -> Asset:
        of = (str(one["resource_id"]),) if one.get("resource_type") == "droplet" else ()
        size_gb = answers.micro(one.get("size_gigabytes"))
        month = None if size_gb is None else -(-size_gb * SNAPSHOT_MICRO_PER_GB_MONTH // 1_000_000)
        asset = self._beside("snapshot", "snapshots", one["id"], one, f"{one.get('size_gigabytes')} GB", of)
        return replace(asset, micro_per_month=month)

    def _address(self, one: Mapping[str, Any]) -> Asset:
        droplet = one.get("droplet")
        of = (str(droplet["id"]),) if isinstance(droplet, Mapping) and "id" in droplet else ()
        return self._beside("address", "reserved_ips", one["ip"], one, "assigned" if of else "not assigned", of)

    def _beside(
        self, kind: str, path: str, native: object, one: Mapping[str, Any], state: str, of: tuple[str, ...]
    ) -> Asset:
        command = listing.deletes(f"{self._api.base}/{path}/{native}", self.key_env)
        return Asset(kind, str(native), str(one.get("name") or ""), state, of=of, command=command)

    def beside(self, lease: Lease) -> Sequence[Asset]:
        """What the droplet's end would leave behind, with the price of a month, as the API foretells it."""
        reply = self._api.read(f"/droplets/{lease.native}/destroy_with_associated_resources", timeout_s=10.0)
        fields = reply.fields if isinstance(reply, Reply) and reply.is_ok else {}
        return [
            Asset(
                ASSOCIATED[name],
                str(one.get("name") if name.endswith("ips") else one.get("id")),
                str(one.get("name") or ""),
                micro_per_month=answers.micro(one.get("cost")),
                of=(lease.native,),
            )
            for name in ASSOCIATED
            for one in answers.rows(fields, name) or ()
        ]

    def _offer(self, need: Need, one: Mapping[str, Any]) -> Offer | None:
        info, wanted = one["gpu_info"], keys.words(self._site, "regions")
        regions = [str(name) for name in one.get("regions") or ()]
        regions = [name for name in wanted if name in regions] if wanted else regions
        model, gpus = str(info.get("model") or ""), int(info.get("count") or 0)
        vram = info.get("vram") or {}
        gpu_gib = int(vram.get("amount") or 0)
        fits = machines.has_gpus(need, gpus, f"{model.replace('_', ' ')} {gpu_gib}GB")
        has_cpus = machines.has_cpus(need, one["vcpus"], one["memory"] / 1024)
        if not one.get("available") or not regions or not fits or not has_cpus or one["disk"] < need.disk_gib:
            return None
        rate = answers.micro(one.get("price_hourly"))
        facts = {
            "gpu": model,
            "gpus": gpus,
            "gpu_memory_gib": gpu_gib,
            "cpus": one["vcpus"],
            "memory_gib": one["memory"] / 1024,
            "disk_gib": one["disk"],
            "region": regions[0],
            "is_spot": False,
            "minimum_s": MINIMUM_S,
            "egress_micro_per_gib": EGRESS_MICRO_PER_GIB,
            "survives_stop": "the disk; but a droplet that is off bills in full",
            "size": one["slug"],
            "image": IMAGES["amd" if "amd" in model.lower() or "mi3" in model.lower() else "8" if gpus == 8 else ""],
        }
        return Offer(f"{one['slug']} in {regions[0]}", rate or 0, "USD", facts, is_rate_known=rate is not None)

    def _list(self) -> listing.Listed:
        """Every droplet: those with GPUs are hidden from the plain list."""
        with_gpus = self._pages("/droplets", "droplets", {"type": "gpus"})
        if isinstance(with_gpus, (Reply, NoAnswer)):
            return with_gpus
        others = self._pages("/droplets", "droplets", {})
        return [*with_gpus, *others] if isinstance(others, list) else others

    def _pages(self, path: str, key: str, query: Mapping[str, Any]) -> listing.Listed:
        """All pages of a list; a page that fails makes the whole list fail."""
        found: list[Mapping[str, Any]] = []
        for page in range(1, PAGES + 1):
            reply = self._api.read(path, {**query, "per_page": PER_PAGE, "page": page})
            if isinstance(reply, NoAnswer):
                return reply
            rows = answers.rows(reply.body, key) if reply.is_ok else None
            if rows is None:
                return reply
            found += rows
            if not ((reply.fields.get("links") or {}).get("pages") or {}).get("next"):
                return found
        return NoAnswer(sent=True, kind="refused", detail=f"more than {PAGES} pages of {key}")


def _id(body: Any) -> object:
    droplet = body.get("droplet") if isinstance(body, Mapping) else None
    return droplet.get("id") if isinstance(droplet, Mapping) else None


def _droplet(one: Mapping[str, Any]) -> Asset | None:
    if one.get("status") == "archive":
        return None
    return Asset("machine", str(one["id"]), str(one.get("name") or ""), str(one.get("status")), _rate(one))


def _rate(one: Mapping[str, Any]) -> int | None:
    return answers.micro((one.get("size") or {}).get("price_hourly"))


def _told(one: Mapping[str, Any]) -> dict[str, Any]:
    info = one.get("gpu_info") or {}
    return {"region": (one.get("region") or {}).get("slug"), "gpu": info.get("model"), "gpus": info.get("count")}


def _pulse(one: Mapping[str, Any]) -> Pulse:
    return Pulse.STOPPED if one.get("status") in ("off", "archive") else Pulse.ALIVE
