"""The whole chain on this machine, shown: train digits, kill everything half way, go on, bring it home, let go.

    python examples/demo.py [--epochs N]        needs `sojourn`, numpy and scikit-learn on PATH's first python

Takes about a minute. Everything it makes lies in one new temporary folder, named at the start; records and settings of
yours are not touched. Ends with 1 where a promise was not kept.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent / "digits"
BIN = Path(sys.executable).parent


class Demo:
    """One showing, below `place`."""

    def __init__(self, place, epochs):
        self.place, self.project, self.epochs = place, place / "digits", epochs
        self.root = place / "data/sojourn/runs/digits"
        shutil.copytree(EXAMPLE, self.project)
        job = self.project / "sojourn.yaml"
        job.write_text(job.read_text().replace("--epochs 60", "--epochs %d" % epochs))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("SOJOURN_")}
        self.env.update(PATH="%s:%s" % (BIN, os.environ["PATH"]), COLUMNS="80")
        for name in ("CONFIG", "STATE", "DATA", "CACHE"):
            self.env["XDG_%s_HOME" % name] = str(place / name.lower())
        self.yardstick = None

    def sojourn(self, *args, want=0):
        """Run one command as a person would; what it prints is shown as it is."""
        print("\n%s" % bold("$ sojourn " + " ".join(args)), flush=True)
        rc = subprocess.run(["sojourn", *args], cwd=self.project, env=self.env, stderr=subprocess.STDOUT).returncode
        promise(rc == want, "`sojourn %s` ended with %d, not %d" % (" ".join(args), rc, want))

    def start_yardstick(self):
        """The same training in another folder, left alone, with nothing of sojourn around it but its library."""
        folder = self.place / "yardstick"
        folder.mkdir()
        env = dict(self.env, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        argv = ["python", str(EXAMPLE / "train.py"), "--epochs", str(self.epochs)]
        with open(folder / "log", "wb") as log:
            self.yardstick = subprocess.Popen(argv, cwd=folder, env=env, stdout=log, stderr=log)

    def events(self, kind):
        """What the keeper wrote down of one kind."""
        events = [json.loads(line) for line in (self.root / "events.jsonl").read_text().splitlines()]
        return [event for event in events if event["kind"] == kind]

    def training(self):
        """Process id of the training of the latest attempt."""
        return self.events("started")[-1]["pid"]

    def keeper(self):
        """Process id of the keeper."""
        return json.loads((self.root / "keeper.json").read_text())["pid"]

    def step(self):
        """(step, total) as the training itself reports it."""
        attempt = self.events("started")[-1]["attempt"]
        try:
            progress = json.loads((self.root / ("progress/%d.json" % attempt)).read_text())
        except FileNotFoundError:
            return 0, 1
        return progress["step"], progress["total"]

    def train_until(self, share):
        """Wait until so much of the training is done, and a checkpoint is there."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            step, total = self.step()
            if step >= share * total and any((self.root / "checkpoints").glob("ckpt-*.pt")):
                return
            time.sleep(0.1)
        promise(False, "the training did not come to %d %% within two minutes" % (100 * share))

    def goes_on(self, attempt):
        """Wait for the first line of the attempt's log, which says where it goes on from."""
        log, deadline = self.root / ("logs/%d.log" % attempt), time.monotonic() + 30
        while not (log.exists() and b"\n" in log.read_bytes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        first = log.read_text().partition("\n")[0]
        promise("resumes from ckpt-" in first, "attempt %d began with: %s" % (attempt, first))
        print("\nits log begins\n%s" % textwrap.fill(first, 80), flush=True)

    def kill(self, **victims):
        """SIGKILL, as the kernel, a spot market or a power switch would."""
        step, total = self.step()
        print("\n%s" % bold("$ kill -9 %s" % " ".join(map(str, victims.values()))))
        print(
            "%s, last seen at step %d of %d" % (" and ".join("the " + name for name in victims), step, total),
            flush=True,
        )
        for pid in victims.values():
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(is_alive(pid) for pid in victims.values()) and time.monotonic() < deadline:
            time.sleep(0.02)

    def show(self):
        """The demonstration."""
        say("The same training, left alone, runs beside all this: the yardstick.")
        self.start_yardstick()

        act("1  Launch", "`run` pushes the code, starts it detached, and is back when it is proven alive.")
        self.sojourn("run")
        first = self.training()

        act("2  The keeper is killed", "It only watches. The training must live on, and must not be started twice.")
        self.train_until(0.12)
        self.kill(keeper=self.keeper())
        self.sojourn("run")
        promise(is_alive(first) and len(self.events("started")) == 1, "a second training was started")
        say("The identical command gave it a new keeper. Still one training, process %d." % first)

        act("3  The training is killed", "The identical command resumes from the latest checkpoint.")
        self.train_until(0.3)
        self.kill(training=first)
        self.sojourn("run")
        self.goes_on(attempt=2)

        act("4  Both at once", "The keeper and the training in one blow.")
        self.train_until(0.5)
        self.kill(keeper=self.keeper(), training=self.training())
        self.sojourn("run")
        self.goes_on(attempt=3)
        self.sojourn("watch", "digits", want=110)

        act("5  Nothing is let go that is not home", "So this must be refused.")
        self.sojourn("down", "digits", want=4)

        act("6  Home", "Every file is hashed on both sides, and loaded here. Only what loads counts.")
        self.sojourn("pull", "digits")
        home = self.receipts()

        act("7  Three kills later, the same bytes?", "Against the yardstick that nobody touched.")
        self.compare(home)

        act("8  Let go", "Now the law has nothing against it. The exact name is the confirmation.")
        self.sojourn("down", "digits", "--confirm", "local")
        return home

    def receipts(self):
        """What was loaded and what it held, from the receipts of the pull; the folder it lies in."""
        argv = ["sojourn", "pull", "digits", "--json"]
        said = json.loads(subprocess.run(argv, cwd=self.project, env=self.env, stdout=subprocess.PIPE).stdout)
        print("\nreceipts  %-20s %10s  %-10s %s" % ("file", "bytes", "loader", "sha256"))
        for row in said["artifacts"]:
            promise("load" in row["proved"], row["path"] + " was not loaded")
            print("          %-20s %10d  %-10s %s" % (row["path"], row["bytes"], row["kind"], row["sha256"][:16]))
        return Path(said["home"])

    def compare(self, home):
        """The final weights of the run and of the yardstick, byte for byte."""
        promise(self.yardstick.wait(timeout=120) == 0, "the yardstick failed; see %s/yardstick/log" % self.place)
        print()
        sums = []
        for name, path in (("killed three times", home), ("never touched", self.place / "yardstick")):
            data = (path / "final.npz").read_bytes()
            sums.append(hashlib.sha256(data).hexdigest())
            accuracy = json.loads((path / "metrics.json").read_text())["test_accuracy"]
            print("%-19s test accuracy %.4f  sha256 %s" % (name, accuracy, sums[-1][:24]))
        promise(sums[0] == sums[1], "the final weights differ")
        say("Equal, bit for bit.")

    def clear(self):
        """End what is still running, should anything have gone wrong."""
        if self.yardstick is not None and self.yardstick.poll() is None:
            self.yardstick.kill()
            self.yardstick.wait()
        try:
            pids = [self.training(), self.keeper()]
        except (OSError, IndexError, ValueError):
            return
        for pid in pids:
            if is_alive(pid) and str(self.place).encode() in Path("/proc/%d/environ" % pid).read_bytes():
                os.kill(pid, signal.SIGKILL)


class NotAsPromised(Exception):
    """A promise that was not kept."""


def promise(is_kept, otherwise):
    if not is_kept:
        raise NotAsPromised(otherwise)


def is_alive(pid):
    """A zombie is not."""
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def bold(text):
    return "\033[1m%s\033[0m" % text if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def act(title, why):
    print("\n\n%s" % bold(title))
    say(why)


def say(text):
    print(textwrap.fill(text, 79), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60, help="length of the training (default: 60, about 20 s)")
    args = parser.parse_args()
    began = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="sojourn-demo-"))
    print(bold("Handwritten digits, trained on this machine, and killed"))
    say("Everything lies in %s; nothing else is touched." % place)
    demo = Demo(place, args.epochs)
    try:
        home = demo.show()
    except KeyboardInterrupt:
        print("\ninterrupted; everything lies in %s" % place, flush=True)
        return 130
    except NotAsPromised as e:
        print("\nNOT AS PROMISED: %s\neverything lies in %s" % (e, place), flush=True)
        return 1
    finally:
        demo.clear()
    print("\n\n%s" % bold("Done in %.0f s" % (time.monotonic() - began)))
    print("results  %s" % home)
    print("all      %s  (remove it when you have seen it)" % place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
