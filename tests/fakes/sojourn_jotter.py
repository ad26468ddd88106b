"""`jotter`: a small notebook service, like Kaggle's kernels. It takes and gives files, and runs no command for anybody.

`python sojourn_jotter.py FOLDER` is its server, which prints its address. Uploads go in; a pushed version of a kernel
starts in a new folder (to it /jotter/working), with the output of an earlier version and an upload in it, and runs to
its end by itself. Until then only its state is told; then its output can be listed and fetched. DELETE ends a version
from outside. `Backend` is the launcher, `Post` the mailbox.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from sojourn.core.ports import Handle, Item, SchedulerStatus
from sojourn.core.values import NoAnswer, Pulse, State
from sojourn.wire.errors import WorldError

BASE = "/jotter/working"
# $1 root, the rest is argv.
RUN = r"""
log=$1/logs/keeper.log; mkdir -p "$1/logs"; shift
"$@" </dev/null >>"$log" 2>&1 & wait $!
"""


class Post:
    """Mailbox `jotter`. [sites.NAME.jotter]: `api`."""

    calls = False

    def __init__(self, place):
        self.place = place

    def put(self, source, name, *, timeout_s=600.0):
        """An upload."""
        said = ask(self.place, "PUT", f"/uploads/{quote(name)}", Path(source).read_bytes(), timeout_s)
        return said if isinstance(said, NoAnswer) else None

    def list(self, *, timeout_s=30.0):
        """Of each kernel, the output of the newest version that has ended."""
        versions = ask(self.place, "GET", "/versions", timeout_s=timeout_s)
        if isinstance(versions, NoAnswer):
            return versions
        ended = {one["kernel"]: one["id"] for one in json.loads(versions) if one["phase"] != "running"}
        items = []
        for version in ended.values():
            listed = ask(self.place, "GET", f"/output/{version}", timeout_s=timeout_s)
            if isinstance(listed, NoAnswer):
                return listed
            items += [Item(name, size, version) for name, size in json.loads(listed)]
        self.versions = {item.name: item.version for item in items}
        return items

    def get(self, name, goal, *, offset=0, timeout_s=600.0, limit_bytes=None):
        """A file of an output."""
        where = f"/output/{self.versions.get(name, 'none')}?name={quote(name)}"
        said = ask(self.place, "GET", where, timeout_s=timeout_s)
        if isinstance(said, NoAnswer):
            return said
        with open(goal, "ab") as out:
            return out.write(said[offset:][:limit_bytes])


class Backend:
    """Launcher `jotter`."""

    survives = frozenset({"link-drop", "client-exit", "logout", "reboot"})
    schedules = True

    def __init__(self, site=None):
        """The site, for the lines of `by_hand`."""
        self.site = site

    def start(self, place, argv, root, request=None):
        """A version with all that is new, unless one runs."""
        versions = self._versions(place)
        if isinstance(versions, NoAnswer):
            return versions
        kernel = os.path.basename(root)
        mine = [one for one in versions if one["kernel"] == kernel]
        if mine and mine[-1]["phase"] == "running":
            return Handle("jotter", mine[-1]["id"], {"root": root})
        mirror = place.way
        no = mirror.mailbox.put(mirror.pack(root), f"{kernel}.tgz")
        if isinstance(no, NoAnswer):
            return no
        push = {"kernel": kernel, "upload": f"{kernel}.tgz", "input": mine[-1]["id"] if mine else ""}
        push["argv"] = ["sh", "-c", RUN, "run", *mirror.there([root], BASE), *mirror.there(argv, BASE)]
        said = ask(place, "POST", "/versions", json.dumps(push).encode())
        return said if isinstance(said, NoAnswer) else Handle("jotter", json.loads(said)["id"], {"root": root})

    def pulse(self, place, handle):
        """ALIVE while it runs."""
        return self.states(place, [handle])[0].pulse

    def stop(self, place, handle, grace_s):
        """Cancel the version; there is no grace."""
        said = ask(place, "DELETE", f"/versions/{handle.native}")
        return said if isinstance(said, NoAnswer) else None

    def states(self, place, handles):
        """One list for all; the output of one that has ended is fetched first."""
        versions = self._versions(place)
        if isinstance(versions, NoAnswer):
            return [SchedulerStatus(Pulse.UNKNOWN, reason=f"jotter was not heard: {versions.kind}") for _ in handles]
        known = {one["id"]: one for one in versions}
        is_late = hasattr(place.way, "refresh") and place.way.refresh() is not False
        return [self._state(handle.native, known.get(handle.native), is_late) for handle in handles]

    def _state(self, id, one, is_late):
        if one is None:
            return SchedulerStatus(Pulse.GONE, reason=f"jotter has no version {id}")
        if one["phase"] == "running":
            return SchedulerStatus(Pulse.ALIVE, is_blind=True, reason=f"blind: {id} shows its output when it has ended")
        state = State.KILLED if one["phase"] == "cancelled" else None
        return SchedulerStatus(Pulse.GONE, state=state, reason=f"version {id} is {one['phase']}", is_late=is_late)

    def cancel(self, place, handles):
        """Cancel them."""
        return next((no for handle in handles if (no := self.stop(place, handle, 0.0))), None)

    def records(self, place, handle, root):
        """The version as the service has it."""
        versions = self._versions(place)
        if isinstance(versions, NoAnswer):
            return {}
        return {"jotter": (0, json.dumps([one for one in versions if one["id"] == handle.native]))}

    def by_hand(self, root, native):
        """Lines for a person."""
        code = "import sys, urllib.request as u; print(u.urlopen(u.Request(*sys.argv[1:2], method=sys.argv[2])).read())"
        line, api = shlex.join([sys.executable, "-c", code]), f"{self.site.options['jotter']['api']}/versions"
        start = f"sojourn resume {shlex.quote(os.path.basename(root))}"
        return {"look": f"{line} {api} GET", "stop": f"{line} {api}/{native} DELETE", "start": start}

    def _versions(self, place):
        said = ask(place, "GET", "/versions")
        return said if isinstance(said, NoAnswer) else json.loads(said)


def ask(place, method, path, data=None, timeout_s=30.0):
    """What the service says; NoAnswer where nobody answers."""
    request = urllib.request.Request(place.site.options["jotter"]["api"] + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise WorldError(detail=f"jotter: {error.code} {error.reason}") from error
    except OSError as error:
        return NoAnswer(sent=True, kind="no-api", detail=str(error))


class Service:
    """The server's side."""

    def __init__(self, folder):
        self.folder, self.versions = Path(folder), []
        (self.folder / "uploads").mkdir(parents=True)

    def push(self, kernel, upload, input, argv):
        id = f"{kernel}-v{sum(one['kernel'] == kernel for one in self.versions) + 1}"
        working = self.folder / id
        if input:
            shutil.copytree(self.folder / input, working, symlinks=True)
        working.mkdir(exist_ok=True)
        with tarfile.open(self.folder / "uploads" / upload) as tar:
            tar.extractall(working, filter="tar")
        one = {"id": id, "kernel": kernel, "phase": "running"}
        self.versions.append(one)
        env = {"HOME": str(working), "PATH": os.environ["PATH"], "SOJOURN_SEAT": f"{id}:0"}
        env["SOJOURN_BOX_REGISTRY"] = f"{working}/registry"
        tests = {name: value for name, value in os.environ.items() if name.startswith(("SOJOURN_TEST", "OMP_"))}
        words = [word.replace(BASE, str(working)) for word in argv]
        run = subprocess.Popen(words, cwd=working, start_new_session=True, env={**env, **tests})
        threading.Thread(target=self._wait, args=(one, run), daemon=True).start()
        return one

    def _wait(self, one, run):
        rc = run.wait()
        if one["phase"] == "running":
            one["phase"] = "error" if rc else "complete"

    def cancel(self, id):
        for one in self.versions:
            if one["id"] == id and one["phase"] == "running":
                mark = f"HOME={self.folder / id}".encode()
                one["phase"] = "cancelled"
                for pid in filter(str.isdigit, os.listdir("/proc")):
                    with contextlib.suppress(OSError):
                        if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                            os.kill(int(pid), signal.SIGKILL)

    def output(self, id, name=""):
        (one,) = (one for one in self.versions if one["id"] == id and one["phase"] != "running")
        if name:
            return (self.folder / id / name).read_bytes()
        files = [path for path in (self.folder / id / "runs").rglob("*") if path.is_file() and not path.is_symlink()]
        return [[str(path.relative_to(self.folder / id)), path.stat().st_size] for path in files]


def serve(folder):
    """Say the address and answer for ever."""
    service = Service(folder)

    class Door(BaseHTTPRequestHandler):
        def answer(self):
            at = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            _, what, *rest = at.path.split("/")
            status, value = 200, {}
            try:
                if self.command == "PUT":
                    (service.folder / "uploads" / rest[0]).write_bytes(body)
                elif what == "output":
                    value = service.output(rest[0], **dict(parse_qsl(at.query)))
                elif self.command == "POST":
                    value = service.push(**json.loads(body))
                elif self.command == "DELETE":
                    service.cancel(rest[0])
                else:
                    value = service.versions
            except (OSError, ValueError):
                status = 404
            self.send_response(status)
            self.end_headers()
            self.wfile.write(value if isinstance(value, bytes) else json.dumps(value).encode())

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])
