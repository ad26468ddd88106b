"""vast.ai as a stand-in. Held to `descriptions/vastai.json`, with the corrections that its README names: an unknown key
is 404, an error may name a stopped instance that bills for its disk, null is gone, lists come in pages.
"""

from __future__ import annotations

import json
from typing import Any

from tests.clouds.standin import Answer, Cloud, Machine

ASKS = {
    101: ("RTX 4090", 24564, 1, 0.35, 0.20),
    102: ("A100 SXM4", 81920, 1, 1.10, 0.60),
    103: ("A100 SXM4", 81920, 8, 9.20, 5.00),
    104: ("H100 SXM", 81559, 1, 2.40, 1.50),
}
PAGE = 2
LASTS_S = 5_000_000.0
DISK_USD_PER_H = 0.005


class VastAI(Cloud):
    """The account."""

    description = "vastai"
    undescribed = (404, 410, 402, 429)

    def kind_of(self, method: str, path: str) -> str:
        if "/asks/" in path:
            return "create"
        return "destroy" if method == "DELETE" else "list" if path.rstrip("/").endswith("v1/instances") else "read"

    def key_refused(self) -> Answer:
        return Answer(404, {"success": False, "error": "no_such_user", "msg": "Invalid user key"})

    def limited(self) -> Answer:
        return Answer(429, {"detail": "API requests too frequent endpoint threshold=4.5"})

    def broken(self, what: str) -> Answer:
        """An error that names the instance which was made all the same: stopped, and billing for its disk."""
        if not self.billing:
            return super().broken(what)
        one = list(self.machines.values())[-1]
        one.status = "stopped"
        body = {"success": False, "error": "invalid_price", "msg": "bid not met", "new_contract": int(one.native)}
        return self.said("PUT", "/api/v0/asks/1/", Answer(400, body))

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        parts = path.strip("/").split("/")[1:]
        if parts == ["v0", "bundles"]:
            return Answer(200, {"offers": self.offers(body)})
        if parts == ["v0", "users", "current"]:
            return Answer(200, {"id": 1, "email": "a@b.c", "balance": self.balance_micro / 1e6, "credit": 0.0})
        if parts == ["v0", "volumes"] and method == "DELETE":
            is_there = self.deleted("volumes", "id", str(body["id"]))
            gone = {"success": False, "error": "no_such_volume", "msg": "Volume with that ID does not exist."}
            return Answer(200, {"success": True}) if is_there else Answer(404, gone)
        if parts == ["v0", "volumes"]:
            return Answer(200, {"volumes": self.beside.get("volumes", [])})
        if parts[:2] == ["v0", "asks"]:
            return self.create(int(parts[2]), body)
        if parts == ["v1", "instances"]:
            return self.page(query)
        one = self.machines.get(parts[2]) if parts[:2] == ["v0", "instances"] else None
        if method == "GET":
            is_there = one is not None and one.ended_s is None and self.seen(one, "running").ended_s is None
            return Answer(200, {"instances": instance(one) if is_there and one else None})
        if one is None or one.ended_s is not None:
            return Answer(404, {"success": False, "error": "no_such_instance", "msg": "no such instance"})
        if method == "DELETE":
            self.destroy(one)
            return Answer(200, {"success": True})
        if body.get("state") == "running":
            self.wake(one)
        if body.get("state") == "stopped":
            one.status = "stopped"
            self.on_end(one)
        return Answer(200, {"success": True})

    def page(self, query: dict[str, str]) -> Answer:
        shown = [self.seen(one, "running") for one in self.machines.values()]
        rows = [instance(one) for one in shown if one.ended_s is None and self.is_listed(one)]
        wanted = json.loads(query.get("select_filters", "{}")).get("label", {}).get("eq")
        rows = [row for row in rows if wanted in (None, row["label"])]
        first = int(query.get("after_token") or 0)
        after = str(first + PAGE) if first + PAGE < len(rows) else None
        body = {"success": True, "instances": rows[first : first + PAGE], "next_token": after}
        return Answer(200, {**body, "total_instances": len(rows), "instances_found": len(rows)})

    def create(self, ask: int, asked: dict[str, Any]) -> Answer:
        if ask not in ASKS or self.is_sold_out:
            return Answer(410, {"success": False, "error": "no_such_ask", "msg": "the offer is gone", "ask_id": ask})
        if self.balance_micro <= 0:
            return Answer(400, {"success": False, "error": "invalid_args", "msg": "your credit is used up"})
        price = asked.get("price") or ASKS[ask][3]  # the vendor's client sends null for what it leaves out
        one = self.rent(
            f"ask {ask}",
            asked.get("label", ""),
            round(price * 1e6),
            {**asked, "ask": ask},
            str(5000 + self.rented_ever),
        )
        one.keys = [line.split("'")[1] for line in (asked.get("onstart") or "").splitlines() if "'" in line]
        return Answer(200, {"success": True, "new_contract": int(one.native)})

    def offers(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.has_stock:
            return []
        counts = asked.get("num_gpus", {}).get("in")
        return [
            {
                "id": ask, "machine_id": ask, "gpu_name": name, "gpu_ram": ram, "num_gpus": count, "dph_total": price,
                "min_bid": bid, "storage_cost": 0.15, "duration": LASTS_S, "reliability2": 0.995,
                "inet_up_cost": 0.01, "geolocation": "Sweden, SE", "cpu_cores_effective": 16.0,
                "cpu_ram": 64_000, "direct_port_count": 20,
            }
            for ask, (name, ram, count, price, bid) in ASKS.items()
            if (not counts or count in counts) and asked.get("duration", {}).get("gte", 0) <= LASTS_S
        ]  # fmt: skip


def instance(one: Machine) -> dict[str, Any]:
    """An instance as the API shows it."""
    name, ram, count, _, bid = ASKS[one.asked["ask"]]
    is_up = one.status == "running"
    status = None if one.status == "booting" else {"stopped": "exited"}.get(one.status, one.status)
    intended = "stopped" if one.status == "stopped" else "running"
    return {
        "id": int(one.native), "actual_status": status, "intended_status": intended,
        "cur_state": intended, "next_state": intended, "label": one.name or None, "status_msg": "",
        "ssh_host": one.host, "ssh_port": one.port, "public_ipaddr": one.host,
        "ports": {"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": str(one.port)}]} if is_up else None,
        "gpu_name": name, "gpu_ram": ram, "num_gpus": count, "dph_total": one.rate_micro_per_h / 1e6, "min_bid": bid,
        "storage_total_cost": DISK_USD_PER_H,
        "is_bid": bool(one.asked.get("price")), "machine_id": one.asked["ask"], "geolocation": "Sweden, SE",
        "start_date": one.made_s, "end_date": one.made_s + 5_000_000.0, "extra_env": [],
    }  # fmt: skip
