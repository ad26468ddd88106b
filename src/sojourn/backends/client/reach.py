"""Whether an sshd answers at an address: a machine whose provider calls it running may still be starting one."""

from __future__ import annotations

import socket
import time

from sojourn.backends.client import keys
from sojourn.core.values import NoAnswer, Site


def answers_ssh(site: Site, host: str, port: int, timeout_s: float) -> NoAnswer | None:
    """None where something greets there as ssh servers do; else NoAnswer `not-ready`. Blocks for `timeout_s` at most.

    With `probe = false` in the settings of the site's provider it is not tried: who can reach machines only through a
    jump host or a proxy of their ssh settings says so.
    """
    if not keys.flag(site, "probe", True):
        return None
    until_s, seen = time.monotonic() + timeout_s, b""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as line:
            while b"SSH-" not in seen and (left_s := until_s - time.monotonic()) > 0:
                line.settimeout(left_s)
                got = line.recv(256)
                seen = (seen + got)[-512:]
                if not got:
                    break
    except OSError as error:
        return NoAnswer(sent=True, kind="not-ready", detail=f"no sshd answers yet ({error.strerror or 'timeout'})")
    if b"SSH-" in seen:
        return None
    return NoAnswer(sent=True, kind="not-ready", detail="no sshd answers yet")
