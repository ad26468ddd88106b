"""Starts trainings as children of a process that has imported the heavy libraries already, so that a hundred starts cost
seconds: each is a process of its own, killed by real signals.

    forge.py MODULE ...     then on stdin, one JSON document a line: {"argv": [script, ...], "said": path}
                            and on stdout two lines for each: its pid, and when it has ended its wait status
"""

import atexit
import importlib
import json
import os
import runpy
import sys
import traceback

for name in sys.argv[1:]:
    importlib.import_module(name)


def train(argv, said):
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
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        train(**job)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
