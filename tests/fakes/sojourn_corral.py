"""`corral`: a small job cluster. It has an API and a volume, and no machine with a shell.

`python sojourn_corral.py FOLDER` is its server, which prints its address. A job has one pod: a process group with a
folder of its own as HOME, which sees the volume FOLDER/volume. Jobs are created, listed and deleted; their names stay.
`Backend` is the launcher, `Line` the transport: each call is a short pod of its own on the volume. DELETE with `lose=1`
is no user's: the pod's machine breaks.
"""

import base64
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from sojourn.backends.transport import local
from sojourn.core.ports import Handle, SchedulerStatus
from sojourn.core.values import Ended, NoAnswer, Pulse, State
from sojourn.wire.errors import WorldError

# What a pod does: $1 root, the rest is argv. It outlives a signal to all, to see the keeper end.
POD = r"""
trap : TERM INT
log=$1/logs/keeper.log; mkdir -p "$1/logs"; shift
"$@" </dev/null >>"$log" 2>&1 & pid=$!
wait $pid; rc=$?
while kill -0 $pid 2>/dev/null; do wait $pid; rc=$?; done
exit $rc
"""


class Backend:
    """Launcher `corral`. [sites.NAME.corral]: `api`."""

    survives = frozenset({"link-drop", "client-exit", "logout", "reboot"})
    schedules = True

    def __init__(self, site=None):
        """The site, for the lines of `by_hand`."""
        self.site = site

    def start(self, place, argv, root, request=None):
        """A job, unless one of this root waits or runs."""
        jobs = ask(place, "GET", "/jobs")
        if isinstance(jobs, NoAnswer):
            return jobs
        mine = [job for job in jobs if job["root"] == root]
        for job in mine:
            if job["phase"] in ("pending", "running"):
                return Handle("corral", job["name"], {"root": root})
        name = f"{os.path.basename(root)}-{len(mine) + 1}"
        made = ask(place, "POST", "/jobs", {"name": name, "root": root, "argv": ["sh", "-c", POD, "pod", root, *argv]})
        return made if isinstance(made, NoAnswer) else Handle("corral", name, {"root": root})

    def pulse(self, place, handle):
        """ALIVE while it waits or runs."""
        return self.states(place, [handle])[0].pulse

    def stop(self, place, handle, grace_s):
        """Delete the job."""
        said = ask(place, "DELETE", f"/jobs/{handle.native}?grace={grace_s}", timeout_s=grace_s + 30)
        return said if isinstance(said, NoAnswer) else None

    def states(self, place, handles):
        """One list for all."""
        jobs = ask(place, "GET", "/jobs")
        if isinstance(jobs, NoAnswer):
            return [SchedulerStatus(Pulse.UNKNOWN, reason=f"corral was not heard: {jobs.kind}") for _ in handles]
        known = {job["name"]: job for job in jobs}
        return [self._state(handle.native, known.get(handle.native)) for handle in handles]

    def _state(self, name, job):
        if job is None:
            return SchedulerStatus(Pulse.GONE, reason=f"corral has no job {name}")
        if job["phase"] in ("pending", "running"):
            waits = job["phase"] == "pending"
            return SchedulerStatus(Pulse.ALIVE, is_waiting=waits, reason=f"job {name} waits for a pod" if waits else "")
        state = {"lost": State.LOST, "deleted": State.KILLED}.get(job["phase"])
        return SchedulerStatus(Pulse.GONE, state=state, reason=f"job {name} is {job['phase']}")

    def cancel(self, place, handles):
        """Delete them."""
        return next((no for handle in handles if (no := self.stop(place, handle, 2.0))), None)

    def records(self, place, handle, root):
        """The job as the cluster has it."""
        jobs = ask(place, "GET", "/jobs")
        if isinstance(jobs, NoAnswer):
            return {}
        return {"corral": (0, json.dumps([job for job in jobs if job["name"] == handle.native]))}

    def by_hand(self, root, native):
        """Lines for whoever has this file."""
        code = "import sys, urllib.request as u; print(u.urlopen(u.Request(*sys.argv[1:2], method=sys.argv[2])).read())"
        line, jobs = shlex.join([sys.executable, "-c", code]), f"{self.site.options['corral']['api']}/jobs"
        return {
            "look": f"{line} {jobs} GET",
            "stop": f"{line} {jobs}/{native} DELETE",
            "start": f"sojourn resume {shlex.quote(os.path.basename(root))}",
        }


