"""`vastai`: containers on hosts of the vast.ai marketplace.

Settings in [sites.NAME.vastai]: `key`, `max_price`, `image`, `disk_gb`, `hours` (the offer must last so long), `spot`
(rent by a bid), `bid` (dollars an hour), `reliability` (least, 0 to 1), `regions` (country codes), `public_key`, `api`.
Source: vast-ai/docs api-reference/openapi.yaml, 2026-08; the vendor's client 1.9.1, 2026-10.
"""

from __future__ import annotations

import json
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
from sojourn.core.need import GIB, Need
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse, Site
from sojourn.wire.errors import Misuse

IMAGE = "vastai/base-image:@vastai-automatic-tag"  # the default of the API's description, 2026-08
DISK_GB, HOURS, RELIABILITY = 32, 24, 0.95
OFFERS, PAGE = 64, 25
FUNDS_S = 10.0
MB_PER_GB = 1000  # gpu_ram and cpu_ram are in MB
# docs.vast.ai, 2026-08: least seconds between calls of one account, which 429 names and no header does.
EVERY_S = {"read": 2.0, "list": 1.0, "create": 4.5, "destroy": 3.0, "write": 2.0}
NEVER = (
    "exited",
    "unknown",
    "offline",
)  # such an instance never becomes running (code of the vendor's client, 2026-10)
_STOP = ("destroy the instance", "stop the instance")


