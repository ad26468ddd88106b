"""A stand-in of the program `compshare` 0.5.6, started as `compshare_program.py API ARGV...`: what of its commands
sojourn uses, with its order of calls, its JSON and its exit statuses: written from the source of the real one.

Only what starts fast is imported: it is started for every question.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys

SENSITIVE = ("Password", "SshLoginCommand")
LISTED = (
    "UHostId",
    "Name",
    "State",
    "GpuType",
    "GPU",
    "CPU",
    "Memory",
    "Region",
    "Zone",
    "ChargeType",
    "InstancePrice",
)
DISKS = ("ResourceId", "Name", "Configuration", "DiskType", "Status", "MountInstance", "Zone")
PRICED = ("ChargeType", "Instance", "SystemDisks", "Disks", "CompShareImage")
FLAGS = ("--all", "--yes", "--no-wait", "--no-cache", "--json", "--show-sensitive")
PAGE = 100


class Failed(Exception):
    """`code`, `message` and `details` as it prints them, and its exit status."""

    def __init__(self, code: str, message: str, rc: int, details: dict | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"details": details} if details else {})}
        self.rc = rc


def encoded(fields: dict) -> dict:
    """A request's fields as its SDK sends them."""
    found = {}
    for name, value in fields.items():
        if isinstance(value, list):
            for number, one in enumerate(value):
                inner = encoded(one) if isinstance(one, dict) else {"": str(one)}
                for key, text in inner.items():
                    found[f"{name}.{number}" + (f".{key}" if key else "")] = text
        else:
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def quoted(text: str) -> str:
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in text.encode())


