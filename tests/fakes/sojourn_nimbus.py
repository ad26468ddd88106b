"""`nimbus`: a small cloud. Its account is a folder; each machine is a folder there, and what runs in it.

`Backend` is a provider that rents, `Line` the way to its machines. The file `fault` in the account makes the next
taking go wrong: `lost` (it is rented, and the answer is lost), `killed` (and the client dies), `full` (rejected),
`stuck` (it never boots).
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

from sojourn.backends.transport import local
from sojourn.core import law
from sojourn.core.inventory import Asset, Inventory
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse

BOOT_S = 0.5
KINDS = {"small": 500_000, "large": 2_000_000}


class Account:
    """The cloud's own books, for all who have a key."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @contextlib.contextmanager
    def books(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "books.json", "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            books = json.loads(file.read() or "{}")
            yield books
            file.truncate(0)
            file.write(json.dumps(books))

    def create(self, kind, name):
        fault = self.folder / "fault"
        what = fault.read_text() if fault.exists() else ""
        fault.unlink(missing_ok=True)
        if what == "full":
            raise ValueError("no capacity")
        with self.books() as books:
            if any(one["name"] == name for one in books.values()):
                raise ValueError(f"the name {name} was given before")
            id = f"m-{len(books)}"
            books[id] = {
                "name": name,
                "kind": kind,
                "up": time.time() + (1e9 if what == "stuck" else BOOT_S),
                "on": True,
            }
        (self.folder / id).mkdir()
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "lost":
            raise TimeoutError("the answer was lost")
        return id

    def delete(self, id):
        with self.books() as books:
            books[id]["on"] = False
        home = self.folder / id
        mark = f"HOME={home}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


class Backend:
    """Provider `nimbus`."""

    metered, rents, stops_itself = True, True, True
    stop_verb, is_final = "delete the machine", True

    def __init__(self, site):
        self.site, self.account = site, Account(site.options["nimbus"]["account"])

    def offers(self, need):
        return [Offer(kind, rate, "USD") for kind, rate in sorted(KINDS.items(), key=lambda one: one[1])]

    def take(self, offer, token, now_s):
        try:
            id = self.account.create(offer.native, token)
        except ValueError as error:
            return Rejected(str(error))
        except TimeoutError as error:
            return Unknown(str(error))
        return self._lease(id, offer.native, token, now_s)

    def find(self, token, now_s):
        with self.account.books() as books:
            mine = [(id, one) for id, one in books.items() if one["name"] == token and one["on"]]
            return [self._lease(id, one["kind"], token, now_s) for id, one in mine]

    def list(self, kinds=()):
        with self.account.books() as books:
            there = [(id, one) for id, one in books.items() if one["on"]]
        return Inventory(tuple(Asset("machine", id, one["name"], "on", KINDS[one["kind"]]) for id, one in there))

    def ready(self, lease, deadline_s):
        with self.account.books() as books:
            is_up = time.time() >= books[lease.native]["up"]
        if not is_up:
            return NoAnswer(sent=True, kind="not-ready", detail="it boots")
        return replace(lease, address=str(self.account.folder / lease.native))

    def look(self, lease):
        with self.account.books() as books:
            return Pulse.ALIVE if books.get(lease.native, {}).get("on") else Pulse.GONE

    def release(self, lease, clearance):
        law.check(clearance, lease)
        self.account.delete(lease.native)
        return f"{lease.native} is deleted"

    def _lease(self, id, kind, token, now_s):
        return Lease(
            name=self.site.name,
            site=self.site.name,
            provider="nimbus",
            native=id,
            rate_micro_per_h=KINDS[kind],
            currency="USD",
            began_s=now_s,
            stop_verb=self.stop_verb,
            is_final=self.is_final,
            token=token,
        )


class Line:
    """Transport `nimbus`: into a machine."""

    def __init__(self, place):
        self.home, self.real = place.address, local.Backend()
        self.no = NoAnswer(sent=False, kind="refused", detail="no machine answers there")

    def call(self, argv, **how):
        if not os.path.isdir(self.home):
            return self.no
        env = [f"HOME={self.home}", f"PATH={os.environ['PATH']}", f"SOJOURN_BOX_REGISTRY={self.home}/registry"]
        return self.real.call(["env", "-i", *env, *argv], **how)

    def put(self, source, remote, **how):
        return self.real.put(source, remote, **how) if os.path.isdir(self.home) else self.no

    def get(self, remote, goal, **how):
        return self.real.get(remote, goal, **how) if os.path.isdir(self.home) else self.no
