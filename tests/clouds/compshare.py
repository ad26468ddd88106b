"""CompShare's API as a stand-in. Held to `descriptions/compshare.json`, written from the vendor's pages: requests are
signed forms, HTTP is 200 whatever happens, only a stopped instance is deleted. Asked by the vendor's own program, or by
`compshare_program.py`, which behaves as that one does.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clouds.standin import KEY, Answer, Cloud, Machine

PUBLIC = "public-key-of-the-account"
LOGIN = "/-/login"  # no call of the API: how the stand-in of the program gets into a machine
TYPES = {"A100": (80, 16, 128), "4090": (24, 16, 64)}  # memory of one, and processors and memory beside it
PRICES = {"A100": 9.5, "4090": 1.98}  # yuan an hour of one
BUSY_LOOKS = 2  # how often one that stops is read before it has stopped


class CompShare(Cloud):
    """The account."""

    description = "compshare"

    def __init__(self) -> None:
        super().__init__()
        self.on_login: Callable[[Machine, str], None] = lambda one, command: one.keys.append(command)

    def form(self, told: dict[str, str], path: str) -> tuple[str, Any, str]:
        """Each action is a path of its own. The key is the one that it is signed with, if it is ours."""
        signature = told.pop("Signature", "")
        text = "".join(name + told[name] for name in sorted(told)) + KEY
        is_ours = told.pop("PublicKey", "") == PUBLIC and hashlib.sha1(text.encode()).hexdigest() == signature
        action = told.pop("Action", "")
        return LOGIN if path == LOGIN else f"/{action}", nested(told), KEY if is_ours else ""

    def kind_of(self, method: str, path: str) -> str:
        kinds = {"/CreateCompShareInstance": "create", "/TerminateCompShareInstance": "destroy"}
        kinds |= {"/StopCompShareInstance": "destroy", "/DescribeCompShareInstance": "list", LOGIN: "login"}
        return kinds.get(path, "beside" if "Disk" in path else "read")

    def key_refused(self) -> Answer:
        return Answer(200, {"RetCode": 171, "Message": "Signature VerifyAC Error"})

    def limited(self) -> Answer:
        return Answer(429, text="")

    def answer(self, method: str, path: str, query_text: str, query: dict[str, str], body: Any, key: str) -> Answer:
        if path != LOGIN:
            return super().answer(method, path, query_text, query, body, key)
        with self.lock:
            self.on_login(self.machines[body["UHostId"]], body["Command"])
        return Answer(200, {"RetCode": 0})

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        action = path[1:]
        calls = {
            "DescribeCompShareInstance": self.listed,
            "DescribeAvailableCompShareInstanceTypes": lambda asked: {"AvailableInstanceTypes": types(asked)},
            "CheckCompShareResourceCapacity": self.capacity,
            "GetCompShareInstancePrice": lambda asked: {"PriceDetails": [price(asked)]},
            "CreateCompShareInstance": self.create,
            "StopCompShareInstance": self.stop,
            "TerminateCompShareInstance": self.terminate,
            "DescribeCompshareDisk": lambda asked: {"DiskSet": self.beside.get("disks", [])},
        }
        found = calls[action](body)
        code = found.pop("RetCode", 0)
        return Answer(200, {"RetCode": code, **({"Action": f"{action}Response"} if not code else {}), **found})

    def listed(self, asked: dict[str, Any]) -> dict[str, Any]:
        shown = [self.looked_at(one) for one in self.machines.values()]
        rows = [instance(one) for one in shown if self.is_listed(one)]
        if "UHostIds" in asked:
            rows = [instance(one) for one in shown if one.ended_s is None and one.native in asked["UHostIds"]]
        first, most = int(asked.get("Offset", 0)), int(asked.get("Limit", 20))
        return {"TotalCount": len(rows), "UHostSet": rows[first : first + most]}

    def looked_at(self, one: Machine) -> Machine:
        """It boots, fails to, or has stopped by now."""
        self.seen(one, "Running")
        if one.status == "booting" and self.never_runs and one.looks > BUSY_LOOKS:
            one.status = "Install Fail"
        if one.status.startswith("Stopping"):
            left = int(one.status[8:]) - 1
            one.status = f"Stopping{left}" if left else "Stopped"
        return one

    def capacity(self, asked: dict[str, Any]) -> dict[str, Any]:
        _, cpus, memory = TYPES[asked["GpuType"]]
        is_there = self.has_stock
        specs = [{"Gpu": n, "Cpu": n * cpus, "Mem": n * memory, "ResourceEnough": is_there} for n in (1, 2)]
        return {"Specs": specs}

    def create(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.balance_micro <= 0:
            return {"RetCode": 8095, "Message": "the balance is too low"}
        if self.is_sold_out or not self.has_stock:
            return {"RetCode": 8039, "Message": "no resource is left"}
        rate = round(PRICES[asked["GpuType"]] * 1_000_000) * int(asked["GPU"])
        return {"UHostIds": [self.rent(asked["GpuType"], asked["Name"], rate, asked).native]}

    def stop(self, asked: dict[str, Any]) -> dict[str, Any]:
        one = self.machines.get(asked["UHostId"])
        if one is None or one.status != "Running":
            return {"RetCode": 8001, "Message": "the instance is not running"}
        one.status = f"Stopping{BUSY_LOOKS}"
        self.on_end(one)
        return {"UHostId": one.native}

    def terminate(self, asked: dict[str, Any]) -> dict[str, Any]:
        one = self.machines.get(asked["UHostId"])
        if one is None or one.ended_s is not None or one.status not in ("Stopped", "Install Fail"):
            return {"RetCode": 8001, "Message": "the instance is not stopped"}
        self.destroy(one)
        return {"UHostId": one.native, "InRecycle": "No"}


def program(folder: Path, api: str) -> str:
    """The path of a program that behaves as the vendor's, and asks the stand-in at `api`."""
    path, source = folder / "compshare", Path(__file__).with_name("compshare_program.py").resolve()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{source}" "{api}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def nested(told: dict[str, str]) -> dict[str, Any]:
    """A form's fields as they were before: `Disks.0.Size` is a field of the first of a list."""
    found: dict[str, Any] = {}
    for name, value in told.items():
        match = re.fullmatch(r"(\w+)\.(\d+)(?:\.(\w+))?", name)
        if match is None:
            found[name] = value
            continue
        rows = found.setdefault(match[1], [])
        if match[3] is None:
            rows.append(value)
            continue
        while len(rows) <= int(match[2]):
            rows.append({})
        rows[int(match[2])][match[3]] = value
    return found


