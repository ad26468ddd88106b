"""Which machine this is: distinguishes machines in manifests and acceptances without disclosing anybody's id."""

from __future__ import annotations

import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Mapping

_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_BOOT = "/proc/sys/kernel/random/boot_id"


def this_machine() -> Dict[str, str]:
    """{"name": its host name, "machine": a digest of the id its system was installed with, "boot": one of the running
    kernel's id, which containers of one machine share}; "" where it gives none.
    """
    identity = next((text for text in map(_read, _IDS) if text), "")
    # The ids themselves are confidential. Source: machine-id(5), systemd 257; proc_sys_kernel(5), checked 2026-11.
    return {"name": os.uname().nodename or "unnamed", "machine": _digest(identity), "boot": _digest(_read(_BOOT))}


def is_one(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    """Whether both are the same machine by their own report: one running kernel, or one system installed under one
    name.
    """
    if a.get("boot") and a.get("boot") == b.get("boot"):
        return True
    return bool(a.get("machine")) and a.get("machine") == b.get("machine") and a.get("name") == b.get("name")


def _read(path: str) -> str:
    try:
        with open(path, "rb") as f:
            return f.read(256).strip().decode("ascii", "replace")
    except OSError:
        return ""


def _digest(identity: str) -> str:
    return hashlib.sha256("sojourn {}".format(identity).encode()).hexdigest()[:16] if identity else ""
