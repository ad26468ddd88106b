"""A keeper's part when the user wants a run to outlive a restart of the machine: it continues, and tidies up.

`reboot.json` requests it: {"hook","remove"}, put there by a client together with the hook itself (a crontab line or a
unit), which starts this very keeper after the next boot. `remove`: the argv that removes the hook.
"""

from __future__ import annotations

import fcntl
import os

from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root, read_fields
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.system import machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_REMOVE_S = 30.0


def goes_on(keeper: Keeper) -> bool:
    """Whether the last attempt ended with an earlier boot, and the run should continue by itself.

    At most once per boot: the next attempt starts in this one.
    """
    history = keeper.ledger.history
    if history.state not in ("lost", "preempted") or not read_fields(keeper.root.reboot):
        return False
    begun = history.begun
    if not begun.get("boot_id") or begun.get("host") != machine.host():
        return False
    return (begun.get("boot_id"), begun.get("pid1_start")) != (machine.boot_id(), machine.pid1_start())


def unhook(root: Root, is_wanted: Callable[[], Any]) -> None:
    """Remove the hook if nothing more is wanted of this root.

    New requests are made under the same lock, and install the hook afterwards.
    """
    argv = read_fields(root.reboot).get("remove")
    if not isinstance(argv, list) or not argv:
        return
    import subprocess  # 1 MiB that a resting keeper does not need

    folder = os.open(root.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not is_wanted():
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=_REMOVE_S)
            if done.returncode:
                complain("the reboot hook could not be removed: exit status %d" % done.returncode)
    except (OSError, subprocess.TimeoutExpired) as error:
        complain("the reboot hook could not be removed: %s" % error)
    finally:
        os.close(folder)