class Line:
    """Transport `corral`."""

    def __init__(self, place):
        self.place = place

    def call(self, argv, *, stdin=b"", timeout_s=30.0, limit_bytes=16 << 20):
        """A pod for it alone."""
        body = {"argv": list(argv), "stdin": _text(stdin), "timeout_s": timeout_s, "limit_bytes": limit_bytes}
        said = ask(self.place, "POST", "/exec", body, timeout_s=timeout_s + 5)
        if isinstance(said, NoAnswer) or "no" in said:
            return said if isinstance(said, NoAnswer) else NoAnswer(**said["no"])
        return Ended(said["rc"], _data(said["out"]), _data(said["err"]), truncated=said["truncated"])

    def put(self, source, remote, *, timeout_s=600.0):
        """Through a pod's standard input."""
        line = 'mkdir -p "${1%/*}" && cat >"$1.$$" && mv "$1.$$" "$1"'
        ended = self.call(["sh", "-c", line, "put", remote], stdin=Path(source).read_bytes(), timeout_s=timeout_s)
        return None if self._went_well(ended) else ended

    def get(self, remote, goal, *, offset=0, timeout_s=600.0, limit_bytes=None):
        """From a pod's standard output."""
        most = 1 << 30 if limit_bytes is None else limit_bytes
        line = 'test -f "$1" && tail -c +"$2" "$1" | head -c "$3"'
        argv = ["sh", "-c", line, "get", remote, str(offset + 1), str(most)]
        ended = self.call(argv, timeout_s=timeout_s, limit_bytes=most)
        if not self._went_well(ended):
            return ended
        with open(goal, "ab") as out:
            return out.write(ended.stdout)

    def _went_well(self, ended):
        if isinstance(ended, Ended) and ended.rc:
            raise WorldError(detail=ended.stderr.decode().strip() or "there is no such file")
        return isinstance(ended, Ended)


def ask(place, method, path, body=None, timeout_s=30.0):
    """What the API says; NoAnswer where nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(place.site.options["corral"]["api"] + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise WorldError(detail=f"corral: {error.code} {error.reason}") from error
    except OSError as error:
        return NoAnswer(sent=True, kind="no-api", detail=str(error))


def _text(data):
    return base64.b64encode(data).decode()


def _data(text):
    return base64.b64decode(text)


class Cluster:
    """The server's side."""

    def __init__(self, folder):
        self.folder, self.jobs, self.lock = Path(folder), {}, threading.Lock()
        (self.folder / "volume").mkdir(parents=True, exist_ok=True)

    def env(self, home, **more):
        home.mkdir(parents=True, exist_ok=True)
        registry = str(self.folder / "volume/registry")
        tests = {name: value for name, value in os.environ.items() if name.startswith(("SOJOURN_TEST", "OMP_"))}
        return {"HOME": str(home), "PATH": os.environ["PATH"], "SOJOURN_BOX_REGISTRY": registry, **tests, **more}

    def create(self, name, root, argv):
        with self.lock:
            if name in self.jobs:
                return 409, {"message": f"the job {name} exists"}
            env = self.env(self.folder / "pods" / name, SOJOURN_SEAT=f"{name}:0")
            job = self.jobs[name] = {"name": name, "root": root, "phase": "running"}
            pod = subprocess.Popen(argv, env=env, cwd=env["HOME"], start_new_session=True)
        threading.Thread(target=self._wait, args=(job, pod), daemon=True).start()
        return 201, job

    def _wait(self, job, pod):
        job["rc"] = pod.wait()
        if job["phase"] == "running":
            job["phase"] = "failed" if job["rc"] else "succeeded"

    def delete(self, name, grace="2", lose=""):
        job = self.jobs.get(name)
        if job is not None and job["phase"] == "running":
            deadline = time.monotonic() + float(grace)
            if not lose:
                self._signal(name, signal.SIGTERM)
            while not lose and time.monotonic() < deadline and job["phase"] == "running":
                time.sleep(0.05)
            if job["phase"] == "running":
                job["phase"] = "lost" if lose else "deleted"
            self._signal(name, signal.SIGKILL)
        return 200, {}

    def _signal(self, name, number):
        """To all of the pod, whatever sessions they made."""
        mark = f"HOME={self.folder / 'pods' / name}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                    os.kill(int(pid), number)

    def exec(self, argv, stdin, **how):
        env = [f"{name}={value}" for name, value in self.env(self.folder / "pods/reader").items()]
        said = local.Backend().call(["env", "-i", *env, *argv], stdin=_data(stdin), **how)
        if isinstance(said, NoAnswer):
            return 200, {"no": {"sent": said.sent, "kind": said.kind, "detail": said.detail}}
        out, err = _text(said.stdout), _text(said.stderr)
        return 200, {"rc": said.rc, "out": out, "err": err, "truncated": said.truncated}


def serve(folder):
    """Say the address and answer for ever."""
    cluster = Cluster(folder)

    class Door(BaseHTTPRequestHandler):
        def answer(self):
            at = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            what = (self.command, at.path.split("/")[1])
            if what == ("GET", "jobs"):
                status, value = 200, list(cluster.jobs.values())
            elif what == ("POST", "jobs"):
                status, value = cluster.create(**body)
            elif what == ("DELETE", "jobs"):
                status, value = cluster.delete(at.path.split("/")[2], **dict(parse_qsl(at.query)))
            else:
                status, value = cluster.exec(**body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])
