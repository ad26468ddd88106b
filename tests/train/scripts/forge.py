"""Starts trainings as children of a process that has imported the slow libraries already, so that a hundred starts
cost seconds: each is a process of its own, killed by real signals.

    forge.py MODULE ...     then on stdin, one JSON document a line: {"argv": [script, ...], "said": [path, ...],
                            "env": {...}}; with several paths as many processes, with RANK and WORLD_SIZE, in one $STORE
                            and on stdout two JSON lines for each: their pids, and when all have ended their wait
                            statuses. When one dies of a signal the others get SIGTERM, and SIGKILL when they do not
                            end by it, as from torchrun; what a training leaves behind is ended.
"""

import atexit
import importlib
import json
import os
import runpy
import signal
import sys
import time
import traceback

for name in sys.argv[1:]:
    importlib.import_module(name)


def train(argv, said):
    os.setsid()
    fd = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = argv
    code = 0
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except Exception:  # noqa: BLE001 as Python itself does at the top
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end(kill, pid, number):
    try:
        kill(pid, number)
    except ProcessLookupError:
        pass


for line in sys.stdin:
    job = json.loads(line)
    pids, status = [], {}
    for rank, said in enumerate(job["said"]):
        pid = os.fork()
        if pid == 0:
            os.environ.update(job["env"])
            if len(job["said"]) > 1:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(len(job["said"])))
            train(job["argv"], said)
        pids.append(pid)
    print(json.dumps(pids), flush=True)
    deadline = None
    while len(status) < len(pids):
        pid, word = os.waitpid(-1, os.WNOHANG)
        left = [other for other in pids if other not in status and other != pid]
        if pid:
            status[pid] = word
            end(os.killpg, pid, signal.SIGKILL)  # workers of its loader may live on for ever
        elif deadline and time.monotonic() > deadline:
            for other in left:
                end(os.kill, other, signal.SIGKILL)
        else:
            time.sleep(0.002)
        if pid and word & 0x7F and not deadline:
            deadline = time.monotonic() + 20.0
            for other in left:
                end(os.kill, other, signal.SIGTERM)
    print(json.dumps([status[pid] for pid in pids]), flush=True)
os._exit(0)  # these libraries take seconds to say goodbye
