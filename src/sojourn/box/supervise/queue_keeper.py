"""The keeper of a queue: keeps its slots busy, one cell after the other, watched or not.

Each cell is an ordinary run with its own keeper, in its own session: this process starts that keeper, waits for its
end, and reads what it wrote. Killed and restarted, it finds the living cells and waits for them; a cell is started here
at most once, and starting its keeper twice does no harm (its lock decides).
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

from sojourn.box.call import Refused
from sojourn.box.queue import beside
from sojourn.box.queue.book import PROMOTED, Book, line_id
from sojourn.box.queue.rungs import ETA, Rungs
from sojourn.box.run import locks, want
from sojourn.box.run.history import History
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root, read_fields, read_number, spec_fields
from sojourn.box.supervise import reboot, start
from sojourn.box.system import machine, process, umask
from sojourn.box.system.wake import Wake, open_pidfd
from sojourn.wire import atomic, events, names, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set, Tuple

    from sojourn.wire.documents import Event

_LONG_S = 60.0  # only for the unforeseen: everything else comes with a signal or the end of a process
_SHORT_S = 1.0  # if a cell's keeper cannot be waited for
_FULL_DISK_S = 5.0
_BESIDE_S = 2.0  # how often the queue of plain runs checks whether what it waits for has ended
_AGAIN_S = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)  # pauses before restarting a cell's keeper that left its cell
_UNUSABLE = 74


def supervise(root: Root, wake: Wake) -> int:
    """Run the cells of the queue at `root` until none is left. 0 done, or another keeper is in charge; 74 the root is
    unusable. Safe to start at any time, any number of times: the lock decides.
    """
    while True:
        lock = -1
        try:
            lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            queue = _Queue(root, wake)
            queue.sign()
            queue.run()
        except BlockingIOError:
            return 0
        except (OSError, ValueError) as error:
            complain("the queue cannot continue: %s" % error)
            return _UNUSABLE
        finally:
            if lock >= 0:
                os.close(lock)
        # Somebody may have requested more after we looked and, finding us still in charge, started no other.
        if queue.is_told_to_end:
            return 0
        if not _has_more(root):
            reboot.unhook(root, lambda: _has_more(root))
            return 0


def _has_more(root: Root) -> bool:
    book = Book(root)
    return bool(book.waiting() or book.living())


class _Cell:
    """A cell that occupies slots. `pid`: its keeper; `fd`: becomes readable when that ends, -1: it must be polled."""

    def __init__(self, root: Root, line: Dict[str, Any], slots: Tuple[int, ...]) -> None:
        self.root = root
        self.line = line
        self.slots = slots
        self.pid = 0
        self.start = 0
        self.fd = -1
        self.is_child = False
        self.tries = 0
        self.not_before = 0.0
        self.rc = 0


class _Queue:
    def __init__(self, root: Root, wake: Wake) -> None:
        self.root = root
        self.wake = wake
        self.base = root.base
        umask.close_root(root.path, (root.logs,))
        self.book = Book(root)
        self.cells: Dict[str, _Cell] = {}
        self.is_told_to_end = False
        self.is_of_runs = root.id == names.RUNS_QUEUE
        # Other things living here, the free slots and the next run, as of when that run had to wait.
        self.waits_for: List[Root] = []
        self.waits: Tuple[List[int], str] = ([], "")
        self.never_promoted: Set[str] = set()

    def sign(self) -> None:
        """Record in keeper.json who is in charge."""
        pid = os.getpid()
        digest = os.path.basename(sys.argv[0])[len("keeper-") :].partition(".")[0]
        fields = {"pid": pid, "start": process.start_of(pid), "digest": digest, "attempt": 0}
        fields.update(boot_id=machine.boot_id(), host=machine.host())
        atomic.write_json(self.root.keeper, fields, durable=False)

    def run(self) -> None:
        """Until no cell waits or lives, or we are told to end: then the cells continue without us."""
        self._find_again()
        while not self.is_told_to_end:
            pause_s = _LONG_S
            try:
                self.book.read()
                for name in list(self.cells):
                    self._look_after(name)
                while not self.is_told_to_end and self._begin_one():
                    continue
            except OSError as error:  # a full disk: living cells continue, waiting ones can wait
                complain("queue: %s" % error)
                pause_s = _FULL_DISK_S
            if not self.cells and not self.book.waiting():
                return
            if self.waits_for:
                pause_s = min(pause_s, _BESIDE_S)
            now = time.monotonic()
            for cell in self.cells.values():
                if not cell.pid:
                    pause_s = min(pause_s, max(0.05, cell.not_before - now))
                elif cell.fd < 0 and not cell.is_child:
                    pause_s = min(pause_s, _SHORT_S)
            self._listen(pause_s)

    def _find_again(self) -> None:
        """Cells started by an earlier keeper of this queue, and those cut off by a restart of the machine."""
        for name, done in list(self.book.done.items()):
            if done.get("state") in ("lost", "preempted") and name in self.book.cells and self._has_hook():
                self._occupy(name, self.book.began[name])
        for name in self.book.living():
            self._occupy(name, self.book.began[name])

    def _occupy(self, name: str, began: Dict[str, Any]) -> None:
        slots = began.get("slots", [began.get("slot")])
        root = Root(os.path.join(self.base, "runs", str(self.book.cells[name]["run"])))
        self.cells[name] = _Cell(root, self.book.cells[name], tuple(s if isinstance(s, int) else 0 for s in slots))

    def _begin_one(self) -> bool:
        """Start the next cell if a slot is free. The lock is held only for the decision."""
        used = {slot for cell in self.cells.values() for slot in cell.slots}
        free = [slot for slot in range(len(self.book.lanes)) if slot not in used]
        if free and not self.is_of_runs:
            self._promote()
        if not free or not self.book.waiting():
            return False
        if self.waits_for and self.waits == (free, self.book.waiting()[0]) and all(map(beside.lives, self.waits_for)):
            return False
        self.waits_for = []
        others = beside.holders(self.base, self._runs()) if self.is_of_runs else {}
        with locks.Held(self.root):
            self.book.read()  # a client may just have withdrawn it
            waiting = self.book.waiting()
            if not waiting:
                return False
            name = waiting[0]
            line = self.book.cells[name]
            slots: Tuple[int, ...] = (free[0],)
            if self.is_of_runs:
                held = {card for cards in others.values() for card in cards}
                slots = beside.slots_for(line.get("cards"), tuple(self.book.lanes), free, held)
                if not slots:
                    self.waits_for, self.waits = [Root(path) for path in others], (free, name)
                    return False
            at = units.stamp(time.time())
            more = {"slots": list(slots)} if len(slots) > 1 else {}
            self.book.say(kind="began", id=name, run=line["run"], slot=slots[0], at=at, **more)
        self._occupy(name, self.book.began[name])
        self._look_after(name)
        return True

    def _promote(self) -> None:
        """Request the next attempt of a pruned cell that is among the best by now, if there is one."""
        stopped = [] if self.book.rests else [r for r in self.book.pruned() if r not in self.never_promoted]
        if not stopped:
            return
        rule = spec_fields(Root(os.path.join(self.base, "runs", stopped[0]))).get("early_stop") or {}
        run = Rungs(self.root.path, rule).best_stopped(stopped) if rule.get("rule") in ETA else ""
        if not run:
            return
        root = Root(os.path.join(self.base, "runs", run))
        number = want.last_attempt(root)
        # A client may have resumed it since; and its secrets went with its end, so only a client can resume that one.
        if _end_of(root, number).get("why") != "pruned" or spec_fields(root).get("secrets"):
            self.never_promoted.add(run)
            return
        with locks.Held(self.root):
            self.book.read()  # a client may just have stopped the sweep, or asked for this cell
            if run in self.book.pruned() and not self.book.rests:
                fields = {"run": run, "attempt": number + 1, "token": "", "by": PROMOTED}
                self.book.ask([dict(fields, kind="cell", id=line_id(run, number + 1, PROMOTED))])

    def _runs(self) -> List[str]:
        """The runs that we keep."""
        return [cell.root.id for cell in self.cells.values()]

    def _lane(self, cell: _Cell) -> str:
        """The GPUs of its slots; "" if it should see all of them."""
        asked = cell.line.get("cards")
        if isinstance(asked, dict) and asked.get("whole"):
            return ""
        lanes = [self.book.lanes[slot] for slot in cell.slots if slot < len(self.book.lanes)]
        return ",".join(lane for lane in lanes if lane)

    def _look_after(self, name: str) -> None:
        """Make sure that the cell has a keeper, until it is over."""
        cell = self.cells[name]
        if cell.pid and (cell.is_child or process.is_alive(cell.pid, cell.start)):
            return
        if cell.pid:
            self._forget(cell)
        ended = _end_of(cell.root, int(cell.line["attempt"]))
        state = str(ended.get("state", ""))
        if state and not self._may_go_on(cell, state):
            more = {"pruned": True} if state == "cancelled" and ended.get("why") == "pruned" else {}
            self.book.say(kind="done", id=name, run=cell.line["run"], state=state, at=units.stamp(time.time()), **more)
            del self.cells[name]
            return
        if want.pulse(cell.root) == "alive":
            fields = read_fields(cell.root.keeper)
            self._watch(cell, int(fields["pid"]), int(fields.get("start") or 0))
        elif cell.tries >= len(_AGAIN_S) and cell.rc == _UNUSABLE:
            complain("%s: its root cannot be used" % cell.root.id)
            self.book.say(kind="done", id=name, run=cell.line["run"], state="unusable", at=units.stamp(time.time()))
            del self.cells[name]
        elif time.monotonic() >= cell.not_before:
            self._start(cell)

    def _may_go_on(self, cell: _Cell, state: str) -> bool:
        """Its keeper is asked once whether a run cut off by a restart of the machine continues."""
        return cell.tries == 0 and state in ("lost", "preempted") and self._has_hook()

    def _start(self, cell: _Cell) -> None:
        pause = _AGAIN_S[min(cell.tries, len(_AGAIN_S) - 1)]
        cell.tries += 1
        cell.not_before = time.monotonic() + max(pause, 0.2)
        os.makedirs(cell.root.logs, exist_ok=True)
        if self._has_hook() and not os.path.exists(cell.root.reboot):
            atomic.write_json(cell.root.reboot, {"hook": "queue"})  # its keeper continues after a restart, as we do
        lane = self._lane(cell)
        by = str(cell.line.get("by") or "queue")
        asked = {"attempt": cell.line["attempt"], "by": by, "token": cell.line.get("token"), "envs": _gpus(lane)}
        if cell.line.get("spec"):
            asked["spec"] = cell.line["spec"]
        try:
            want.raise_want(cell.root, asked)
        except (OSError, Refused) as error:
            complain("%s: %s" % (cell.root.id, error))
            cell.rc = _UNUSABLE
            return
        program = os.path.join(self.base, "keepers", os.path.basename(str(spec_fields(cell.root).get("keeper"))))
        if not os.path.isfile(program):
            program = os.path.abspath(sys.argv[0])
        argv = [sys.executable, "-I", "-S", program, "supervise", "--root", cell.root.path]
        log = os.open(
            os.path.join(cell.root.logs, "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
        )
        try:
            cell.pid = start.spawn(argv, dict(os.environ), "/", (), (log, log))
            cell.is_child = True
        finally:
            os.close(log)

    def _watch(self, cell: _Cell, pid: int, started: int) -> None:
        cell.pid, cell.start, cell.is_child = pid, started, False
        cell.fd = open_pidfd(pid)
        if cell.fd >= 0:
            self.wake.watch(cell.fd)

    def _forget(self, cell: _Cell) -> None:
        if cell.fd >= 0:
            self.wake.unwatch(cell.fd)
            os.close(cell.fd)
        cell.pid, cell.fd, cell.is_child = 0, -1, False

    def _listen(self, timeout_s: float) -> None:
        came = self.wake.wait(timeout_s)
        if signal.SIGTERM in came or signal.SIGINT in came:
            self.is_told_to_end = True
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for cell in self.cells.values():
                if cell.is_child and cell.pid == pid:
                    cell.rc = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
                    self._forget(cell)

    def _has_hook(self) -> bool:
        return bool(read_fields(self.root.reboot))


def _gpus(lane: str) -> Dict[str, str]:
    """The variables that give a cell the GPUs of its slot. Numbers follow the driver's order, as in NVML."""
    if not lane:
        return {}
    named = {"CUDA_VISIBLE_DEVICES": lane}
    return named if "GPU-" in lane else dict(named, CUDA_DEVICE_ORDER="PCI_BUS_ID")


def _end_of(root: Root, attempt: int) -> Event:
    """How the cell ended, {} while it is not over or its keeper is not done with it."""
    history = History()
    try:
        with open(root.events, "rb") as f:
            for raw in f:
                event = None if b'"kind":"beat"' in raw[:200] else events.parse_line(raw)
                if event is not None:
                    history.add(event)
    except OSError:
        return {}
    is_done = history.attempt >= attempt and history.is_over and history.is_sealed
    return history.ended if is_done and read_number(root.want, "attempt") <= history.attempt else {}