class Backend(Renting):
    """Provider `vastai`."""

    stop, stop_verb = _STOP, _STOP[0]
    key_env = "VAST_API_KEY"

    def __init__(self, site: Site) -> None:
        base = address(keys.text(site, "api", "https://console.vast.ai"))
        super().__init__(site, Api("vastai", base + "/api", self.key_of(site), every_s=EVERY_S))

    def offers(self, need: Need) -> Sequence[Offer]:
        """Verified hosts with a port of their own for ssh, which last as long as `hours` says."""
        disk_gb = max(keys.number(self._site, "disk_gb", DISK_GB), math.ceil(need.disk_gib))
        is_spot = need.is_interruptible or keys.flag(self._site, "spot")
        lasts_s = max(keys.number(self._site, "hours", HOURS) * 3600, math.ceil(need.run_s))  # its end is fixed then
        found: dict[str, Offer] = {}
        for count in sorted({count for _, count in need.accelerators} or {1}):
            asked: dict[str, Any] = {
                "limit": OFFERS,
                "type": "bid" if is_spot else "ondemand",
                "order": [["dph_total", "asc"], ["id", "asc"]],
                "allocated_storage": disk_gb,
                "verified": {"eq": True},
                "rentable": {"eq": True},
                "num_gpus": {"in": [count]},
                "disk_space": {"gte": disk_gb},
                "duration": {"gte": lasts_s},
                "direct_port_count": {"gte": 1},
                "reliability": {"gte": self._fraction("reliability", RELIABILITY)},
                "cpu_cores_effective": {"gte": need.cpus},
                "cpu_ram": {"gte": round(need.memory_gib * GIB / 1e6)},
            }
            if regions := keys.words(self._site, "regions"):
                asked["geolocation"] = {"in": regions}
            reply = self._api.read("/v0/bundles/", body=asked, method="POST", kind="list")
            for one in answers.rows(self._account(reply, "list its offers").body, "offers") or ():
                offer = self._offer(need, one, count, disk_gb, is_spot)
                if offer:
                    found[offer.native] = offer
        return sorted(found.values(), key=lambda one: (one.rate_micro_per_h, one.native))

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """An instance labelled `token`. An answer may refuse and yet name a stopped instance that bills for its disk:
        that is a lease too, which never gets ready and is to be released.
        """
        key = keys.public_key(self._site)
        body: dict[str, Any] = {
            "image": keys.text(self._site, "image", IMAGE),
            "label": token,
            "disk": offer.facts["disk_gib"],
            "runtype": "ssh_direct",
            "env": {"-p 22:22": "1"},
            "target_state": "running",
            "cancel_unavail": True,
            # The account's own keys may lack this one; the API adds keys only once the instance exists.
            "onstart": f"mkdir -p /root/.ssh; echo '{key}' >> /root/.ssh/authorized_keys; touch ~/.no_auto_tmux",
        }
        if offer.facts["is_spot"]:
            body["price"] = offer.rate_micro_per_h / 1e6
        reply = self._api.write("PUT", f"/v0/asks/{offer.facts['ask']}/", body, kind="create")
        answer = answers.created(reply, _contract)
        if not isinstance(answer, answers.Accepted):
            return answer
        kept = ("region", "gpu", "gpus", "is_spot", "reliability", "egress_micro_per_gib")
        told = {key: offer.facts.get(key) for key in kept}
        return self._lease(answer.native, token, offer.rate_micro_per_h, now_s, {**told, "fault": answer.fault})

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The instance of that very label in the account's list."""
        listed = self._list()
        if isinstance(listed, NoAnswer):
            return listed
        mine = [one for one in listed if one.get("label") == token]
        return [self._lease(str(one["id"]), token, _rate(one), now_s, _told(one)) for one in mine]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When it runs, and an sshd answers at its own port, or at the proxy's. Raises: MachineFailed."""
        if lease.facts.get("fault"):
            raise answers.MachineFailed(
                lease=lease.name, why=f"the provider refused it and made it ({lease.facts['fault']})"
            )
        reply = self._api.read(f"/v0/instances/{lease.native}/", {"owner": "me"}, timeout_s=deadline_s)
        if isinstance(reply, NoAnswer) or not reply.is_ok or "instances" not in reply.fields:
            detail = reply.detail if isinstance(reply, NoAnswer) else answers.said(reply)
            return NoAnswer(sent=True, kind="not-ready", detail=detail)
        one = reply.fields["instances"]
        if one is None:
            raise answers.MachineFailed(lease=lease.name, why="the instance is gone")
        status = one.get("actual_status")
        said = " ".join(str(one.get("status_msg") or "").split())[:200]
        if status in NEVER or one.get("intended_status") == "stopped" or one.get("cur_state") == "stopped":
            raise answers.MachineFailed(
                lease=lease.name, why=f"the instance is {status or 'stopped'}; {said}".rstrip("; ")
            )
        if status != "running":
            return NoAnswer(
                sent=True, kind="not-ready", detail=f"the instance is {status or 'scheduled'}; {said}".rstrip("; ")
            )
        quiet: NoAnswer | None = NoAnswer(sent=True, kind="not-ready", detail="the instance has no port yet")
        for host, port in _ways(one):
            quiet = reach.answers_ssh(self._site, host, port, deadline_s / 2)
            if quiet is None:
                return replace(lease, address=f"root@{host}:{port}", facts={**lease.facts, **_told(one)})
        return quiet or lease

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id (null), and not in the whole list."""
        reply = self._api.read(f"/v0/instances/{lease.native}/", {"owner": "me"})
        one = reply.fields.get("instances") if isinstance(reply, Reply) and reply.is_ok else None
        by_id = answers.by_id(reply, one, _pulse)
        if isinstance(reply, Reply) and reply.is_ok and "instances" in reply.fields and one is None:
            by_id = Pulse.GONE
        return answers.standing(by_id, answers.by_list(self._list(), lease.native, _pulse))

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Destroy it, or stop it where its disk is to stay. Raises: Defect, ProviderSays."""
        law.check(clearance, lease)
        where = f"/v0/instances/{lease.native}/"
        if lease.is_final:
            reply, what = self._api.write("DELETE", where, kind="destroy"), "destroy the instance"
            done = answers.accepts(reply, 404)
        else:
            reply, what = self._api.write("PUT", where, {"state": "stopped"}), lease.stop_verb
            done = answers.accepts(reply)
        if done is False:
            self._must(reply, what)
        asked = f"vastai was told to {what} {lease.native}" + ("" if done else "; its answer was lost")
        return asked if lease.is_final else f"{asked}; its disk goes on billing"

    def wake(self, lease: Lease) -> str:
        """Start the instance, on the same host, when that has its GPUs free. Raises: ProviderSays, ..."""
        return self._woken(lease, self._api.write("PUT", f"/v0/instances/{lease.native}/", {"state": "running"}))

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the key says of the account. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        user = self._account(self._api.read("/v0/users/current/"), "show the account").fields
        listed = self._list()
        balance, funds = answers.micro(user.get("balance")), self.funds()
        return {
            **({} if isinstance(funds, NoAnswer) else {"balance_micro": funds[0]}),
            "key": self._api.key().name,
            "machines": 0 if isinstance(listed, NoAnswer) else len(listed),
            "balance": "" if balance is None else f"{balance / 1e6:.2f} USD",
        }

    def funds(self) -> tuple[int, str] | NoAnswer:
        """(micro-units, currency) that the account has left. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        user = self._must(self._api.read("/v0/users/current/", timeout_s=FUNDS_S), "show the account").fields
        # Some accounts show what they have as `balance`, others as `credit` (docs and the vendor's client, 2026-08).
        told = [answers.micro(user.get(name)) for name in ("balance", "credit")]
        known = [amount for amount in told if amount is not None]
        return (max(known), "USD") if known else NoAnswer(sent=True, kind="untold", detail="no balance in its answer")

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Instances and volumes. Raises: NoKey, Misuse."""
        lists = (
            ("machine", self._list, _instance),
            ("volume", lambda: listing.rows_of(self._api.read("/v0/volumes/", kind="list"), "volumes"), self._volume),
        )
        return listing.inventory(lists, kinds)

    def _volume(self, one: Mapping[str, Any]) -> Asset:
        native, size_gb = str(one.get("id")), round(one.get("disk_space") or 0)
        of = tuple(str(user["id"]) for user in one.get("instances") or () if "id" in user)
        command = listing.deletes(f"{self._api.base}/v0/volumes/", self.key_env, {"id": one.get("id")})
        rate = answers.micro(one.get("storage_total_cost"))
        return Asset("volume", native, "", f"{size_gb} GB", rate, of=of, command=command)

    def _offer(self, need: Need, one: Mapping[str, Any], count: int, disk_gb: int, is_spot: bool) -> Offer | None:
        gpu_gb = round((answers.micro(one.get("gpu_ram")) or 0) / 1e6 / MB_PER_GB)
        name = str(one.get("gpu_name"))
        # 24,564 MB are called 24GB, and 81,559 MB 80GB.
        names = [f"{name} {gib}GB" for gib in (gpu_gb, gpu_gb - 1, 80 if 78 <= gpu_gb <= 86 else gpu_gb)]
        if count not in machines.counts(need, *names):
            return None
        told = keys.options(self._site).get("bid", one.get("min_bid")) if is_spot else one.get("dph_total")
        rate = answers.micro(told)
        facts = {
            "gpu": name,
            "gpus": count,
            "gpu_memory_gib": gpu_gb,
            "cpus": one.get("cpu_cores_effective"),
            "memory_gib": round((one.get("cpu_ram") or 0) * 1e6 / GIB),
            "disk_gib": disk_gb,
            "region": one.get("geolocation"),
            "reliability": one.get("reliability2", one.get("reliability")),
            "duration_s": int(one.get("duration") or 0),
            "is_spot": is_spot,
            "interruption": "outbid at any time, without a signal" if is_spot else "when the host goes offline",
            "egress_micro_per_gib": answers.micro(one.get("inet_up_cost")),
            "survives_stop": "the whole disk, on the same host",
            "ask": one.get("id"),
        }
        known = {key: value for key, value in facts.items() if value is not None}
        native = f"{count} x {name} (ask {one.get('id')})"
        return Offer(native, rate or 0, "USD", known, is_rate_known=bool(rate))

    def _fraction(self, name: str, default: float) -> float:
        value = keys.options(self._site).get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise Misuse(detail=f"[sites.{self._site.name}.vastai] {name}: write a number from 0 to 1, not {value!r}")
        return float(value)

    def _account(self, reply: Reply | NoAnswer, what: str) -> Reply:
        """`_must` for what every account has: there 404 is the answer to an unknown key (docs.vast.ai, 2026-08)."""
        if isinstance(reply, Reply) and reply.status == 404:
            raise answers.KeyRefused(
                site=self._site.name, provider="vastai", key=self._api.key().name, said=answers.said(reply)
            )
        return self._must(reply, what)

    def _list(self) -> Sequence[Mapping[str, Any]] | NoAnswer:
        """All of the account's instances; a page that fails makes the whole list fail."""
        found: list[Mapping[str, Any]] = []
        query: dict[str, Any] = {"limit": PAGE, "order_by": json.dumps([{"col": "id", "dir": "asc"}])}
        while True:
            reply = self._api.read("/v1/instances/", query, kind="list")
            if isinstance(reply, NoAnswer):
                return reply
            page = answers.rows(reply.body, "instances") if reply.is_ok else None
            if page is None:
                return NoAnswer(sent=True, kind="refused", detail=answers.said(reply))
            found += page
            after = reply.fields.get("next_token")
            if not after or not page:
                return found
            query["after_token"] = after


