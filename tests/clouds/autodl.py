"""AutoDL's Pro API as a stand-in. Held to `descriptions/autodl.json`, written from an index of its pages: HTTP is
200 whatever happens, two reads are GET with a JSON body, an instance is released only when it is powered off.
"""

from __future__ import annotations

from typing import Any

from tests.clouds.standin import Answer, Cloud, Machine

PRO = "/api/v1/dev/instance/pro/"


class AutoDL(Cloud):
    """The account."""

    description = "autodl"

    def kind_of(self, method: str, path: str) -> str:
        last = path.rpartition("/")[2]
        return {"create": "create", "release": "destroy", "power_off": "destroy", "list": "list"}.get(last, "read")

    def key_refused(self) -> Answer:
        return told("AuthorizeFailed", msg="invalid token")

    def limited(self) -> Answer:
        return Answer(429, text="")

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        what = path.rpartition("/")[2]
        if what == "balance":
            return told("Success", {"assets": self.balance_micro // 1000})
        if what == "create":
            return self.create(body)
        if what == "list":
            return self.listed(body)
        one = self.machines.get(body["instance_uuid"])
        if one is None or one.ended_s is not None:
            return told("NotFound", msg="the instance does not exist")
        if what == "power_off":
            if one.status != "shutdown":
                one.status = "shutdown"
                self.on_end(one)
            return told("Success")
        if what == "release":
            if one.status != "shutdown":
                return told("InstanceNotShutdown", msg="power it off first")
            self.destroy(one)
            return told("Success")
        if self.seen(one, "running").ended_s is not None:
            return told("NotFound", msg="the instance does not exist")
        return told("Success", one.status if what == "status" else snapshot(one))

    def listed(self, asked: dict[str, int]) -> Answer:
        shown = [self.seen(one, "running") for one in self.machines.values()]
        rows = [
            {"uuid": one.native, "instance_name": one.name, "status": one.status, "payg_price": 5500}
            for one in shown
            if self.is_listed(one)
        ]
        first = (asked["page_index"] - 1) * asked["page_size"]
        return told("Success", {"list": rows[first : first + asked["page_size"]], "result_total": len(rows)})

    def create(self, asked: dict[str, Any]) -> Answer:
        if self.balance_micro <= 0:
            return told("InsufficientBalance", msg="the balance is too low")
        if self.is_sold_out or not self.has_stock:
            return told("NoStock", msg="no GPU is free")
        one = self.rent("pro", asked.get("instance_name", ""), 5_500_000, asked, f"pro-{self.rented_ever + 1:06d}")
        one.keys = [asked["start_command"].split("'")[1]]
        return told("Success", one.native)


def snapshot(one: Machine) -> dict[str, Any]:
    """How to reach an instance."""
    is_up = one.status == "running"
    return {
        "status": one.status, "proxy_host": one.host if is_up else "", "ssh_port": one.port if is_up else 0,
        "ssh_command": f"ssh -p {one.port} root@{one.host}" if is_up else "", "root_password": "x", "payg_price": 5500,
    }  # fmt: skip


def told(code: str, data: Any = None, msg: str = "") -> Answer:
    """An answer: HTTP 200, whatever happened."""
    return Answer(200, {"code": code, "msg": msg, "data": data, "request_id": "r"})
