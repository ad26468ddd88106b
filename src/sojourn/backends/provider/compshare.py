"""`compshare`: instances of CompShare (UCloud), by the vendor's own program. Untried against the real service.

Settings in [sites.NAME.compshare]: `key` (of the private key) and `public_api_key`, `region`, `zone`, `image`,
`max_price`, `disk_gb` (system disk), `program`, `public_key`.
The program sends a create once: its SDK repeats nothing unless it is told to. An instance takes no ssh key when it is
made; the program logs in with the instance's password and puts the key there. Spot instances are left out: they stop
only by force, which the program has no word for, and only what is stopped can be deleted.
Source: compshare-cli 0.5.6 and ucloud-sdk-python3 0.11.150; www.compshare.cn/docs/gpus/instance (2026-11).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from sojourn.backends.client import answers, keys, listing, machines, reach
from sojourn.backends.client.keys import Key
from sojourn.backends.client.program import NoProgram, Printed, Program
from sojourn.backends.client.renting import CannotWake
from sojourn.core import law
from sojourn.core.inventory import Asset, Inventory
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse, Site
from sojourn.wire.errors import Misuse

DISK_GB, CREATE_S, CHANGE_S = 100, 120.0, 120.0
OFF_S, LOOK_S = 120.0, 3.0  # stopping takes so long at most, and only a stopped instance can be deleted
EVERY_S = {"read": 0.2, "write": 0.2}  # its limit is not documented
INSTALL = "pipx install compshare-cli==0.5.6"
RUNNING, OFF = "Running", ("Stopped", "Install Fail")
# The gateway's: no action, no or a wrong signature, no such user; parameters that are missing, wrong or too many. Any
# other code of a create may come from behind it.   Source: UCloud's documentation of its API (2026-11).
KEY_CODES, TURNED_AWAY = range(170, 180), range(160, 250)
_STOP = ("stop and delete the instance", "")  # whether the GPU of a stopped one bills is not published
CHARGE = "Postpay"  # by the hour
_PRICES = ("Instance", "SystemDisks", "Disks", "CompShareImage")
SEEING = ("--show-sensitive",)  # addresses and the password, which stays in this process
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Backend:
    """Provider `compshare`."""

    metered: ClassVar[bool] = True
    rents: ClassVar[bool] = True
    stops_itself: ClassVar[bool] = True
    stop_verb: ClassVar[str] = _STOP[0]
    is_final: ClassVar[bool] = True
    key_env: ClassVar[str] = "COMPSHARE_PRIVATE_KEY"
    public_env: ClassVar[str] = "COMPSHARE_PUBLIC_KEY"

    def __init__(self, site: Site) -> None:
        self._site = site
        name = keys.text(site, "program", "compshare")
        self._program = Program(
            "compshare",
            (name, "--json"),
            self._keys,
            lambda: NoProgram(site=site.name, provider="compshare", program=name, install=INSTALL),
            # In English, and without the report of each command that it sends to its vendor unless told not to.
            environ={"COMPSHARE_LANG": "en", "COMPSHARE_INSIGHTS_URL": ""},
            is_lost=_is_lost,
            every_s=EVERY_S,
        )

    def offers(self, need: Need) -> Sequence[Offer]:
        """What is in stock in the zone of the settings: of each kind of GPU that fits, its smallest size that does."""
        disk = self._disk_size(need)
        words = ("instance", "search", *self._where(), "--image", self._setting("image"), "--disk", disk)
        listed = self._must(self._program.ask(*words), "list its GPUs")
        stock, found = listed.get("Inventory"), []
        for machine in answers.rows(listed, "AvailableInstanceTypes") or ():
            name, memory = str(machine.get("Name", "")), (machine.get("GraphicsMemory") or {}).get("Value")
            specs = answers.rows(stock, name) if name else None
            fitting = [
                one for one in specs or () if one.get("ResourceEnough") is True and _fits(need, one, name, memory)
            ]
            if fitting:
                spec = min(fitting, key=lambda one: (one["Gpu"], one["Cpu"], one["Mem"]))
                found.append(self._offer(name, memory, spec, disk))
        return sorted(found, key=lambda one: (one.rate_micro_per_h, one.native))

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """An instance called `token`. The program itself refuses one that has become dearer than the offer."""
        keys.public_key(self._site)  # without one, nobody could get in
        words = ["instance", "create", *self._where(), *offer.facts["words"], "--name", token, "--no-wait", "--yes"]
        if offer.is_rate_known:
            words += ["--max-price", f"{offer.rate_micro_per_h / 1e6:.6f}"]
        answer = self._program.change(*words, timeout_s=CREATE_S)
        if isinstance(answer, NoAnswer):
            if not answer.sent:
                return Rejected(answer.detail or answer.kind)
            return Unknown(f"its answer was lost: {answer.detail or answer.kind}")
        native = _made(answer)
        if native:
            told = {key: offer.facts[key] for key in ("gpu", "gpus", "region")}
            rate = offer.rate_micro_per_h if offer.is_rate_known else None
            return self._lease(native, token, rate, now_s, told)
        said = _said(answer)
        kind = "key" if _code(answer) in KEY_CODES else answers.kind_of(said)
        return Rejected(said, kind) if _is_turned_away(answer) else Unknown(said)

    def find(self, token: str, now_s: float) -> Sequence[Lease] | NoAnswer:
        """The instances of that very name in the account's list, whatever its region."""
        listed = self._list()
        if isinstance(listed, NoAnswer):
            return listed
        mine = [one for one in listed if one.get("Name") == token]
        return [self._lease(str(one["UHostId"]), token, _rate(one), now_s, {}) for one in mine]

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """When it runs, an sshd answers, and our key is there. Raises: MachineFailed."""
        data = _data(answer := self._program.ask(*SEEING, "instance", "show", lease.native, timeout_s=deadline_s))
        one = next(iter(answers.rows(data, "UHostSet") or ()), None)
        if one is None:
            return NoAnswer(sent=True, kind="not-ready", detail=_why(answer))
        state = str(one.get("State", ""))
        if state in OFF:
            raise answers.MachineFailed(lease=lease.name, why=f"the instance is {state!r}")
        where = _address(one.get("SshLoginCommand")) if state == RUNNING else None
        if where is None:
            return NoAnswer(sent=True, kind="not-ready", detail=f"the instance is {state!r}, without an address yet")
        user, host, port = where
        quiet = reach.answers_ssh(self._site, host, port, deadline_s)
        return quiet or self._let_in(lease, deadline_s) or replace(lease, address=f"{user}@{host}:{port}")

    def look(self, lease: Lease) -> Pulse:
        """Gone by its id, and not in the whole list."""

        def pulse(one: Mapping[str, Any]) -> Pulse:
            return Pulse.STOPPED if one.get("State") == "Stopped" else Pulse.ALIVE

        signals = (self._list("--id", lease.native), self._list())
        return answers.standing(
            *(answers.by_list(rows, lease.native, pulse, lambda one: str(one.get("UHostId"))) for rows in signals)
        )

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Stop it and delete it then. Blocks for OFF_S, two changes and a few questions at most.

        Data disks that somebody attached stay.   Raises: Defect, ProviderSays, KeyRefused.
        """
        law.check(clearance, lease)
        asked = f"compshare was told to {lease.stop_verb} {lease.native}"
        if self.look(lease) is Pulse.GONE:
            return f"{asked} before"
        until_s = self._program.now_s() + OFF_S
        while (state := self._state(lease)) not in (*OFF, "") and self._program.now_s() < until_s:
            if state == RUNNING:  # before that it cannot be stopped, and after that it stops
                self._change("stop", lease)
            self._program.sleep(LOOK_S)
        answer = self._change("delete", lease)
        if isinstance(answer, NoAnswer) or _is_lost(answer):
            return f"{asked}; its answer was lost"
        if _data(answer) is None and self.look(lease) is not Pulse.GONE:
            self._must(answer, lease.stop_verb)
        return asked

    def wake(self, lease: Lease) -> str:
        """Whether a stopped one gets its GPU again is not published. Raises: CannotWake."""
        raise CannotWake(lease=lease.name, provider="compshare")

    def check(self) -> Mapping[str, Any]:
        """What a reading call with the keys says of the account. Raises: NoKey, NoProgram, KeyRefused, ..."""
        listed = self._must(self._program.ask("instance", "list", "--all"), "list its instances")
        return {
            "key": self._keys()[self.key_env].name,
            "machines": len(answers.rows(listed, "items") or ()),
            "balance": "",
        }

    def list(self, kinds: Collection[str] = ()) -> Inventory:
        """Instances and data disks; object and file storage and bandwidth are not asked. Raises: NoKey, NoProgram."""
        lists = (("machine", self._list, _asset), ("volume", self._disks, _disk))
        return listing.inventory(
            lists, kinds, ("US3 object storage", "CFS file system", "dedicated bandwidth", "custom image")
        )

    def _keys(self) -> Mapping[str, Key]:
        """Both halves of the account's key."""
        own = dict(keys.options(self._site))
        own["key"] = keys.text(self._site, "public_api_key", f"env:{self.public_env}")
        other = replace(self._site, options={**self._site.options, self._site.provider: own})
        return {
            self.key_env: keys.api_key(self._site, self.key_env),
            self.public_env: keys.api_key(other, self.public_env),
        }

    def _offer(self, name: str, memory: Any, spec: Mapping[str, Any], disk: str) -> Offer:
        size = ["--gpu", name, "--count", str(spec["Gpu"]), "--cpu", str(spec["Cpu"]), "--memory", f"{spec['Mem']}GiB"]
        size += ["--image", self._setting("image"), "--disk", disk, "--charge", CHARGE]
        rate = _price(_data(self._program.ask("instance", "price", *self._where(), *size)))
        facts = {
            "gpu": name,
            "gpus": spec["Gpu"],
            "cpus": float(spec["Cpu"]),
            "memory_gib": float(spec["Mem"]),
            "region": self._setting("zone"),
            "is_spot": False,
            "is_untried": True,
            "survives_stop": "system and data disks",
            "words": size,
        }
        if isinstance(memory, int):
            facts["gpu_memory_gib"] = float(memory)
        return Offer(f"{spec['Gpu']} x {name}", rate or 0, "CNY", facts, is_rate_known=rate is not None)

    def _let_in(self, lease: Lease, timeout_s: float) -> NoAnswer | None:
        """Our ssh key among those that the instance trusts, once; None when it is."""
        key = keys.public_key(self._site)
        file = "$HOME/.ssh/authorized_keys"
        script = (
            f"umask 077; mkdir -p $HOME/.ssh; grep -qxF '{key}' {file} 2>/dev/null || printf '%s\\n' '{key}' >> {file}"
        )
        words = ("instance", "ssh", lease.native, "--no-cache", "--no-wait", "--", "sh", "-c", script)
        answer = self._program.change(*words, timeout_s=max(timeout_s, LOOK_S))
        if isinstance(answer, Printed) and _data(answer) is not None:
            return None
        return NoAnswer(sent=True, kind="not-ready", detail=f"our ssh key is not there yet ({_why(answer)})")

    def _change(self, verb: str, lease: Lease) -> Printed | NoAnswer:
        return self._program.change("instance", verb, lease.native, "--yes", "--no-wait", timeout_s=CHANGE_S)

    def _state(self, lease: Lease) -> str:
        """The instance's state in its provider's word, "" where it is not listed, "?" where that cannot be asked."""
        rows = self._list("--id", lease.native)
        if isinstance(rows, NoAnswer):
            return "?"
        return next((str(one.get("State")) for one in rows if one.get("UHostId") == lease.native), "")

    def _list(self, *words: str) -> listing.Rows | NoAnswer:
        """The account's instances in all regions; a list that is not whole is no answer."""
        return self._rows("instance", "list", "--all", *words)

    def _disks(self) -> listing.Rows | NoAnswer:
        return self._rows("storage", "disk", "list")

    def _rows(self, *words: str) -> listing.Rows | NoAnswer:
        answer = self._program.ask(*words)
        rows = answers.rows(_data(answer), "items")
        return NoAnswer(sent=True, kind="refused", detail=_why(answer)) if rows is None else rows

    def _where(self) -> Sequence[str]:
        return ["--region", self._setting("region"), "--zone", self._setting("zone")]

    def _disk_size(self, need: Need) -> str:
        return f"{max(keys.number(self._site, 'disk_gb', DISK_GB), math.ceil(need.disk_gib))}GiB"

    def _setting(self, name: str) -> str:
        found = keys.text(self._site, name)
        if not found:
            how = "compshare image list" if name == "image" else "compshare instance zones"
            raise Misuse(detail=f'[sites.{self._site.name}.compshare] {name}: write {name} = "..."; see `{how}`')
        return found

    def _must(self, answer: Printed | NoAnswer, what: str) -> Mapping[str, Any]:
        """What it printed as data. Raises: KeyRefused, ProviderSays, ProviderSilent."""
        data = _data(answer)
        if data is not None:
            return data
        site = self._site.name
        if isinstance(answer, NoAnswer) or _is_lost(answer):
            raise answers.ProviderSilent(site=site, provider="compshare", what=what, detail=_why(answer))
        if _code(answer) in KEY_CODES:
            key = self._keys()[self.key_env].name
            raise answers.KeyRefused(site=site, provider="compshare", key=key, said=_said(answer))
        raise answers.ProviderSays(site=site, provider="compshare", what=what, said=_said(answer))

    def _lease(self, native: str, token: str, rate: int | None, now_s: float, facts: Mapping[str, Any]) -> Lease:
        return machines.lease(self._site, native, token, (rate, "CNY"), now_s, _STOP, facts)


