"""Where things lie on the box: BASE with everything content-named, and one root a run. Paths; nothing is made here."""

from __future__ import annotations

import os

from sojourn.box.run import job
from sojourn.box.system import opening, umask
from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from sojourn.wire.documents import Spec

# What lies in a root and is ours: never an output, whatever a glob says.
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
    + ("logs", "exits", "progress", "attempts", "evidence", "persist")
)


class Root:
    """The paths of one run. `base` is the folder two levels up; each seat has its own locks."""

    def __init__(self, path: str, seat: str = "") -> None:
        self.path = os.path.abspath(path)
        self.seat = seat
        self.base = os.path.dirname(os.path.dirname(self.path))
        self.id = os.path.basename(self.path)
        self.run = os.path.join(self.path, "run.json")
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
        self.lent = os.path.join(self.persist, "lent.json")  # which attempt has them: {"to","host"}

    def attempt(self, n: int) -> str:
        """The working copy of attempt `n`; making this folder claims fencing token `n`."""
        return os.path.join(self.attempts, str(n))

    def log(self, n: int) -> str:
        """Standard output and error of attempt `n`."""
        return os.path.join(self.logs, "%d.log" % n)

    def begun(self, n: int) -> str:
        """What the shim wrote when it began: {"attempt","pid","start","pgid","shim","boot_id"}."""
        return os.path.join(self.exits, "%d.begun.json" % n)

    def exit(self, n: int) -> str:
        """What the shim wrote when it ended: {"attempt","rc","signal","pid","start","ended"}."""
        return os.path.join(self.exits, "%d.json" % n)

    def progress(self, n: int) -> str:
        """What the training process of attempt `n` writes."""
        return os.path.join(self.path, "progress", "%d.json" % n)

    def spares(self, n: int) -> str:
        """Copies of checkpoints that attempt `n` writes over in place, by their paths in the working copy."""
        return os.path.join(self.persist, "spares", str(n))

    def evidence(self, n: int, is_last: bool = True) -> str:
        """What the probes said at the bad end of attempt `n`; else, while it ran, when they were last asked."""
        return os.path.join(self.path, "evidence", "%d.json" % n if is_last else "%d.look.json" % n)

    def make_folders(self) -> None:
        """Make the folders every run has, and close to all others what is open. Idempotent. Raises: OSError."""
        folders = (self.logs, self.exits, self.attempts, self.checkpoints, os.path.join(self.path, "progress"))
        for folder in folders:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        umask.close_root(self.path, folders)


def read_spec(root: Root) -> Spec:
    """run.json. Raises: ValueError where there is none, it is torn, or it is no job."""
    fields: Any = read_fields(root.run)
    if not fields:
        raise ValueError("no readable %s" % root.run)
    wrong = job.trouble(fields)
    if wrong:
        raise ValueError("%s: %s" % (root.run, wrong))
    spec: Spec = fields
    return spec


def read_number(path: str, key: str) -> int:
    """The whole number `key` of a small JSON file of ours; 0 where the file is absent, torn or says otherwise."""
    value = read_fields(path).get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def read_fields(path: str) -> Dict[str, Any]:
    """A small JSON object of ours; empty where the file is absent, unreadable or torn."""
    try:
        with opening.open_plain(path) as f:
            value = lean_json.loads(f.read(os.fstat(f.fileno()).st_size).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def attempts_made(root: Root) -> List[int]:
    """Numbers of the attempts that were claimed, sorted."""
    try:
        return sorted(int(name) for name in os.listdir(root.attempts) if name.isdigit())
    except OSError:
        return []
