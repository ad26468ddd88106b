"""run.json, as far as the keeper relies on it: checked before anything is made of it, wherever it came from. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

_TEXTS = ("progress", "protect", "setup", "setup_digest", "init", "code", "train", "keeper")
_SECONDS = ("beat_s", "grace_s", "stall_after_s", "max_duration_s", "budget_s")
_LISTS = ("outputs", "scratch", "secrets", "persist", "resume_argv")


def trouble(spec: Mapping[str, Any]) -> str:
    """What is wrong with a job, in one line; "" where nothing is. All but argv may be absent or null."""
    argv = spec.get("argv")
    if not isinstance(argv, list) or not argv or not all(_is_word(word) for word in argv):
        return "argv is not a list of strings"
    for name in _TEXTS:
        if spec.get(name) is not None and not _is_word(spec[name]):
            return "%s is no text" % name
    for name in _SECONDS:
        value = spec.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
            return "%s is no number of seconds" % name
    for name in _LISTS:
        if not isinstance(spec.get(name) or [], list) or not all(_is_word(word) for word in spec.get(name) or []):
            return "%s is not a list of strings" % name
    if spec.get("persist"):
        from sojourn.wire import manifest  # its hashes are 1 MiB to a shim

        if not all(manifest.is_safe(path) for path in spec["persist"]):
            return "persist leaves the working copy"
    envs, mounts, retry = (spec.get(name) or {} for name in ("envs", "mounts", "retry"))
    if not isinstance(envs, dict) or any("=" in name or "\0" in "%s%s" % (name, envs[name]) for name in envs):
        return "envs are no environment variables"
    if not isinstance(mounts, dict) or not all(_is_word(what) for what in mounts.values()):
        return "mounts are no digests by target"
    if not isinstance(retry, dict) or not isinstance(retry.get("attempts") or 1, int):
        return "retry is no {attempts, on}"
    return ""


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value
