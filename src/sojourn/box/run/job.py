"""run.json, as far as the keeper relies on it: checked before use, wherever it came from. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

_TEXTS = ("progress", "protect", "setup", "setup_digest", "init", "code", "train", "keeper")
_SECONDS = ("beat_s", "grace_s", "stall_after_s", "max_duration_s", "budget_s")
_LISTS = ("outputs", "scratch", "secrets", "persist", "resume_argv")


def trouble(spec: Mapping[str, Any]) -> str:
    """What is wrong with a job, in one line; "" if nothing. All but argv may be absent or null."""
    argv = spec.get("argv")
    if not isinstance(argv, list) or not argv or not all(_is_word(word) for word in argv):
        return "argv is not a list of strings"
    for name in _TEXTS:
        if spec.get(name) is not None and not _is_word(spec[name]):
            return "%s is not text" % name
    for name in _SECONDS:
        value = spec.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
            return "%s is not a number of seconds" % name
    for name in _LISTS:
        if not isinstance(spec.get(name) or [], list) or not all(_is_word(word) for word in spec.get(name) or []):
            return "%s is not a list of strings" % name
    if spec.get("persist"):
        from sojourn.wire import manifest  # its hashes cost a shim 1 MiB

        if not all(manifest.is_safe(path) for path in spec["persist"]):
            return "persist leaves the working copy"
    envs, mounts, retry = (spec.get(name) or {} for name in ("envs", "mounts", "retry"))
    if not isinstance(envs, dict) or any("=" in name or "\0" in "%s%s" % (name, envs[name]) for name in envs):
        return "envs are not valid environment variables"
    if not isinstance(mounts, dict) or not all(_is_word(what) for what in mounts.values()):
        return "mounts are not digests by target"
    if spec.get("platform_env") is not None:
        wrong = _custom_trouble(spec["platform_env"])
        if wrong:
            return wrong
    if not isinstance(retry, dict) or not isinstance(retry.get("attempts") or 1, int):
        return "retry is not {attempts, on}"
    return ""


def _custom_trouble(wanted: Any) -> str:
    """What is wrong with what a platform wants of a run: {"set", "needs", "hook", "no_proxy"}."""
    if not isinstance(wanted, dict):
        return "platform_env is not a table"
    for key in ("set", "needs"):
        rows = wanted.get(key) or {}
        if not isinstance(rows, dict) or not all(_is_word(text) for pair in rows.items() for text in pair):
            return "platform_env: %s is not text by name" % key
    if any("=" in name for name in wanted.get("set") or ()):
        return "platform_env: set has an invalid name"
    if not all(_is_word(wanted.get(key) or "") for key in ("hook", "no_proxy")):
        return "platform_env: hook and no_proxy are text"
    return ""


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value
