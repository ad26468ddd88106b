"""What of a box's disks outlives the verb that stops its meter, by the platform's facts and the site's settings."""

from __future__ import annotations

from typing import Any

from sojourn.store.catalog import platform
from sojourn.verbs.context import Box


def survival(box: Box, path: str) -> dict[str, Any]:
    """{"path","verb","survives","why"}: whether a `path` of the box is there after it. `survives` None: not known."""
    site = box.site
    facts = platform(site.platform)
    rents = box.provider.rents
    verb = str(site.options.get("stop") or (box.provider.stop_verb if rents else facts.stop_verb))
    is_final = bool(site.options.get("stop_is_final", box.provider.is_final if rents else facts.stop_is_final))
    tiers = () if "stop" in site.options or "stop_is_final" in site.options else facts.tiers_of(path)
    where = " or ".join(tier.name for tier in tiers)
    if not tiers:
        stays: bool | None = not is_final
        why = "the disk is destroyed with the box" if is_final else "no file is removed"
    elif (stays := facts.keeps(path)) is None:
        notes = "".join(f"; {tier.note}" for tier in tiers if tier.note)
        why = f"that lies on {where}, and not all of that stays for certain{notes}"
    else:
        why = f"that lies on {where}, which {'stays' if stays else 'goes with it'}"
    return {"path": path, "verb": verb, "survives": stays, "why": why}