def types(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The kinds of GPU in a zone."""
    return [
        {
            "Name": name,
            "InstanceType": "uhost",
            "Zone": asked["Zone"],
            "Status": "Normal",
            "GraphicsMemory": {"Value": memory},
            "MachineSizes": [{"Gpu": n, "Collection": [{"Cpu": n * cpus, "Memory": [n * beside]}]} for n in (1, 2)],
        }
        for name, (memory, cpus, beside) in TYPES.items()
    ]


def price(asked: dict[str, Any]) -> dict[str, Any]:
    """What an hour of it costs."""
    of_disk = sum(int(one["Size"]) for one in asked.get("Disks", [])) * 0.001
    instance = PRICES[asked["GpuType"]] * int(asked["Gpu"])
    return {"ChargeType": asked["ChargeType"], "Instance": instance, "SystemDisks": of_disk, "Disks": 0}


def instance(one: Machine) -> dict[str, Any]:
    """As the list has it. An address comes with the state Running."""
    asked, state = one.asked, "Stopping" if one.status.startswith("Stopping") else one.status
    row = {
        "UHostId": one.native, "Name": one.name, "State": "Starting" if state == "booting" else state,
        "GpuType": one.kind, "GPU": int(asked["GPU"]), "CPU": int(asked["CPU"]), "Memory": int(asked["Memory"]),
        "Region": asked["Region"], "Zone": asked["Zone"], "ChargeType": asked["ChargeType"],
        "InstancePrice": one.rate_micro_per_h / 1e6, "CreateTime": int(one.made_s), "Password": "c2VjcmV0",
    }  # fmt: skip
    return {**row, "SshLoginCommand": f"ssh -p {one.port} root@{one.host}"} if state == "Running" else row
