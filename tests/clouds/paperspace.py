"""Paperspace as a stand-in. Held to `descriptions/paperspace.json`, which is written from client code: a create
wraps the machine in `data`, lists come in pages, a key comes by a run-once startup script.
"""

from __future__ import annotations

from typing import Any

from tests.clouds.standin import Answer, Cloud, Machine

PAGE = 2
BESIDE = ("public-ips", "snapshots", "shared-drives", "startup-scripts")


class Paperspace(Cloud):
    """The account."""

    description = "paperspace"

    def kind_of(self, method: str, path: str) -> str:
        if method == "POST" and path == "/v1/machines":
            return "create"
        if method == "DELETE" and "/machines/" in path:
            return "destroy"
        return "list" if path == "/v1/machines" else "read" if "/machines" in path else "beside"

    def key_refused(self) -> Answer:
        return refused(401, "UNAUTHORIZED", "Invalid API key")

    def limited(self) -> Answer:
        return refused(429, "TOO_MANY_REQUESTS", "Rate limit exceeded")

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        parts = path.strip("/").split("/")[1:]
        if parts[0] in BESIDE:
            return self.things(method, parts, query, body)
        if parts == ["machines"]:
            if method == "POST":
                return self.create(body)
            shown = [self.seen(one, "ready") for one in self.machines.values()]
            return page([machine(one) for one in shown if self.is_listed(one)], query)
        one = self.machines.get(parts[1])
        if one is None or one.ended_s is not None:
            return refused(404, "NOT_FOUND", "Machine not found")
        if method == "DELETE":
            self.destroy(one)
            return Answer(200, {"event": {}, "data": machine(one)})
        if parts[2:] == ["start"]:
            self.wake(one)
            return Answer(200, {"event": {}, "data": machine(one)})
        if parts[2:] == ["stop"]:
            one.status = "off"
            self.on_end(one)
            return Answer(200, {"event": {}, "data": machine(one)})
        if self.seen(one, "ready").ended_s is not None:
            return refused(404, "NOT_FOUND", "Machine not found")
        return Answer(200, machine(one))

    def things(self, method: str, parts: list[str], query: dict[str, str], body: Any) -> Answer:
        rows = self.beside.setdefault(parts[0], [])
        if method == "POST":
            rows.append({"id": f"s{len(rows) + 1}-{body['name']}", "name": body["name"], "script": body["script"]})
            return Answer(200, {"id": rows[-1]["id"], "name": body["name"]})
        if method == "DELETE":
            is_there = self.deleted(parts[0], "id", parts[1])
            return Answer(200, {"id": parts[1]}) if is_there else refused(404, "NOT_FOUND", "not found")
        named = [row for row in rows if query.get("name") in (None, row["name"])]
        return page([{key: value for key, value in row.items() if key != "script"} for row in named], query)

    def create(self, asked: dict[str, Any]) -> Answer:
        if self.balance_micro <= 0:
            return refused(402, "PAYMENT_REQUIRED", "Please add a payment method")
        if self.is_sold_out or not self.has_stock:
            return refused(400, "OUT_OF_CAPACITY", "We are out of capacity for this machine type")
        one = self.rent(asked["machineType"], asked["name"], 3_090_000, asked)
        scripts = [row for row in self.beside.get("startup-scripts", []) if row["id"] == asked.get("startupScriptId")]
        one.keys = [row["script"].split("'")[1] for row in scripts]
        return Answer(200, {"event": {}, "data": machine(one)})


def page(rows: list[dict[str, Any]], query: dict[str, str]) -> Answer:
    """A page of a list."""
    first = int(query.get("after") or 0)
    has_more = first + PAGE < len(rows)
    after = str(first + PAGE) if has_more else None
    return Answer(200, {"items": rows[first : first + PAGE], "hasMore": has_more, "nextPage": after})


def machine(one: Machine) -> dict[str, Any]:
    """A machine as the API shows it."""
    state = {"booting": "provisioning", "gone": "stopping"}.get(one.status, one.status)
    ip = one.host if state == "ready" else None
    return {"id": one.native, "name": one.name, "state": state, "machineType": one.kind, "publicIp": ip}


def refused(status: int, code: str, message: str) -> Answer:
    """An error as the API words it."""
    return Answer(status, {"code": code, "message": message})
