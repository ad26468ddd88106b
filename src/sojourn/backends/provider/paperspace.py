"""`paperspace`: Paperspace machines. Untried against the real service: it is written from published client code.

Settings in [sites.NAME.paperspace]: `key`, `machine_type` (A100, A100-80Gx8, ...), `template_id`, `region`, `rate`
(what it costs: the API has no prices), `max_price`, `disk_gb`, `network_id`, `public_key`, `ssh_port`, `api`.
Source: types of the vendor's CLI, 2026-02; SkyPilot's provisioner, 2026-10.
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
from sojourn.core.need import Need
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse, Site
from sojourn.wire.errors import Misuse

USER = "paperspace"
DISK_GB, PAGES = 100, 50
EVERY_S = {"read": 0.5, "write": 1.0}  # its limit is not documented; 429 was seen by SkyPilot (2026-10)
UP, OFF = "ready", "off"
_STOP = ("delete the machine", "stop the machine")


class Backend(Renting):
    """Provider `paperspace`."""

    stop, stop_verb = _STOP, _STOP[0]
    key_env = "PAPERSPACE_API_KEY"

    def __init__(self, site: Site) -> None:
        base = address(keys.text(site, "api", "https://api.paperspace.com"))
        super().__init__(site, Api("paperspace", base + "/v1", self.key_of(site), every_s=EVERY_S))

    def offers(self, need: Need) -> Sequence[Offer]:
        """The machine type of the settings, where it fits. Whether it is in stock, only a create tells."""
        kind = self._setting("machine_type")
        hit = re.fullmatch(r"(.*?)(?:x(\d+))?", kind)
        name, gpus = (hit[1], int(hit[2] or 1)) if hit else (kind, 1)
        disk_gb = max(keys.number(self._site, "disk_gb", DISK_GB), round(need.disk_gib))
        if not machines.has_gpus(need, gpus, name.replace("-80G", " 80GB")):
            return ()
        rate = machines.told_rate(self._site)
        facts = {
            "gpu": name,
            "gpus": gpus,
            "disk_gib": disk_gb,
            "region": self._setting("region"),
            "is_spot": False,
            "is_untried": True,
            "egress_micro_per_gib": 0,
            "survives_stop": "the disk",
            "type": kind,
        }
        return (Offer(f"{kind} in {facts['region']}", rate[0], rate[1], facts, is_rate_known=bool(rate[0])),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """A machine called `token`. The ssh key comes by a startup script of that name, which bills nothing."""
        script = f"echo '{keys.public_key(self._site)}' >> /home/{USER}/.ssh/authorized_keys\n"
        body: dict[str, Any] = {
            "name": token,
            "machineType": offer.facts["type"],
            "templateId": self._setting("template_id"),
            "region": offer.facts["region"],
            "diskSize": offer.facts["disk_gib"],
            "publicIpType": "dynamic",
            "startOnCreate": True,
        }
        if network := keys.text(self._site, "network_id"):
            body["networkId"] = network
        made = self._api.write("POST", "/startup-scripts", {"name": token, "script": script, "isRunOnce": True})
        body["startupScriptId"] = _id(made.body) if isinstance(made, Reply) and made.is_ok else None
        if not body["startupScriptId"]:
            why = answers.said(made) if isinstance(made, Reply) else made.detail or made.kind
            return Rejected(f"its startup script was not taken ({why})", answers.kind_of(why))
        answer = answers.created(self._api.write("POST", "/machines", body, kind="create"), _id)
        if not isinstance(answer, answers.Accepted):
            return answer
        told = {key: offer.facts[key] for key in ("region", "gpu", "gpus")}
        return self._own(answer.native, token, now_s, {**told, "fault": answer.fault})

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The machine of that very name in the account's list."""
        listed = self._list()
        if isinstance(listed, (Reply, NoAnswer)):
            return answers.no_answer(listed)
        mine = [one for one in listed if one.get("name") == token]
        return [self._own(str(one["id"]), token, now_s, {"region": one.get("region")}) for one in mine]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When it is ready, has a public address, and an sshd answers there. Raises: MachineFailed."""
        reply = self._api.read(f"/machines/{lease.native}", timeout_s=deadline_s)
        one = _machine(reply)
        if one is None:
            return replace(answers.no_answer(reply), kind="not-ready")
        if one.get("state") == OFF:
            raise answers.MachineFailed(lease=lease.name, why="the machine is off; its disk bills")
        if one.get("state") != UP or not one.get("publicIp"):
            return NoAnswer(sent=True, kind="not-ready", detail=f"the machine is {one.get('state')}")
        port = keys.number(self._site, "ssh_port", 22)
        quiet = reach.answers_ssh(self._site, str(one["publicIp"]), port, deadline_s)
        where = f"{USER}@{one['publicIp']}" + (f":{port}" if port != 22 else "")
        return quiet or replace(lease, address=where)

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id, and not in the list."""
        reply = self._api.read(f"/machines/{lease.native}")
        listed = answers.by_list(self._list(), lease.native, _pulse)
        return answers.standing(answers.by_id(reply, _machine(reply), _pulse), listed)

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Delete it, or stop it where its disk is to stay. Raises: Defect, ProviderSays."""
        law.check(clearance, lease)
        if lease.is_final:
            reply = self._api.write("DELETE", f"/machines/{lease.native}")
            done = answers.accepts(reply, 404)
        else:
            reply = self._api.write("PATCH", f"/machines/{lease.native}/stop")
            done = answers.accepts(reply)
        if done is False:
            self._must(reply, lease.stop_verb)
        if lease.is_final and done:
            self._forget_script(lease)
        asked = f"paperspace was told to {lease.stop_verb} {lease.native}" + ("" if done else "; its answer was lost")
        return asked if lease.is_final else f"{asked}; its disk goes on billing"

    def wake(self, lease: Lease) -> str:
        """Start the machine. Raises: ProviderSays, ..."""
        return self._woken(lease, self._api.write("PATCH", f"/machines/{lease.native}/start"))

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the key says of the account. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        listed = self._list()
        if isinstance(listed, (Reply, NoAnswer)):
            self._must(listed, "list its machines")
            return {}
        return {"key": self._api.key().name, "machines": len(listed)}

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Machines, addresses, snapshots and shared drives; prices are those of the settings. Raises: NoKey, Misuse."""
        lists = (
            ("machine", self._list, lambda one: self._asset("machine", one)),
            ("address", lambda: self._pages("/public-ips"), lambda one: self._asset("address", one, "public-ips")),
            ("snapshot", lambda: self._pages("/snapshots"), lambda one: self._asset("snapshot", one, "snapshots")),
            ("volume", lambda: self._pages("/shared-drives"), lambda one: self._asset("volume", one, "shared-drives")),
        )
        return listing.inventory(lists, kinds)

    def _asset(self, kind: str, one: Mapping[str, Any], path: str = "") -> Asset:
        native = str(one.get("id") or one.get("ip"))
        of = str(one.get("assignedTo") or one.get("machineId") or "")
        command = listing.deletes(f"{self._api.base}/{path}/{native}", self.key_env) if path else ""
        state, name = str(one.get("state") or ""), str(one.get("name") or "")
        is_known = kind == "machine" and one.get("machineType") == keys.text(self._site, "machine_type")
        rate, currency = machines.told_rate(self._site)
        price = rate or None if is_known and state != OFF else None
        return Asset(kind, native, name, state, price, currency=currency, of=(of,) if of else (), command=command)

    def _forget_script(self, lease: Lease) -> None:
        """Its startup script is of no more use; one that stays costs nothing."""
        scripts = self._pages("/startup-scripts", {"name": lease.token})
        for one in scripts if isinstance(scripts, list) else ():
            if one.get("name") == lease.token:
                self._api.write("DELETE", f"/startup-scripts/{one.get('id')}")

    def _setting(self, name: str) -> str:
        found = keys.text(self._site, name)
        if not found:
            raise Misuse(
                detail=f'[sites.{self._site.name}.paperspace] {name}: write {name} = "..."; its API lists none'
            )
        return found

    def _list(self) -> listing.Listed:
        return self._pages("/machines")

    def _pages(self, path: str, query: Mapping[str, Any] | None = None) -> listing.Listed:
        """All pages of a list; a page that fails makes the whole list fail."""
        found: list[Mapping[str, Any]] = []
        asked = dict(query or {})
        for _ in range(PAGES):
            reply = self._api.read(path, asked)
            if isinstance(reply, NoAnswer):
                return reply
            rows = answers.rows(reply.body, "items") if reply.is_ok else None
            if rows is None:
                return reply
            found += rows
            if not reply.fields.get("hasMore"):
                return found
            asked["after"] = reply.fields.get("nextPage")
        return NoAnswer(sent=True, kind="refused", detail=f"more than {PAGES} pages of {path}")

    def _own(self, native: str, token: str, now_s: float, facts: Mapping[str, Any]) -> Lease:
        rate, currency = machines.told_rate(self._site)
        return machines.lease(self._site, native, token, (rate or None, currency), now_s, _STOP, facts)


def _id(body: Any) -> object:
    """The id of what was made; a create wraps it in `data`."""
    if not isinstance(body, Mapping):
        return None
    data = body.get("data")
    return data.get("id") if isinstance(data, Mapping) else body.get("id")


def _machine(reply: Reply | NoAnswer) -> Mapping[str, Any] | None:
    if isinstance(reply, NoAnswer) or not reply.is_ok:
        return None
    one = reply.fields.get("data", reply.fields)
    return one if isinstance(one, Mapping) and one.get("id") else None


def _pulse(one: Mapping[str, Any]) -> Pulse:
    return Pulse.STOPPED if one.get("state") == OFF else Pulse.ALIVE
