"""The user's settings file and the names of sites: `local`, `[sites.NAME]`, and the platforms' WORD or WORD:ADDRESS.

Only names and settings are read; whether a site's backends exist is checked when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sojourn.core import money
from sojourn.core.values import Site
from sojourn.store import places, platforms
from sojourn.store.catalog import platform
from sojourn.store.index import resolve
from sojourn.wire import names, units
from sojourn.wire.errors import Misuse


class BadSettings(Misuse):
    """{path}:{line}: {detail}"""

    code = "bad-settings"


class UnknownSite(Misuse):
    """No site is called {wanted!r}{hint}. Sites: local, those in {path}, ssh:ALIAS, slurm, slurm:ALIAS,
    k8s:CONTEXT[/NAMESPACE]."""

    code = "unknown-site"


@dataclass(frozen=True)
class Settings:
    """The contents of the settings file. `sites`: NAME -> site; `notify`: channels, as in a job file."""

    path: str
    sites: Mapping[str, Site] = field(default_factory=dict)
    notify: tuple[str, ...] = ()


def read_site(text: str, path: str = "") -> Site:
    """The site named by `text`; a settings file name also by its unique beginning.

    `path`: settings file, by default the user's own.   Raises: UnknownSite, Ambiguous, BadSettings, Misuse.
    """
    settings = read_settings(path)
    known = {"local": _local(), **settings.sites}
    if text in known:
        return known[text]
    word, colon, address = text.partition(":")
    if stands_for := platforms.sites().get(word):
        transport = stands_for["transport"] if address else "" if colon else stands_for.get("alone", "")
        base = places.data_dir() if transport == "local" else stands_for.get("base", "")
        if transport:
            return Site(text, transport, stands_for["launcher"], "unmetered", stands_for["platform"], address, base)
    if any(name.startswith(text) for name in known) and text:
        return known[resolve(text, known, "site")]
    near = names.nearest(text, known)
    raise UnknownSite(wanted=text, hint=f"; the nearest is {near!r}" if near else "", path=settings.path)


def read_settings(path: str = "") -> Settings:
    """The settings; without a file, empty. Raises: BadSettings; Misuse if the file cannot be read."""
    path = path or places.settings_path()
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return Settings(path)
    except OSError as error:
        raise Misuse(detail=f"{path} cannot be read: {error.strerror}") from error
    import tomllib

    try:
        text = raw.decode("utf-8-sig")
        data = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise BadSettings(path=path, line=line, detail="this is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(where.group(1)) if where else text.count("\n") + 1
        raise BadSettings(path=path, line=line, detail=str(error).split(" (at ")[0]) from error
    return _Reader(path, text).settings(data)


def _local() -> Site:
    return Site(name="local", base=places.data_dir())


def _platform_of(launcher: str) -> str:
    """The launcher's platform, if the settings name none; "" if it may be any."""
    if launcher in ("", "setsid"):
        return ""
    return next((row["platform"] for row in platforms.sites().values() if row["launcher"] == launcher), "")


def _base_of(launcher: str) -> str:
    """Where the runs lie on a place that has one for them, whoever's it is; "" where its user has a home there."""
    return next((row.get("base", "") for row in platforms.sites().values() if row["launcher"] == launcher), "")


def _bills(site: Site, is_free: bool) -> bool:
    """Its user gave it a rate, or its platform rents out: then it is stopped by hand unless a provider is named.

    A scheduler's site is not: its jobs stop costing when they end.
    """
    if is_free or _platform_of(site.launcher):
        return False
    if site.rate_micro_per_h:
        return True
    try:
        return platform(site.platform).bills is True
    except platforms.UnknownPlatform:  # reported when the site is used
        return False


