"""`autodl`: Pro instances of AutoDL, by its developer API. Untried against the real service.

Settings in [sites.NAME.autodl]: `key`, `gpu_spec_uuid`, `image_uuid`, `gpu` (its name, as jobs ask for it), `gpus`,
`rate` (what all of them cost: the API has no prices), `max_price`, `regions`, `disk_gb` (more system disk),
`public_key`, `api`.
Ordinary instances have no API: a site with `provider = "by_hand"` and `platform = "autodl"` counts their meter.
Source: a third party's index of the vendor's pages, 2026-08.
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
from sojourn.wire.errors import Misuse

PRO = "/v1/dev/instance/pro"
FUNDS_S, PAGE, PAGES, MOST_GPUS = 10.0, 50, 40, 4
OFF_S, LOOK_S = 120.0, 3.0  # powering off takes so long at most, and only then an instance can be released
MICRO_PER_THOUSANDTH = 1000  # money is in thousandths of a yuan
EVERY_S = {"read": 0.5, "write": 1.0}  # its limit is not documented
OFF = ("shutdown", "off", "stopped")
_STOP = ("power off and release the instance", "power off the instance")


class Backend(Renting):
    """Provider `autodl`."""

    stop, stop_verb = _STOP, _STOP[0]
    key_env = "AUTODL_TOKEN"

    def __init__(self, site: Site) -> None:
        base = address(keys.text(site, "api", "https://api.autodl.com"))
        super().__init__(site, Api("autodl", base + "/api", self.key_of(site), scheme="", every_s=EVERY_S))

    def offers(self, need: Need) -> Sequence[Offer]:
        """The GPU of the settings, as many as the job wants, where it fits. Stock is told only to enterprises."""
        name, spec = self._setting("gpu"), self._setting("gpu_spec_uuid")
        gpus = keys.number(self._site, "gpus", 1)
        if gpus > MOST_GPUS or not machines.has_gpus(need, gpus, name):
            return ()
        rate, currency = machines.told_rate(self._site, "CNY")
        facts = {
            "gpu": name,
            "gpus": gpus,
            "is_spot": False,
            "is_untried": True,
            "egress_micro_per_gib": 0,
            "survives_stop": "system and data disk, for 15 days",
            "spec": spec,
        }
        return (Offer(f"{gpus} x {name}", rate, currency, facts, is_rate_known=bool(rate)),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """An instance called `token`. The ssh key comes by its start command."""
        key = keys.public_key(self._site)
        body: dict[str, Any] = {
            "req_gpu_amount": offer.facts["gpus"],
            "expand_system_disk_by_gb": keys.number(self._site, "disk_gb", 1) if self._has("disk_gb") else 0,
            "gpu_spec_uuid": offer.facts["spec"],
            "image_uuid": self._setting("image_uuid"),
            "instance_name": token,
            "start_command": f"mkdir -p /root/.ssh; echo '{key}' >> /root/.ssh/authorized_keys",
        }
        if regions := keys.words(self._site, "regions"):
            body["data_center_list"] = regions
        answer = answers.created(self._api.write("POST", f"{PRO}/create", body, kind="create"), _uuid)
        if not isinstance(answer, answers.Accepted):
            return answer  # a code that is not Success comes with HTTP 200: unknown, and its list tells
        told = {key: offer.facts[key] for key in ("gpu", "gpus")}
        return self._own(answer.native, token, now_s, told)

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The instance of that very name in the account's list."""
        listed = self._list()
        if isinstance(listed, (Reply, NoAnswer)):
            return answers.no_answer(listed)
        return [self._own(_native(one), token, now_s, {}) for one in listed if _name(one) == token]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When it runs, and an sshd answers at its proxy. Raises: MachineFailed."""
        reply = self._question("GET", f"{PRO}/snapshot", {"instance_uuid": lease.native}, deadline_s)
        data = _data(reply)
        if not isinstance(data, Mapping):
            return replace(answers.no_answer(reply), kind="not-ready")
        if str(data.get("status", "")) in OFF:
            raise answers.MachineFailed(lease=lease.name, why="the instance is powered off")
        host, port = data.get("proxy_host"), data.get("ssh_port")
        if not host or not port:
            return NoAnswer(sent=True, kind="not-ready", detail="the instance has no address yet")
        quiet = reach.answers_ssh(self._site, str(host), int(port), deadline_s)
        return quiet or replace(lease, address=f"root@{host}:{port}")

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id, and not in the list."""
        reply = self._question("GET", f"{PRO}/status", {"instance_uuid": lease.native})
        by_id = Pulse.UNKNOWN
        if _is_success(reply):
            by_id = _pulse(state) if (state := _state(_data(reply))) else Pulse.UNKNOWN
        elif isinstance(reply, Reply) and reply.is_json and _code(reply) in ("NotFound", "InstanceNotFound"):
            by_id = Pulse.GONE
        listed = answers.by_list(self._list(), lease.native, lambda one: _pulse(_state(one.get("status"))), _native)
        return answers.standing(by_id, listed)

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Power it off and, where nothing is to stay, release it then. Blocks for OFF_S at most.

        Raises: Defect, ProviderSays.
        """
        law.check(clearance, lease)
        who = {"instance_uuid": lease.native}
        asked = f"autodl was told to {lease.stop_verb} {lease.native}"
        if self.look(lease) is Pulse.GONE:
            return f"{asked} before"
        off = self._api.write("POST", f"{PRO}/power_off", who)
        if not lease.is_final:
            if not _is_success(off) and not isinstance(off, NoAnswer):
                self._refused(off, lease.stop_verb)
            return f"{asked}; its disks stay for 15 days, paid ones go on billing"
        until_s = self._api.now_s() + OFF_S
        while self.look(lease) is Pulse.ALIVE and self._api.now_s() < until_s:
            self._api.sleep(LOOK_S)
        reply = self._api.write("POST", f"{PRO}/release", who)
        if isinstance(reply, NoAnswer):
            return f"{asked}; its answer was lost"
        if not _is_success(reply) and self.look(lease) is not Pulse.GONE:
            self._refused(reply, lease.stop_verb)
        return asked

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the key says of the account. Raises: NoKey, KeyRefused, ProviderSays, ..."""
        listed = self._list()
        if isinstance(listed, (Reply, NoAnswer)):
            self._refused(listed, "list its instances")
            return {}
        funds = self.funds()
        balance = "" if isinstance(funds, NoAnswer) else f"{funds[0] / 1e6:.2f} {funds[1]}"
        found = {"key": self._api.key().name, "machines": len(listed), "balance": balance}
        return found if isinstance(funds, NoAnswer) else {**found, "balance_micro": funds[0]}

    def funds(self) -> tuple[int, str] | NoAnswer:
        """(micro-units, currency) that the wallet holds."""
        data = _data(reply := self._question("POST", "/v1/dev/wallet/balance", {}, FUNDS_S))
        held = data.get("assets", data.get("balance")) if isinstance(data, Mapping) else data
        if isinstance(held, bool) or not isinstance(held, (int, float)):
            return answers.no_answer(reply)
        return round(held * MICRO_PER_THOUSANDTH), "CNY"

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Pro instances; ordinary ones, file storage and paid disks are in no list. Raises: NoKey, Misuse."""
        lists = (("machine", self._list, _asset),)
        return listing.inventory(lists, kinds, ("ordinary instance", "file storage", "data disk expansion"))

    def _has(self, name: str) -> bool:
        return name in keys.options(self._site)

    def _setting(self, name: str) -> str:
        found = keys.text(self._site, name)
        if not found:
            raise Misuse(detail=f'[sites.{self._site.name}.autodl] {name}: write {name} = "..."; its API lists none')
        return found

    def _refused(self, reply: Reply | NoAnswer, what: str) -> None:
        """Raises: KeyRefused, ProviderSays, ProviderSilent."""
        key = self._api.key().name
        answers.must(reply, provider="autodl", site=self._site.name, key=key, what=what)
        assert isinstance(reply, Reply)
        said = answers.said(reply)
        if _code(reply) == "AuthorizeFailed":
            raise answers.KeyRefused(site=self._site.name, provider="autodl", key=key, said=said)
        raise answers.ProviderSays(site=self._site.name, provider="autodl", what=what, said=said)

    def _question(self, method: str, path: str, body: Mapping[str, Any], timeout_s: float = 60.0) -> Reply | NoAnswer:
        """A question; two of them are GET with a JSON body."""
        return self._api.read(path, body=dict(body), method=method, timeout_s=timeout_s)

    def _list(self) -> listing.Listed:
        """All pages; a page that fails makes the whole list fail."""
        found: list[Mapping[str, Any]] = []
        for page in range(1, PAGES + 1):
            reply = self._question("POST", f"{PRO}/list", {"page_index": page, "page_size": PAGE})
            rows = answers.rows(_data(reply), "list")
            if rows is None:
                return reply
            found += rows
            if len(rows) < PAGE:
                return found
        return NoAnswer(sent=True, kind="refused", detail=f"more than {PAGES} pages of instances")

    def _own(self, native: str, token: str, now_s: float, facts: Mapping[str, Any]) -> Lease:
        rate, currency = machines.told_rate(self._site, "CNY")
        return machines.lease(self._site, native, token, (rate or None, currency), now_s, _STOP, facts)


def _code(reply: Reply) -> str:
    return str(reply.fields.get("code", ""))


def _is_success(reply: Reply | NoAnswer) -> bool:
    """HTTP is 200 whatever happens: `code` decides."""
    return isinstance(reply, Reply) and reply.is_ok and _code(reply) == "Success"


def _data(reply: Reply | NoAnswer) -> Any:
    return reply.fields.get("data") if isinstance(reply, Reply) and _is_success(reply) else None


def _uuid(body: Any) -> object:
    is_made = isinstance(body, Mapping) and body.get("code") == "Success"
    return body.get("data") if is_made else None


def _state(status: Any) -> str:
    return str(status.get("status", "")) if isinstance(status, Mapping) else str(status or "")


def _native(one: Mapping[str, Any]) -> str:
    return str(one.get("uuid") or one.get("instance_uuid") or "")


def _name(one: Mapping[str, Any]) -> str:
    return str(one.get("instance_name") or one.get("name") or "")


def _asset(one: Mapping[str, Any]) -> Asset:
    price = one.get("payg_price")
    is_price = isinstance(price, (int, float)) and not isinstance(price, bool)
    rate = round(price * MICRO_PER_THOUSANDTH) if is_price and price is not None else None
    state = _state(one.get("status"))
    return Asset("machine", _native(one), _name(one), state, None if state in OFF else rate, currency="CNY")


def _pulse(state: str) -> Pulse:
    return Pulse.STOPPED if state in OFF else Pulse.ALIVE
