"""The real command line, which ends itself by SIGKILL at its CRASH_AT-th journal record, CRASH_WHEN = before, after."""

import os
import signal
import sys

from sojourn.store.journal import Journal

wanted, when, count = int(os.environ["CRASH_AT"]), os.environ["CRASH_WHEN"], 0
real = Journal.append


def append(self, kind, **fields):
    global count
    count += 1
    if count == wanted and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    record = real(self, kind, **fields)
    if count == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    return record


Journal.append = append
from sojourn.cli.main import main  # noqa: E402

sys.exit(main())
