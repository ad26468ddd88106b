"""RunPod's REST API v2 as a stand-in. Held to `descriptions/runpod.json`; what that leaves open is as its pages say:
400 without a code for no stock, 402 for an empty balance, TERMINATED for a while after the end, names that repeat.
"""

from __future__ import annotations

from typing import Any

from sojourn.wire import units
from tests.clouds.standin import Answer, Cloud, Machine

GPUS = {
    "NVIDIA GeForce RTX 4090": ("RTX 4090", 24, 690_000, 340_000, 8),
    "NVIDIA A100-SXM4-80GB": ("A100 SXM", 80, 1_490_000, 1_190_000, 8),
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 80, 2_990_000, 2_690_000, 8),
}


class RunPod(Cloud):
    """The account."""

    description = "runpod"

    def kind_of(self, method: str, path: str) -> str:
        if (method, path) == ("POST", "/v2/pods"):
            return "create"
        return "destroy" if method in ("DELETE", "POST") else "list" if path == "/v2/pods" else "read"

    def key_refused(self) -> Answer:
        return problem(401, "Unauthorized", "no such key")

    def limited(self) -> Answer:
        return problem(429, "Too Many Requests", "the limit of a minute is used up")

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        parts = path.strip("/").split("/")[1:]
        if parts == ["catalog", "gpus"]:
            return Answer(200, {"gpus": [self.gpu(id, query) for id in GPUS]})
        if parts == ["network-volumes"]:
            return Answer(200, {"networkVolumes": self.beside.get("network-volumes", [])})
        if parts[0] == "network-volumes":
            is_there = self.deleted("network-volumes", "id", parts[1])
            return Answer(204) if is_there else problem(404, "Not Found", "no such volume")
        if parts == ["pods"] and method == "POST":
            return self.create(body)
        if parts == ["pods"]:
            shown = [self.seen(one, "RUNNING") for one in self.machines.values()]
            return Answer(200, {"pods": [pod(one) for one in shown if self.is_listed(one)]})
        if parts[0] == "pods" and parts[1] in self.machines:
            return self.one(method, parts, self.machines[parts[1]], body)
        return problem(404, "Not Found", "no such pod")

    def one(self, method: str, parts: list[str], one: Machine, body: Any) -> Answer:
        if one.ended_s is not None:
            return problem(404, "Not Found", "no such pod")
        if method == "DELETE":
            self.destroy(one)
            return Answer(204)
        if method == "POST" and body["action"] == "start" and one.status == "EXITED":
            self.wake(one)
            return Answer(200, pod(one))
        if method == "POST":
            if body["action"] != "stop" or one.status == "EXITED":
                return problem(409, "Conflict", "not among the pod's actions")
            one.status = "EXITED"
            self.on_end(one)
            return Answer(200, pod(one))
        self.seen(one, "RUNNING")
        return Answer(200, pod(one)) if one.ended_s is None else problem(404, "Not Found", "no such pod")

    def create(self, asked: dict[str, Any]) -> Answer:
        gpu = asked["gpu"]
        if self.balance_micro <= 0:
            return problem(402, "Payment Required", "the balance is used up")
        if gpu["id"] not in GPUS:
            return problem(422, "Unprocessable Entity", "no such GPU")
        if self.is_sold_out:
            return problem(400, "Bad Request", "There are no longer any instances available with these specifications")
        price = GPUS[gpu["id"]][2 if asked.get("cloud", "SECURE") == "SECURE" else 3] * gpu.get("count", 1)
        one = self.rent("pod", asked["name"], price, asked)
        one.keys = [asked.get("env", {}).get("PUBLIC_KEY", "")] if asked.get("startSsh") else []
        return Answer(201, pod(one))

    def gpu(self, id: str, query: dict[str, str]) -> dict[str, Any]:
        name, memory, secure, community, most = GPUS[id]
        stock = "LOW" if self.has_stock else "NONE"
        return {
            "id": id, "name": name, "pool": None, "manufacturer": "NVIDIA", "memory": memory,
            "secure": True, "community": True,
            "price": {"secure": secure / 1e6, "community": community / 1e6},
            "maxCount": {"secure": most, "community": most},
            **({"availability": stock} if query.get("include") == "AVAILABILITY" else {}),
        }  # fmt: skip


def pod(one: Machine) -> dict[str, Any]:
    """A pod as the API shows it."""
    status = "PROVISIONING" if one.status == "booting" else one.status
    is_up, asked = status == "RUNNING", one.asked
    direct = {"host": one.host, "port": one.port, "username": "root", "command": f"ssh root@{one.host} -p {one.port}"}
    gpu = {"id": asked["gpu"]["id"], "count": asked["gpu"].get("count", 1)}
    return {
        "id": one.native, "name": one.name, "status": status,
        "actions": ["stop" if is_up else "start", "terminate"],
        "image": asked["image"], "args": "", "disk": asked.get("disk", 20), "mounts": asked.get("mounts", {}),
        "ports": asked.get("ports", []), "env": {}, "registry": None, "cloud": asked.get("cloud", "SECURE"),
        "dataCenterId": "EU-RO-1", "cudaVersion": "12.8", "ssh": {"proxy": None, "direct": direct if is_up else None},
        "template": None, "cost": 0.0 if status == "EXITED" else one.rate_micro_per_h / 1e6, "locked": False,
        "runtime": None, "createdAt": units.stamp(one.made_s), "startedAt": None,
        "globalNetworking": {"enabled": False}, "gpu": gpu,
    }  # fmt: skip


def problem(status: int, title: str, detail: str) -> Answer:
    """application/problem+json."""
    return Answer(status, {"title": title, "status": status, "detail": detail})
