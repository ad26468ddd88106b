"""Paths on the box: BASE with everything named by content, and one root per run. Nothing is created here."""

from __future__ import annotations

import errno
import os

from sojourn.box.run import job
from sojourn.box.system import opening, umask
from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from sojourn.wire.documents import Spec

# What is ours in a root: never an output, whatever a glob says.
OURS = frozenset(
    (
        "run.json",
        "want.json",
        "stop.json",
        "keeper.json",
        "manifest.json",
        "manifest.json.room",
        "secrets.json",
        "secrets.json.new",
        "events.jsonl",
        "keeper.lock",
        "payload.lock",
        "reboot.json",
        "reboot.sh",
    )
    + ("logs", "exits", "progress", "attempts", "evidence", "persist", "specs")
)


class Root:
    """The paths of one run. `base` is the folder two levels up; each seat has its own locks."""

    def __init__(self, path: str, seat: str = "") -> None:
        self.path = os.path.abspath(path)
        self.seat = seat
        self.base = os.path.dirname(os.path.dirname(self.path))
        self.id = os.path.basename(self.path)
        self.run = os.path.join(self.path, "run.json")
        self.specs = os.path.join(self.path, "specs")  # of later attempts with other code, named by identity
        self.want = os.path.join(self.path, "want.json")
        self.stop = os.path.join(self.path, "stop.json")
        self.keeper = os.path.join(self.path, "keeper.json")
        self.reboot = os.path.join(self.path, "reboot.json")
        locks = os.path.join(self.path, "exits", seat.replace("/", "-") + ".") if seat else os.path.join(self.path, "")
        self.keeper_lock = locks + "keeper.lock"
        self.payload_lock = locks + "payload.lock"
        self.events = os.path.join(self.path, "events.jsonl")
        self.manifest = os.path.join(self.path, "manifest.json")
        self.manifest_room = self.manifest + ".room"
        self.secrets = os.path.join(self.path, "secrets.json")
        self.logs = os.path.join(self.path, "logs")
        self.exits = os.path.join(self.path, "exits")
        self.attempts = os.path.join(self.path, "attempts")
        self.checkpoints = os.path.join(self.path, "checkpoints")
        self.persist = os.path.join(self.path, "persist")
        self.kept = os.path.join(self.persist, "kept")  # persisted folders that no attempt has
        self.lent = os.path.join(self.persist, "lent.json")  # the attempt that has them: {"to","host"}

    def spec(self, identity: str) -> str:
        """The run.json of this identity, if an attempt was requested with code other than the first."""
        return os.path.join(self.specs, os.path.basename(identity) + ".json")

    def attempt(self, n: int) -> str:
        """The working copy of attempt `n`; creating this folder claims fencing token `n`."""
        return os.path.join(self.attempts, str(n))

    def log(self, n: int) -> str:
        """Standard output and error of attempt `n`."""
        return os.path.join(self.logs, "%d.log" % n)

    def begun(self, n: int) -> str:
        """Written by the shim at the start: {"attempt","pid","start","pgid","shim","boot_id"}."""
        return os.path.join(self.exits, "%d.begun.json" % n)

    def exit(self, n: int) -> str:
        """Written by the shim at the end: {"attempt","rc","signal","pid","start","ended"}."""
        return os.path.join(self.exits, "%d.json" % n)

    def hears(self, n: int) -> str:
        """Exists while a process of attempt n would save on SIGTERM (`train.preempt`)."""
        return os.path.join(self.exits, "%d.hears" % n)

    def seat_avoid(self, seat: str) -> str:
        """Machines that this seat's job should avoid, one per line."""
        return os.path.join(self.exits, "%s.avoid" % seat.rpartition(":")[0].replace("/", "-"))

    def seat_left(self, seat: str) -> str:
        """Seconds that this seat's job had left when its scheduler warned of its limit."""
        return os.path.join(self.exits, "%s.left" % seat.rpartition(":")[0].replace("/", "-"))

    def progress(self, n: int) -> str:
        """Written by the training process of attempt `n`."""
        return os.path.join(self.path, "progress", "%d.json" % n)

    def spares(self, n: int) -> str:
        """Copies of checkpoints that attempt `n` overwrites in place, by their paths in the working copy."""
        return os.path.join(self.persist, "spares", str(n))

    def evidence(self, n: int, is_last: bool = True) -> str:
        """The probes' answers at the bad end of attempt `n`; while it runs, their latest."""
        return os.path.join(self.path, "evidence", "%d.json" % n if is_last else "%d.look.json" % n)

    def make_folders(self) -> None:
        """Make the folders every run has, and revoke others' access. Idempotent. Raises: OSError."""
        folders = (self.logs, self.exits, self.attempts, self.checkpoints, os.path.join(self.path, "progress"))
        for folder in folders:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        umask.close_root(self.path, folders)


def is_placed(root: Root) -> bool:
    """Whether a run.json is there; True where that cannot be seen."""
    try:
        os.stat(root.run)
        return True
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)


def names_in(folder: str) -> List[str]:
    """Names of what is in a folder, sorted; [] if there is no such folder. Raises: OSError if that cannot be seen."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def closed(folder: str) -> str:
    """Why a folder cannot be looked into; "" if it can."""
    try:
        os.listdir(folder)
        return ""
    except OSError as error:
        return error.strerror or str(error)


def read_spec(root: Root) -> Spec:
    """What the last requested attempt runs. Raises: ValueError if it is missing, torn, or not a job."""
    fields: Any = spec_fields(root)
    if not fields:
        raise ValueError("no readable %s" % root.run)
    wrong = job.trouble(fields)
    if wrong:
        raise ValueError("%s: %s" % (root.run, wrong))
    spec: Spec = fields
    return spec


def spec_fields(root: Root) -> Dict[str, Any]:
    """Its fields: from run.json, or from the file in `specs` that want.json names; empty if unreadable."""
    named = read_fields(root.want).get("spec")
    return read_fields(root.spec(named) if named and isinstance(named, str) else root.run)


def all_specs(root: Root) -> List[Dict[str, Any]]:
    """run.json, and those of later attempts with other code."""
    try:
        later = sorted(name for name in os.listdir(root.specs) if name.endswith(".json"))
    except OSError:
        later = []
    return [read_fields(root.run)] + [read_fields(os.path.join(root.specs, name)) for name in later]


def read_number(path: str, key: str) -> int:
    """The whole number `key` of a small JSON file of ours; 0 if the file is missing, torn or has none."""
    value = read_fields(path).get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def read_fields(path: str) -> Dict[str, Any]:
    """A small JSON object of ours; empty if the file is missing, unreadable or torn."""
    try:
        with opening.open_plain(path) as f:
            value = lean_json.loads(f.read(os.fstat(f.fileno()).st_size).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def attempts_made(root: Root) -> List[int]:
    """Numbers of the claimed attempts, sorted."""
    try:
        return sorted(int(name) for name in os.listdir(root.attempts) if name.isdigit())
    except OSError:
        return []