def _data(answer: Printed | NoAnswer) -> Mapping[str, Any] | None:
    """What it printed as data, None where it says that something went wrong."""
    if isinstance(answer, NoAnswer) or answer.rc or answer.fields.get("ok") is not True:
        return None
    data = answer.fields.get("data")
    return data if isinstance(data, Mapping) else None


def _error(printed: Printed) -> Mapping[str, Any]:
    error = printed.fields.get("error")
    return error if isinstance(error, Mapping) else {}


def _details(printed: Printed) -> Mapping[str, Any]:
    """Of an error; of a list of instances where one failed, that one's."""
    found = _error(printed).get("details")
    details: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    failed = answers.rows(details, "failed")
    inner = failed[0].get("error") if failed else None
    return inner if isinstance(inner, Mapping) else details


def _code(printed: Printed) -> int:
    """The API's own code, 0 where the error is not the API's."""
    code = _details(printed).get("ret_code")
    return code if type(code) is int else 0


def _said(printed: Printed) -> str:
    """Its words, in one short line."""
    message = _details(printed).get("message") or _error(printed).get("message") or "it gives no reason"
    code = f"RetCode {_code(printed)}: " if _code(printed) else ""
    return code + re.sub(r"[\s\x00-\x1f\x7f]+", " ", str(message)).strip().rstrip(".")[: answers.WORDS_CHARACTERS]