class _Reader:
    """Checks the parsed settings; `path` and `text` serve to name the line."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._lines = path, text.splitlines()

    def settings(self, data: Mapping[str, Any]) -> Settings:
        self._known(data, ["sites", "notify"], "", "key")
        notify = data.get("notify", [])
        if not isinstance(notify, list) or not all(isinstance(one, str) for one in notify):
            raise self._bad("", "notify", 'write notify = ["URL or env:NAME", ...]')
        tables = data.get("sites", {})
        if not isinstance(tables, dict):
            raise self._bad("", "sites", "write [sites.NAME]")
        sites = {name: self._site(name, table) for name, table in tables.items()}
        return Settings(self._path, sites, tuple(notify))

    def _site(self, name: str, table: Any) -> Site:
        if not isinstance(table, dict):
            raise self._bad("sites", name, f"write [sites.{name}] and its settings below")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
            raise self._bad(
                f"sites.{name}",
                "",
                f"{name!r} is not a valid site name: use letters, digits, '.', '_', '-', at most 63",
            )
        section = f"sites.{name}"
        launcher = str(table.get("launcher", ""))
        # [sites.NAME.LAUNCHER], and likewise for its transport and provider: read by that backend alone.
        backends = dict.fromkeys(str(table.get(port, "")) for port in ("transport", "launcher", "provider"))
        own = [backend for backend in backends if isinstance(table.get(backend), dict)]
        self._known(table, [*_TEXTS, *_OPTIONS, "rate", "clocks", *own], section, "setting")
        site = _local() if name == "local" else Site(name, platform="generic-ssh")
        if name != "local" and table.get("transport", "local") == "local":
            site = replace(site, platform="local", base=places.data_dir())
        if "platform" not in table:
            rents = table.get("provider") if table.get("provider") in platforms.platforms() else ""
            site = replace(site, platform=_platform_of(launcher) or str(rents) or site.platform)
        site = replace(site, base=_base_of(launcher) or site.base)
        texts = {key: self._typed(section, table, key, str, "text in quotes") for key in _TEXTS if key in table}
        site = replace(site, **texts)
        if "rate" in table:
            rate, currency = self._read(section, table, "rate", money.read_rate)
            site = replace(site, rate_micro_per_h=rate, currency=currency)
        options = {key: self._option(section, table, key) for key in _OPTIONS if key in table}
        says_free = "rate" in table or table.get("provider") == "unmetered"
        options |= {"is_free": True} if says_free and not site.rate_micro_per_h else {}
        if "provider" not in table and _bills(site, bool(options.get("is_free"))):
            site = replace(site, provider="by_hand")
        options |= {"clocks": self._clocks(section, table)} if "clocks" in table else {}
        if site.provider in own and "max_price" in table[site.provider]:  # the one such setting read here
            self._read(f"{section}.{site.provider}", table[site.provider], "max_price", money.read_rate)
        return replace(site, options=options | {key: dict(table[key]) for key in own})

    def _option(self, section: str, table: Mapping[str, Any], key: str) -> Any:
        if key in ("stop_is_final", "platform_env"):
            return self._typed(section, table, key, bool, "true or false")
        if key == "ask_every":
            return self._typed(section, table, key, int, "seconds, 0 to ask a scheduler each time")
        if key == "persist_s":
            return self._typed(section, table, key, int, "seconds, 60 to 600")
        if key == "answer_s":
            return self._typed(section, table, key, int, "seconds, 5 to 300")
        if key == "began":
            return self._read(section, table, key, _began)
        if key == "speed":
            return self._read(section, table, key, _speed)
        if key == "reboot_hook" and table[key] not in _HOOKS:
            raise self._bad(section, key, f"reboot_hook: write one of {', '.join(_HOOKS)}, not {table[key]!r}")
        return self._typed(section, table, key, str, "text in quotes")

    def _clocks(self, section: str, table: Mapping[str, Any]) -> list[dict[str, str]]:
        clocks = self._typed(section, table, "clocks", list, f"[[{section}.clocks]] with what, at and loses")
        for clock in clocks:
            if not isinstance(clock, dict) or not all(isinstance(value, str) for value in clock.values()):
                raise self._bad(
                    section, "clocks", f"write [[{section}.clocks]] with what, at and loses, text in quotes"
                )
            self._known(clock, ["what", "at", "loses"], f"{section}.clocks", "setting")
            if "what" not in clock:
                raise self._bad(section, "clocks", "a clock needs `what`: what happens")
        return [{"at": "", "loses": "", **clock} for clock in clocks]

    def _known(self, table: Mapping[str, Any], valid: list[str], section: str, what: str) -> None:
        for key in table:
            if key not in valid:
                near = names.nearest(key, valid)
                hint = f"the nearest is {near!r}" if near else f"there are {', '.join(valid)}"
                raise self._bad(section, key, f"no {what} is called {key!r}; {hint}")

    def _typed(self, section: str, table: Mapping[str, Any], key: str, kind: type, what: str) -> Any:
        if type(table[key]) is not kind:
            raise self._bad(section, key, f"{key}: write {what}, not {table[key]!r}")
        return table[key]

    def _read(self, section: str, table: Mapping[str, Any], key: str, read: Callable[[Any], Any]) -> Any:
        try:
            return read(table[key])
        except ValueError as error:
            raise self._bad(section, key, f"{key}: {error}") from error

    def _bad(self, section: str, key: str, detail: str) -> BadSettings:
        return BadSettings(path=self._path, line=self._line(section, key), detail=detail)

    def _line(self, section: str, key: str) -> int:
        """The line of `key` in [section] if written plainly, else of a header that contains it, else 1."""
        here, found = section == "", dict[str, int]()
        for number, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[{1,2}\s*([^\]]*?)\s*\]", line)
            if header:
                title = re.sub(r"""["' ]""", "", header.group(1))
                here = title == section
                found.setdefault(title if section else title.partition(".")[0], number)
            elif here and key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
                return number
        return found.get(f"{section}.{key}" if section else key) or found.get(section) or 1


def _speed(value: Any) -> float:
    """Speed as a multiple of a box of speed 1. Raises: ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"not a speed: {value!r} (write 2.0 for twice as fast)")
    return float(value)


def _began(value: Any) -> str:
    """A stamp from a TOML time or text. Raises: ValueError."""
    from datetime import UTC, datetime

    when = value if isinstance(value, datetime) else None
    if isinstance(value, str):
        when = datetime.fromisoformat(value)
    if when is None:
        raise ValueError(f"not an instant: {value!r} (write 2026-11-21T10:00:00Z)")
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return units.stamp(when.timestamp())


_TEXTS = ("transport", "launcher", "provider", "platform", "address", "base", "init", "python")
_OPTIONS = (
    "stop",
    "stop_is_final",
    "began",
    "ssh_config",
    "sharing",
    "persist_s",
    "answer_s",
    "reboot_hook",
    "speed",
    "keep_disk",
    "ask_every",
    "platform_env",
)
_HOOKS = ("cron", "systemd")
