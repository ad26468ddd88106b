"""API keys and ssh public keys of a provider, found by name when they are needed; a value is in no message and no repr.

`key` in [sites.NAME.PROVIDER] says where: `env:NAME`, `file:PATH` (mode 0600) or `keyring:SERVICE`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.values import Site
from sojourn.wire.errors import Misuse

LONGEST_BYTES = 1 << 16
_PUBLIC = ("~/.ssh/id_ed25519.pub", "~/.ssh/id_ecdsa.pub", "~/.ssh/id_rsa.pub")


class NoKey(Misuse):
    """Site {site} needs an API key of {provider}: {detail}."""

    code = "no-key"
    next_step = 'set {env}, or write key = "file:PATH" into [sites.{site}.{provider}], then sojourn doctor {site}'


class NoPublicKey(Misuse):
    """Site {site} needs an ssh public key for its machines: {detail}."""

    code = "no-public-key"
    next_step = 'ssh-keygen -t ed25519, or write public_key = "PATH.pub" into [sites.{site}.{provider}]'


@dataclass(frozen=True)
class Key:
    """`name`: where it is from, which may be shown. `value`: the key itself, which may not."""

    name: str
    value: str = field(repr=False)


def options(site: Site) -> Mapping[str, Any]:
    """[sites.NAME.PROVIDER] of the user's settings."""
    found: Mapping[str, Any] = site.options.get(site.provider) or {}
    return found


def text(site: Site, name: str, default: str = "") -> str:
    """The setting `name` of the site's provider, in quotes there. Raises: Misuse."""
    value = options(site).get(name, default)
    if not isinstance(value, str):
        raise Misuse(detail=f"[sites.{site.name}.{site.provider}] {name}: write text in quotes, not {value!r}")
    return value


def number(site: Site, name: str, default: int) -> int:
    """The setting `name` of the site's provider, a whole number of at least 1. Raises: Misuse."""
    value = options(site).get(name, default)
    if type(value) is not int or value < 1:
        raise Misuse(detail=f"[sites.{site.name}.{site.provider}] {name}: write a whole number from 1, not {value!r}")
    return value


def flag(site: Site, name: str, default: bool = False) -> bool:
    """The setting `name` of the site's provider, true or false. Raises: Misuse."""
    value = options(site).get(name, default)
    if type(value) is not bool:
        raise Misuse(detail=f"[sites.{site.name}.{site.provider}] {name}: write true or false, not {value!r}")
    return value


def words(site: Site, name: str) -> list[str]:
    """The setting `name` of the site's provider, a list of words; [] without one. Raises: Misuse."""
    value = options(site).get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Misuse(detail=f'[sites.{site.name}.{site.provider}] {name}: write ["NAME", ...], not {value!r}')
    return list(value)


def api_key(site: Site, env: str, environ: Mapping[str, str] | None = None) -> Key:
    """The site's API key; `env`: the variable that holds it where the settings do not say. Raises: NoKey."""
    environ = os.environ if environ is None else environ
    where = text(site, "key", f"env:{env}")
    kind, _, rest = where.partition(":")

    def missing(detail: str) -> NoKey:
        return NoKey(site=site.name, provider=site.provider, detail=detail, env=env)

    if kind == "env" and rest:
        value, lacks = environ.get(rest, ""), f"{rest} is not set"
    elif kind == "file" and rest:
        value, lacks = _of_file(os.path.expanduser(rest), missing), f"{rest} is empty"
    elif kind == "keyring" and rest:
        value, lacks = _of_keyring(rest, missing), f"the keyring holds nothing for {rest}"
    else:  # perhaps the key itself: it is not repeated
        raise missing("`key` in its settings is none of env:NAME, file:PATH and keyring:SERVICE")
    value = value.strip()
    if not value:
        raise missing(lacks)
    if not value.isascii() or not value.isprintable() or " " in value:
        raise missing(f"what {where} holds is no key: it has spaces, line ends or characters beyond ASCII")
    return Key(where, value)


def public_key(site: Site) -> str:
    """The line of the user's ssh public key that new machines are to trust. Raises: NoPublicKey."""
    told = text(site, "public_key")
    for path in [told] if told else _PUBLIC:
        try:
            with open(os.path.expanduser(path), encoding="utf-8") as file:
                line = file.read(LONGEST_BYTES).strip()
        except (OSError, UnicodeDecodeError):
            continue
        if "PRIVATE KEY" in line:
            raise NoPublicKey(site=site.name, provider=site.provider, detail=f"{path} is a private key; give its .pub")
        if len(line.split()) >= 2 and "\n" not in line and line.isascii() and "'" not in line:
            return line
    where = told or "any of " + ", ".join(_PUBLIC)
    raise NoPublicKey(site=site.name, provider=site.provider, detail=f"there is none at {where}")


def _of_file(path: str, missing: Any) -> str:
    try:
        with open(path, encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise missing(f"{path} can be read by others; chmod 600 {path}")
            return file.read(LONGEST_BYTES)
    except OSError as error:
        raise missing(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise missing(f"{path} holds no key: it is not ASCII text") from None


def _of_keyring(service: str, missing: Any) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise missing("`keyring:` needs the package keyring; pip install 'sojourn[keyring]'") from None
    try:
        return keyring.get_password(service, "sojourn") or ""
    except KeyringError as error:
        raise missing(f"the keyring does not open ({type(error).__name__})") from None
