"""The real command line, which ends itself by SIGKILL at its CRASH_AT-th journal record, CRASH_WHEN = before, within,
after. Within: the first half of the record is in the file.
"""

import os
import signal
import sys

from sojourn.store import journal

wanted, when, count = int(os.environ["CRASH_AT"]), os.environ["CRASH_WHEN"], 0
real, really_write = journal.Journal.append, journal._write


def append(self, kind, **fields):
    global count
    count += 1
    if count == wanted and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    record = real(self, kind, **fields)
    if count == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    return record


def write(fd, data):
    if count == wanted and when == "within":
        really_write(fd, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    really_write(fd, data)


journal.Journal.append, journal._write = append, write
from sojourn.cli.main import main  # noqa: E402

sys.exit(main())
