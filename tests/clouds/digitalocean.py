"""DigitalOcean as a stand-in. Held to `descriptions/digitalocean.json`: GPU droplets are hidden from the plain list, a
create is accepted and not ready, 422 is bad input and no capacity alike, one that is off bills in full.
"""

from __future__ import annotations

from typing import Any

from sojourn.wire import units
from tests.clouds.standin import Answer, Cloud, Machine

SIZES = {
    "gpu-4000adax1-20gb": ("nvidia_rtx4000_ada", 20, 1, 0.76, 8, 32_768, 500),
    "gpu-a100x1-80gb": ("nvidia_a100", 80, 1, 1.99, 12, 122_880, 720),
    "gpu-h100x8-640gb": ("nvidia_h100", 80, 8, 23.92, 160, 1_966_080, 2_048),
}
BESIDE = {"volumes": "id", "snapshots": "id", "reserved_ips": "ip"}  # lists beside the droplets, and what names a row
VOLUME_COST = "10.00"  # of a month
REGION = {"name": "Toronto 1", "slug": "tor1", "sizes": list(SIZES), "features": [], "available": True}


class DigitalOcean(Cloud):
    """The account."""

    description = "digitalocean"

    def kind_of(self, method: str, path: str) -> str:
        if (method, path) == ("POST", "/v2/droplets"):
            return "create"
        if path.split("/")[2] in BESIDE:
            return "beside"
        return "destroy" if method == "DELETE" else "list" if path == "/v2/droplets" else "read"

    def key_refused(self) -> Answer:
        return Answer(401, {"id": "unauthorized", "message": "Unable to authenticate you."})

    def limited(self) -> Answer:
        return Answer(429, {"id": "too_many_requests", "message": "API Rate limit exceeded."})

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        parts = path.strip("/").split("/")[1:]
        if parts == ["sizes"]:
            return Answer(200, {"sizes": [self.size(name) for name in SIZES], "meta": {"total": len(SIZES)}})
        if parts == ["account"]:
            return Answer(200, {"account": account()})
        if parts == ["customers", "my", "balance"]:
            used = {"month_to_date_balance": "0.00", "month_to_date_usage": "0.00", "account_balance": "0.00"}
            return Answer(200, {**used, "generated_at": units.stamp(self.now_s())})
        if parts == ["droplets"] and method == "POST":
            return self.create(body)
        if parts == ["droplets"]:
            shown = [self.seen(one, "active") for one in self.machines.values()] if "type" in query else []
            rows = [self.droplet(one) for one in shown if one.ended_s is None and self.is_listed(one)]
            return Answer(200, {"droplets": rows, "links": {}, "meta": {"total": len(rows)}})
        if parts[0] in BESIDE and len(parts) == 1:
            rows = self.beside.get(parts[0], [])
            return Answer(200, {parts[0]: rows, "links": {}, "meta": {"total": len(rows)}})
        if parts[0] in BESIDE and self.deleted(parts[0], BESIDE[parts[0]], parts[1]):
            return Answer(204)
        one = self.machines.get(parts[1]) if parts[0] == "droplets" else None
        if one is None or one.ended_s is not None:
            return Answer(404, {"id": "not_found", "message": "The resource you requested could not be found."})
        if parts[2:] == ["destroy_with_associated_resources"]:
            found: dict[str, Any] = {kind: [] for kind in ("reserved_ips", "snapshots", "volumes", "volume_snapshots")}
            attached = [row for row in self.beside.get("volumes", []) if int(one.native) in row["droplet_ids"]]
            found["volumes"] = [{"id": row["id"], "name": row["name"], "cost": VOLUME_COST} for row in attached]
            return Answer(200, found)
        if method == "DELETE":
            self.destroy(one)
            return Answer(204)
        if self.seen(one, "active").ended_s is not None:
            return Answer(404, {"id": "not_found", "message": "The resource you requested could not be found."})
        return Answer(200, {"droplet": self.droplet(one)})

    def end(self, one: Machine) -> None:
        """What was attached to it stays, and belongs to nobody."""
        super().end(one)
        for row in self.beside.get("volumes", []):
            row["droplet_ids"] = [native for native in row["droplet_ids"] if native != int(one.native)]

    def create(self, asked: dict[str, Any]) -> Answer:
        words = {"id": "unprocessable_entity"}
        if self.balance_micro <= 0:
            return Answer(402, {"id": "payment_required", "message": "The account is on hold."})
        if asked["size"] not in SIZES or self.is_sold_out:
            return Answer(422, {**words, "message": "creating this/these droplet(s) will exceed your droplet limit"})
        one = self.rent(
            asked["size"], asked["name"], round(SIZES[asked["size"]][3] * 1e6), asked, str(3_000_000 + self.rented_ever)
        )
        one.keys = [line.split("'")[1] for line in asked.get("user_data", "").splitlines() if "'" in line]
        return Answer(202, {"droplet": self.droplet(one), "links": {"actions": []}})

    def size(self, name: str) -> dict[str, Any]:
        """A size as the API shows it."""
        model, vram, gpus, price, vcpus, memory, disk = SIZES[name]
        return {
            "slug": name, "memory": memory, "vcpus": vcpus, "disk": disk, "transfer": 10.0,
            "price_monthly": price * 730, "price_hourly": price,
            "regions": ["tor1"] if self.has_stock else [], "available": self.has_stock,
            "description": "GPU", "gpu_info": {"count": gpus, "model": model, "vram": {"amount": vram, "unit": "gib"}},
        }  # fmt: skip

    def droplet(self, one: Machine) -> dict[str, Any]:
        """A droplet as the API shows it."""
        size = self.size(one.kind)
        v4 = {"ip_address": one.host, "netmask": "255.255.255.0", "gateway": "10.0.0.1", "type": "public"}
        return {
            "id": int(one.native), "name": one.name, "memory": size["memory"], "vcpus": size["vcpus"],
            "disk": size["disk"], "locked": False, "status": "new" if one.status == "booting" else one.status,
            "created_at": units.stamp(one.made_s), "features": [], "backup_ids": [], "next_backup_window": None,
            "snapshot_ids": [], "image": {"id": 1, "name": str(one.asked["image"])}, "volume_ids": [], "size": size,
            "size_slug": one.kind, "region": REGION, "tags": one.asked.get("tags") or [],
            "networks": {"v4": [v4] if one.status == "active" else [], "v6": []}, "gpu_info": size["gpu_info"],
        }  # fmt: skip


def account() -> dict[str, Any]:
    """The account as the API shows it."""
    return {
        "droplet_limit": 25, "floating_ip_limit": 5, "email": "a@b.c", "uuid": "0", "email_verified": True,
        "status": "active", "status_message": "",
    }  # fmt: skip