def call(action: str, fields: dict, path: str = "/") -> dict:
    """One call, once: its SDK repeats none."""
    told = encoded({**{k: v for k, v in fields.items() if v is not None}, "Action": action})
    told["PublicKey"] = os.environ["COMPSHARE_PUBLIC_KEY"]
    text = "".join(name + told[name] for name in sorted(told)) + os.environ["COMPSHARE_PRIVATE_KEY"]
    told["Signature"] = hashlib.sha1(text.encode()).hexdigest()
    body = "&".join(f"{quoted(name)}={quoted(value)}" for name, value in told.items())
    host, _, port = API.rpartition("/")[2].partition(":")
    head = f"POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    got = b""
    try:
        with socket.create_connection((host, int(port)), timeout=30) as line:
            line.sendall(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            while piece := line.recv(1 << 16):
                got += piece
    except OSError as error:
        raise Failed("transport_error", str(error), 1) from error
    top, _, text = got.decode(errors="replace").partition("\r\n\r\n")
    status = top.split(" ")[1] if top.startswith("HTTP/1.") and text else "0"
    if status != "200":
        raise Failed("transport_error", f"[*] {status} http status error", 1)
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise Failed("transport_error", f"[*] {error}", 1) from error
    if answer.get("RetCode") != 0:
        details = {"action": action, "ret_code": answer.get("RetCode"), "request_uuid": None, "hint": None}
        raise Failed("api_error", answer.get("Message", ""), 1, details)
    return {key: value for key, value in answer.items() if key not in ("Action", "RetCode")}


def hosts(fields: dict) -> list:
    """All pages of the list of instances."""
    rows: list = []
    while True:
        page = call("DescribeCompShareInstance", {**fields, "Limit": PAGE, "Offset": len(rows)})
        rows += page["UHostSet"]
        if len(page["UHostSet"]) < PAGE or len(rows) >= page["TotalCount"]:
            return rows


def located(native: str) -> dict:
    found = call("DescribeCompShareInstance", {"UHostIds": [native], "Limit": 1, "Offset": 0})["UHostSet"]
    if not found:
        raise Failed("invalid_usage", f"Instance {native} was not found.", 2)
    return found[0]


def listed(options: dict) -> dict:
    ids = [options["--id"]] if "--id" in options else None
    return {"items": [{name: one.get(name) for name in LISTED} for one in hosts({"UHostIds": ids})]}


def shown(native: str) -> dict:
    return {"UHostSet": [located(native)]}


def where(options: dict) -> dict:
    if "--region" not in options or "--zone" not in options:
        raise Failed("invalid_usage", "Missing option '--region'.", 2)
    return {"Region": options["--region"], "Zone": options["--zone"]}


def disks(options: dict) -> list:
    return [{"IsBoot": True, "Type": "CLOUD_SSD", "Size": int(options.get("--disk", "100GiB")[:-3])}]


def capacity(options: dict, gpu: str) -> list:
    asked = {"GpuType": gpu, "MachineType": "G", "MinimalCpuPlatform": "Auto", "CompShareImageId": options["--image"]}
    asked |= {"ChargeType": options.get("--charge", "Postpay"), "Disks": disks(options)}
    return call("CheckCompShareResourceCapacity", {**where(options), **asked})["Specs"]


def search(options: dict) -> dict:
    legal = call("DescribeAvailableCompShareInstanceTypes", {**where(options), "InstanceType": "uhost"})
    names = sorted(one["Name"] for one in legal["AvailableInstanceTypes"])
    return {**legal, "Inventory": {name: capacity(options, name) for name in names}}


def asked_price(options: dict) -> dict:
    size = {"GpuType": options["--gpu"], "Gpu": options["--count"], "Cpu": options["--cpu"]}
    size |= {"Memory": int(options["--memory"][:-3]) * 1024, "ChargeType": options.get("--charge", "Postpay")}
    size |= {"Disks": disks(options), "CompShareImageId": options.get("--image"), "Quantity": 1}
    return call("GetCompShareInstancePrice", {**where(options), **size})


def priced(options: dict) -> dict:
    rows = asked_price(options)["PriceDetails"]
    return {"items": [{name: one.get(name) for name in PRICED} for one in rows]}


def create(options: dict) -> dict:
    """Capacity, price, and then the create: an error of the first two comes before anything was made."""
    gpu, count, cpu = options["--gpu"], int(options["--count"]), int(options["--cpu"])
    memory = int(options["--memory"][:-3])
    fits = [one for one in capacity(options, gpu) if one["ResourceEnough"] and one["Gpu"] == count]
    if not [one for one in fits if one["Cpu"] == cpu and one["Mem"] == memory]:
        raise Failed("command_error", "No inventory is available for the selected GPU.", 2)
    first = asked_price(options)["PriceDetails"][0]
    total = sum(first.get(name) or 0 for name in ("Instance", "Disks", "SystemDisks", "CompShareImage"))
    if "--max-price" in options and total > float(options["--max-price"]):
        most = options["--max-price"]
        raise Failed("invalid_usage", f"Quoted price {total} CNY exceeds --max-price {most} CNY.", 2)
    asked = {"GpuType": gpu, "GPU": count, "CPU": cpu, "Memory": memory * 1024, "MachineType": "G"}
    asked |= {"MinimalCpuPlatform": "Auto", "CompShareImageId": options["--image"], "Disks": disks(options)}
    asked |= {"ChargeType": options["--charge"], "Quantity": 1, "Name": options["--name"], "MaxCount": 1}
    made = call("CreateCompShareInstance", {**where(options), **asked})
    return {"selection": {"GpuType": gpu, "GPU": count}, "capacity": fits[0], "price": {}, "instance": made}


def changed(action: str, native: str, options: dict) -> dict:
    """Stop or delete one: an error is one of a batch."""
    found = hosts({"UHostIds": [native]})
    failed, succeeded = [], []
    if not found:
        failed.append({"instance": native, "error": {"message": f"Instance {native} was not found."}})
    else:
        asked = {"Region": found[0]["Region"], "Zone": found[0]["Zone"], "UHostId": native}
        if action == "TerminateCompShareInstance":
            asked["ReleaseUDisk"] = "--release-disk" in options
        where_is = {"instance": native, "region": asked["Region"], "zone": asked["Zone"]}
        try:
            succeeded.append({**where_is, "operation": call(action, asked)})
        except Failed as error:
            told = {"message": error.error["message"], "action": action}
            if error.error["code"] == "api_error":
                told.update({key: value for key, value in error.error["details"].items() if key != "action"})
            failed.append({**where_is, "error": told})
    if failed:
        details = {"action": action, "succeeded": succeeded, "failed": failed}
        raise Failed("partial_failure", "Some instance operations failed.", 1, details)
    return {"succeeded": succeeded, "failed": failed}


def login(native: str, command: list) -> dict:
    """The real one runs ssh with the instance's password; here the stand-in of the API takes the command."""
    if located(native).get("State") != "Running":
        raise Failed("invalid_usage", f"Instance {native} has no SSH login command.", 2)
    call("Login", {"UHostId": native, "Command": command[-1]}, path="/-/login")
    return {"instance": native, "phase": "completed", "exit_code": 0, "stdout": "", "stderr": ""}


def hidden(value: object) -> object:
    """Without what it calls sensitive."""
    if isinstance(value, dict):
        return {key: "***" if key in SENSITIVE else hidden(one) for key, one in value.items()}
    return [hidden(one) for one in value] if isinstance(value, list) else value


def done(words: list) -> dict:
    plain, options, rest = [], {}, []
    while words:
        word = words.pop(0)
        if word == "--":
            rest, words = words, []
        elif word in FLAGS:
            options[word] = ""
        elif word.startswith("--"):
            options[word] = words.pop(0)
        else:
            plain.append(word)
    if not (os.environ.get("COMPSHARE_PUBLIC_KEY") and os.environ.get("COMPSHARE_PRIVATE_KEY")):
        raise Failed("configuration_error", "no API key is configured", 1)
    area, verb, *named = plain
    if [area, verb, *named] == ["storage", "disk", "list"]:
        rows = call("DescribeCompshareDisk", {})["DiskSet"]
        return {"items": [{name: one.get(name) for name in DISKS} for one in rows]}
    if verb in ("stop", "delete") and "--yes" not in options:
        raise Failed("invalid_usage", "JSON mode cannot prompt for confirmation.", 2)
    calls = {
        "list": lambda: listed(options),
        "show": lambda: shown(named[0]),
        "search": lambda: search(options),
        "price": lambda: priced(options),
        "create": lambda: create(options),
        "stop": lambda: changed("StopCompShareInstance", named[0], options),
        "delete": lambda: changed("TerminateCompShareInstance", named[0], options),
        "ssh": lambda: login(named[0], rest),
    }
    found = calls[verb]()
    return found if "--show-sensitive" in options else hidden(found)


def main() -> int:
    try:
        document, rc = {"ok": True, "schema_version": "1", "data": done(sys.argv[2:])}, 0
    except Failed as failed:
        document, rc = {"ok": False, "schema_version": "1", "error": failed.error}, failed.rc
    sys.stdout.write(json.dumps(document) + "\n")
    return rc


if __name__ == "__main__":
    API = sys.argv[1]
    sys.exit(main())