def _why(answer: Printed | NoAnswer) -> str:
    if isinstance(answer, NoAnswer):
        return answer.detail or answer.kind
    return _said(answer) if answer.fields.get("ok") is not True else "its answer holds no such thing"


def _is_lost(printed: Printed) -> bool:
    """Whether the program did not get through to the API, or not back."""
    return _error(printed).get("code") == "transport_error" or (
        _error(printed).get("code") == "partial_failure" and not _code(printed) and "ret_code" not in _details(printed)
    )


def _is_turned_away(printed: Printed) -> bool:
    """Whether a create that failed has surely made nothing: it was not sent, or was turned away at the gateway."""
    kind, details = _error(printed).get("code"), _details(printed)
    if kind == "api_error":
        return details.get("action") != "CreateCompShareInstance" or _code(printed) in TURNED_AWAY
    return kind in ("command_error", "invalid_usage", "configuration_error")  # all come before its create


def _made(printed: Printed) -> str:
    made = (_data(printed) or {}).get("instance")
    ids = made.get("UHostIds") or made.get("UHostId") if isinstance(made, Mapping) else None
    first = ids[0] if isinstance(ids, list) and ids else ids
    return first if isinstance(first, str) else ""


def _fits(need: Need, spec: Mapping[str, Any], name: str, memory: Any) -> bool:
    if not all(type(spec.get(key)) is int for key in ("Gpu", "Cpu", "Mem")):
        return False
    names = [name, f"NVIDIA {name} {memory}GB"]
    if consumer := re.match(r"(\d{4})(\w*)", name):  # "3080Ti" is an RTX 3080 Ti
        names.append(f"NVIDIA GeForce RTX {consumer[1]} {consumer[2]} {name} {memory}GB")
    return machines.has_gpus(need, spec["Gpu"], *names) and machines.has_cpus(need, spec["Cpu"], spec["Mem"])


