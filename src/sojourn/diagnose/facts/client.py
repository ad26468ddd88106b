"""What the client has on record of a run: its platform, its lease, what a pull proved, its sweep. JSON texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.core.owed import DAMAGED
from sojourn.diagnose.facts import disks
from sojourn.diagnose.facts.table import Probe, Reader

_DAY_S = 86400.0
# Types of file systems that several machines can mount. Source: proc(5), filesystems(5) (2026-11).
_NETWORK = re.compile(r"^(?:nfs4?|cifs|smb3?|ceph|lustre|gpfs|beegfs|9p|afs|glusterfs|fuse\.(?!overlay).+|mfs)$")
_KINDS = (  # words in a platform's name for a kind of storage; the first that fits
    (r"(?i)\bdrive\b", "drive"),
    (r"\bPVC\b", "pvc"),
    (r"(?i)\bshared\b|\bNAS\b|file storage", "shared"),
    (r"(?i)\bnet(?:work)?\b|\bNFS\b|\bcloud sync\b|\bUS3\b", "network"),
    (r"(?i)\bscratch\b|\bNVMe\b|node-local|emptyDir", "local_scratch"),
    (r"(?i)\bvolume\b|\bdata disk\b|\bcloud disk\b", "volume"),
    (r"(?i)\bcontainer\b", "container"),
)


def _platform(probe: Probe) -> Mapping[str, Any]:
    """`{"platform", "is_final", "path", "tiers": [{"name", "place", "stop", "destroy"}]}`.

    `place`: a folder on the way to `path` where that storage is mounted; `is_final`: the stop verb destroys the box.
    """
    told = _told(probe)
    if not told:
        return {}
    found: dict[str, Any] = {"prov.kind": str(told["platform"])}
    mount = disks.mount_of(probe.others.get("mountinfo", ""), str(told["path"]))
    if mount is None:
        return found
    tiers = _there(told["tiers"], mount)
    kinds = {kind for tier in tiers if (kind := _kind(str(tier["name"]), mount))} or {_kind("", mount)} - {""}
    if len(kinds) == 1:
        found["disk.mount_kind"] = kinds.pop()
    words = {str(tier["destroy" if told["is_final"] else "stop"]) for tier in tiers}
    found["disk.survives"] = words.pop() if len(words) == 1 and words <= {"yes", "no"} else "unknown"
    return found


def _there(tiers: Sequence[Mapping[str, Any]], mount: disks.Mount) -> list[Mapping[str, Any]]:
    """The kinds of storage that the mount can be: those at its point, else what the platform says of a folder below."""
    at = [tier for tier in tiers if tier["place"] == mount.point]
    below = [tier for tier in tiers if len(str(tier["place"])) > len(mount.point)]
    longest = max((len(str(tier["place"])) for tier in below), default=0)
    found = at or [tier for tier in below if len(str(tier["place"])) == longest]
    is_far = _NETWORK.match(mount.fstype) is not None
    fitting = [tier for tier in found if (_of_name(str(tier["name"])) in ("network", "shared", "drive")) == is_far]
    return fitting or found


def _kind(name: str, mount: disks.Mount) -> str:
    kind = _of_name(name)
    if _NETWORK.match(mount.fstype):
        return kind if kind in ("shared", "drive", "pvc") else "network"
    return "container" if mount.point == "/" and mount.fstype == "overlay" else kind


def _of_name(name: str) -> str:
    return next((kind for words, kind in _KINDS if re.search(words, name)), "")


def _lease(probe: Probe) -> Mapping[str, Any]:
    """`{"state", "is_spot", "was_kept", "stopped_s", "egress"}` of a rented machine, as this client recorded it."""
    told = _told(probe)
    if not told:
        return {}
    state, was_kept = told["state"], told["was_kept"] is True
    found: dict[str, Any] = {}
    if isinstance(told.get("is_spot"), bool):
        found["prov.spot"] = told["is_spot"]
    if isinstance(told.get("egress"), (int, float)):
        found["prov.price_net"] = told["egress"]
    if state in ("open", "released"):
        found["prov.stop_only"] = was_kept
        found["prov.intended"] = "running" if state == "open" else "stopped" if was_kept else "gone"
    if was_kept and isinstance(told.get("stopped_s"), (int, float)):
        found["prov.stopped_days"] = round(told["stopped_s"] / _DAY_S, 2)
    if state == "settled":  # its provider said twice that it is gone; who ended it is not on record
        found["prov.exists"] = "no"
    elif state == "released" and not was_kept:  # recorded only once its provider no longer has it
        found.update({"prov.exists": "no", "prov.delete_acked": True})
    return found


def _pull(probe: Probe) -> Mapping[str, Any]:
    """`{"files", "problems": {path: word}, "gone": [path], "proved": [[...]], "is_done"}` of the newest pull of all
    that the box has.

    A good copy is said only where everything is home and loads: one that lacks something proves nothing of the rest.
    """
    told = _told(probe)
    if not told:
        return {}
    problems, gone, proved = told["problems"], told["gone"], told["proved"]
    words = set(problems.values())
    found: dict[str, Any] = {"art.files": told["files"]}
    if gone:
        found["xfer.verify"] = "missing"
    elif "mismatch" in words:
        found["xfer.verify"] = "sha256_bad"
    elif proved and not words and all("bytes" in one for one in proved):
        found["xfer.verify"] = "sha256_ok"
    if words & (DAMAGED - {"non-finite"}):
        found["xfer.load"] = "error"
    elif proved and not words:
        found["xfer.load"] = "ok" if any("load" in one for one in proved) else "skipped"
    if "non-finite" in words:  # finite weights say nothing of the losses: they may be of an earlier step
        found["xfer.finite"] = "nonfinite"
    if told["is_done"] is True and (gone or (proved and not words)):
        found["art.roster_missing"] = list(gone) or None
    return found


def _sweep(probe: Probe) -> Mapping[str, Any]:
    """`{"cells", "started", "is_twice"}`: cells of the run's sweep, and those of which a box reported a start;
    `is_twice`, of a run that was moved: whether the box that it was taken from began it too."""
    told = _told(probe)
    if not told:
        return {}
    found: dict[str, Any] = {"q.cells_total": int(told["cells"]), "q.cells_started": int(told["started"])}
    if isinstance(told.get("is_twice"), bool):
        found["q.owner_conflict"] = told["is_twice"]
    return found


def _told(probe: Probe) -> Mapping[str, Any]:
    try:
        told = json.loads(probe.text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


READS = (
    Reader(r"^platform$", _platform),
    Reader(r"^lease$", _lease),
    Reader(r"^pull$", _pull),
    Reader(r"^sweep$", _sweep),
)
