"""How what we make in a cluster is called, labelled and found again."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from sojourn.core.values import Site
from sojourn.wire.errors import Misuse

MOUNT = "/mnt/sojourn"  # where the claim is seen in every pod of ours
CLAIM = "sojourn"  # the claim that holds all runs of a site, unless its settings name another
MANAGED = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
OURS = f"{MANAGED}=sojourn"
CONTAINER = "train"
READER = "reader"


class OffClaim(Misuse):
    """{site}: base {base} is not below {mount}, where the claim is mounted; anything else ends with the pod."""

    code = "off-claim"
    next_step = "leave `base` of {site} out, or set it to a folder below {mount}"


class BadPodSetting(Misuse):
    """{site}: {name} cannot be set here: {why}."""

    code = "bad-pod-setting"


def options(site: Site) -> Mapping[str, Any]:
    """What the settings say of the site's pods: the table of its transport, that of its launcher over it."""
    return {**(site.options.get("kube") or {}), **(site.options.get("k8s_job") or {})}


def claim_of(site: Site) -> str:
    """The claim that holds the site's runs. Raises: BadPodSetting."""
    name = options(site).get("claim", CLAIM)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name):
        raise BadPodSetting(site=site.name, name="claim", why=f"{name!r} is not the name of a claim")
    return name


def claim_label(site: Site) -> str:
    """The same as the value of a label, which may be shorter than a name. Raises: BadPodSetting."""
    name = claim_of(site)
    return name if len(name) <= 63 else f"{name[:54]}-{digest(name)}"


def check_base(site: Site, root: str) -> None:
    """Raises: OffClaim where this folder does not outlive the pod."""
    if not posixpath.normpath(root).startswith(f"{MOUNT}/"):
        raise OffClaim(site=site.name, base=site.base or root, mount=MOUNT)


def digest(*words: str) -> str:
    """Eight letters that stand for these words."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def label(text: str) -> str:
    """The text as the value of a label."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.") or "x"


def as_dns(text: str, most: int = 40) -> str:
    """The text as part of the name of an object."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:most].strip("-") or "run"