def _price(data: Mapping[str, Any] | None) -> int | None:
    """What an hour costs in all, as the program adds it up; None where a part is no price."""
    rows = answers.rows(data, "items") or []
    row = next((one for one in rows if one.get("ChargeType") == CHARGE), None)
    if row is None or row.get("Instance") is None:
        return None
    parts = [answers.micro(row[name]) for name in _PRICES if row.get(name) is not None]
    return sum(part for part in parts if part is not None) if None not in parts else None


def _rate(one: Mapping[str, Any]) -> int | None:
    return answers.micro(one.get("InstancePrice")) if one.get("ChargeType") == CHARGE else None


def _address(command: Any) -> tuple[str, str, int] | None:
    """(user, host, port) of `ssh [-p PORT] USER@HOST`, None for any other line."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return None
    port, rest = 22, words[1:]
    if "-p" in rest[:-1]:
        at = rest.index("-p")
        port, rest = int(rest[at + 1]) if rest[at + 1].isdecimal() else 0, rest[:at] + rest[at + 2 :]
    if words[:1] != ["ssh"] or len(rest) != 1 or not 0 < port < 1 << 16:
        return None
    user, _, host = rest[0].partition("@")
    return (user, host, port) if _HOST.fullmatch(user) and _HOST.fullmatch(host) else None


def _asset(one: Mapping[str, Any]) -> Asset:
    state = str(one.get("State", ""))
    rate = None if state == "Stopped" else _rate(one)
    return Asset("machine", str(one.get("UHostId", "")), str(one.get("Name", "")), state, rate, currency="CNY")


def _disk(one: Mapping[str, Any]) -> Asset:
    native, held = str(one.get("ResourceId", "")), str(one.get("MountInstance") or "")
    return Asset(
        "volume",
        native,
        str(one.get("Name", "")),
        str(one.get("Status", "")),
        currency="CNY",
        of=(held,) if held else (),
        command=f"compshare storage disk delete {shlex.quote(native)}",
    )