def _contract(body: Any) -> object:
    return body.get("new_contract") if isinstance(body, Mapping) else None


def _instance(one: Mapping[str, Any]) -> Asset:
    """A stopped one bills for its disk alone."""
    state = str(one.get("cur_state") or one.get("actual_status") or "")
    rate = answers.micro(one.get("storage_total_cost")) if state == "stopped" else _rate(one)
    return Asset("machine", str(one["id"]), str(one.get("label") or ""), state, rate)


def _rate(one: Mapping[str, Any]) -> int | None:
    return answers.micro(one.get("dph_total")) or None


def _told(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "region": one.get("geolocation"),
        "gpu": one.get("gpu_name"),
        "gpus": one.get("num_gpus"),
        "is_spot": one.get("is_bid"),
        "ends_s": one.get("end_date"),
    }


def _ways(one: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Its own port first, then the proxy, which is slow."""
    ports = one.get("ports")
    own = ports.get("22/tcp") if isinstance(ports, Mapping) else None
    ways = []
    if one.get("public_ipaddr") and isinstance(own, list) and own and str(own[0].get("HostPort", "")).isdecimal():
        ways.append((str(one["public_ipaddr"]).strip(), int(own[0]["HostPort"])))
    if one.get("ssh_host") and isinstance(one.get("ssh_port"), int):
        ways.append((str(one["ssh_host"]), one["ssh_port"]))
    return ways


def _pulse(one: Mapping[str, Any]) -> Pulse:
    """One that was outbid shows as stopped or exited, while it is meant to run (docs.vast.ai, 2026-08)."""
    is_off = one.get("cur_state") == "stopped" or one.get("actual_status") in ("exited", "stopped")
    return Pulse.STOPPED if is_off else Pulse.ALIVE
