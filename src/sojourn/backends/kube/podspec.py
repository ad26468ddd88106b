"""A user's own fields of a pod laid over ours: `pod` and `container` of settings and job files, passed through."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from sojourn.backends.kube.names import BadPodSetting

# What the launcher itself relies on.
_OURS = frozenset("containers restartPolicy".split())
_OURS_IN_CONTAINER = frozenset("name command args".split())


def overlaid(spec: Mapping[str, Any], own: Any, site: str, name: str) -> dict[str, Any]:
    """`spec` of a pod with `own` laid over it; its key `container` is for our container. Mappings are merged, lists
    added to, all else is replaced. Raises: BadPodSetting.
    """
    if not isinstance(own, Mapping):
        raise BadPodSetting(site=site, name=name, why="write fields of a pod: a mapping")
    if ours := sorted(_OURS & own.keys()):
        why = f"sojourn sets {ours[0]} itself; fields of its container go under `container`"
        raise BadPodSetting(site=site, name=f"{name}.{ours[0]}", why=why)
    container = own.get("container") or {}
    if not isinstance(container, Mapping):
        raise BadPodSetting(site=site, name=f"{name}.container", why="write fields of a container: a mapping")
    if ours := sorted(_OURS_IN_CONTAINER & container.keys()):
        raise BadPodSetting(site=site, name=f"{name}.container.{ours[0]}", why="sojourn sets it itself")
    out: dict[str, Any] = _over(spec, {key: value for key, value in own.items() if key != "container"})
    out["containers"] = [_over(out["containers"][0], container), *out["containers"][1:]]
    return out


def _over(ours: Any, own: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(own, Mapping):
        return {
            **copy.deepcopy(dict(ours)),
            **{key: _over(ours[key], value) if key in ours else copy.deepcopy(value) for key, value in own.items()},
        }
    if isinstance(ours, list) and isinstance(own, list):
        return [*copy.deepcopy(ours), *copy.deepcopy(own)]
    return copy.deepcopy(own)
