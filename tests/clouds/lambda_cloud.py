"""Lambda Cloud as a stand-in. Held to `descriptions/lambda.json`; 429 exists by the rate rule and is not described."""

from __future__ import annotations

from typing import Any

from tests.clouds.standin import Answer, Cloud, Machine

TYPES = {
    "gpu_1x_a10": ("A10 (24 GB PCIe)", 75, 30, 200, 1400, 1),
    "gpu_1x_a100_sxm4": ("A100 (40 GB SXM4)", 129, 30, 200, 512, 1),
    "gpu_8x_h100_sxm5": ("H100 (80 GB SXM5)", 2392, 208, 1800, 22000, 8),
}
REGION = {"name": "us-east-1", "description": "Virginia, USA"}
KEYS = [{"id": "k1", "name": "laptop", "public_key": "ssh-ed25519 AAAA other"}]


class Lambda(Cloud):
    """The account."""

    description = "lambda"
    undescribed = (429, 402)

    def kind_of(self, method: str, path: str) -> str:
        last = path.rpartition("/")[2]
        return {"launch": "create", "terminate": "destroy", "instances": "list"}.get(last, "read")

    def key_refused(self) -> Answer:
        said = "API key was invalid, expired, or deleted."
        return refused(401, "global/invalid-api-key", said, "Check your API key or create a new one, then try again.")

    def limited(self) -> Answer:
        return refused(429, "global/rate-limit", "Too many requests.")

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        parts = path.strip("/").split("/")[2:]
        if parts == ["instance-types"]:
            regions = [REGION] if self.has_stock else []
            kinds = {name: {"instance_type": kind(name), "regions_with_capacity_available": regions} for name in TYPES}
            return Answer(200, {"data": kinds})
        if parts == ["ssh-keys"]:
            return Answer(200, {"data": KEYS})
        if parts == ["file-systems"]:
            return Answer(200, {"data": self.beside.get("file-systems", [])})
        if parts[0] == "filesystems":
            if not self.deleted("file-systems", "id", parts[1]):
                return refused(404, "global/object-does-not-exist", "Specified filesystem does not exist.")
            return Answer(200, {"data": {"deleted_ids": [parts[1]]}})
        if parts == ["instance-operations", "launch"]:
            return self.launch(body)
        if parts == ["instance-operations", "terminate"]:
            return self.terminate(body["instance_ids"])
        if parts == ["instances"]:
            shown = [self.seen(one, "active") for one in self.machines.values()]
            return Answer(200, {"data": [instance(one) for one in shown if self.is_listed(one)]})
        one = self.machines.get(parts[1])
        if one is None or one.ended_s is not None or self.seen(one, "active").ended_s is not None:
            return refused(404, "global/object-does-not-exist", "Specified instance does not exist.")
        return Answer(200, {"data": instance(one)})

    def launch(self, asked: dict[str, Any]) -> Answer:
        if self.balance_micro <= 0:
            return refused(403, "global/account-inactive", "Your account is inactive.", "Make sure you have a card.")
        if len(asked["ssh_key_names"]) != 1 or asked["ssh_key_names"][0] not in [key["name"] for key in KEYS]:
            return refused(400, "global/invalid-parameters", "Exactly one SSH key must be specified.")
        if self.is_sold_out:
            code = "instance-operations/launch/insufficient-capacity"
            return refused(400, code, "Not enough capacity to fulfill launch request.")
        kind_name = asked["instance_type_name"]
        one = self.rent(kind_name, asked.get("name", ""), TYPES[kind_name][1] * 10_000, asked)
        one.keys = [line.split("'")[1] for line in asked.get("user_data", "").splitlines() if "'" in line]
        return Answer(200, {"data": {"instance_ids": [one.native]}})

    def terminate(self, ids: list[str]) -> Answer:
        ended = [self.machines[id] for id in ids if id in self.machines and self.machines[id].ended_s is None]
        if not ended:
            return refused(404, "global/object-does-not-exist", "Specified instance does not exist.")
        for one in ended:
            self.destroy(one)
        return Answer(200, {"data": {"terminated_instances": [instance(one) for one in ended]}})


def kind(name: str) -> dict[str, Any]:
    """An instance type as the API shows it."""
    gpu, cents, vcpus, memory, storage, gpus = TYPES[name]
    specs = {"vcpus": vcpus, "memory_gib": memory, "storage_gib": storage, "gpus": gpus}
    return {
        "name": name, "description": f"{gpus}x {gpu}", "gpu_description": gpu, "price_cents_per_hour": cents,
        "specs": specs,
    }  # fmt: skip


def instance(one: Machine) -> dict[str, Any]:
    """An instance as the API shows it; `ip` is not there before it is up."""
    status = "terminated" if one.ended_s is not None else "terminating" if one.leaving >= 0 else one.status
    can = {"available": status == "active"}
    return {
        "id": one.native, "name": one.name, "status": status, "region": REGION, "instance_type": kind(one.kind),
        "ssh_key_names": one.asked["ssh_key_names"], "file_system_names": [],
        "actions": dict.fromkeys(("migrate", "rebuild", "restart", "cold_reboot", "terminate"), can),
        **({"ip": one.host} if status == "active" else {}),
    }  # fmt: skip


def refused(status: int, code: str, message: str, suggestion: str = "") -> Answer:
    """An error as the API words it."""
    return Answer(status, {"error": {"code": code, "message": message, "suggestion": suggestion}})
