"""As whom our pods run, for namespaces that enforce the level `restricted`, and where such pods may write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.backends.kube.names import BadPodSetting, options
from sojourn.core.values import Site

HINT = "set `user = 1000` in [sites.{site}.kube]: all pods of the site then run as that user, without rights"


def user_of(site: Site) -> int | None:
    """The user of the site's settings; None leaves it to the images. Raises: BadPodSetting."""
    user = options(site).get("user")
    if user is None:
        return None
    if isinstance(user, bool) or not isinstance(user, int) or not 0 < user < 1 << 31:
        raise BadPodSetting(site=site.name, name="user", why=f"{user!r} is not the number of a user other than root")
    return user


def secured(spec: Mapping[str, Any], site: Site) -> dict[str, Any]:
    """`spec` of a pod with what the level `restricted` asks for, where the site names a user. Raises: BadPodSetting.

    Source: kubernetes.io/docs/concepts/security/pod-security-standards (2026-11); recording 40. A large claim is handed
    to the group once, not at each start (`OnRootMismatch`).
    """
    user = user_of(site)
    if user is None:
        return dict(spec)
    whole = {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
             "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
    each = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    out = {**spec, "securityContext": whole}
    for group in ("initContainers", "containers"):
        if group in spec:
            out[group] = [{**one, "securityContext": each} for one in spec[group]]
    return out


def with_tmp(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`spec` with a /tmp that can be written for each container whose root file system cannot."""
    out, used = dict(spec), False
    out["containers"] = []
    for one in spec["containers"]:
        mounts = list(one.get("volumeMounts") or ())
        is_fixed = (one.get("securityContext") or {}).get("readOnlyRootFilesystem") is True
        if is_fixed and not any(mount.get("mountPath", "").rstrip("/") == "/tmp" for mount in mounts):
            mounts.append({"name": "sojourn-tmp", "mountPath": "/tmp"})
            used = True
        out["containers"].append({**one, "volumeMounts": mounts} if mounts else dict(one))
    if used:
        out["volumes"] = [*(spec.get("volumes") or ()), {"name": "sojourn-tmp", "emptyDir": {}}]
    return out
