"""A real Slurm cluster as a Python value: the script `slurm`, its nodes' faults, and what Slurm says of jobs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.lab import lab as laboratory

NEEDS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    "sshd": "openssh-server",
}
PATIENCE_S = 200.0


def missing() -> str:
    """Why there can be no cluster here, or nothing."""
    if os.geteuid() != 0:
        return "the laboratory needs root"
    places = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = sorted(package for command, package in NEEDS.items() if not shutil.which(command, path=places))
    return "missing Debian packages: " + " ".join(absent) if absent else ""


@dataclass(frozen=True)
class Cluster:
    """Three nodes with 2 CPUs, 2000 MB and 2 stand-in GPUs each; partitions main, spot, grace and short.

    Slurm does a few things at times of its own: `begin_now`, `limit_now` and `fail` have it do them now, itself.
    """

    folder: Path

    @property
    def nodes(self) -> list[str]:
        """Their names, which are also their host names."""
        return sorted(set(self.sh("sinfo -h -N -o %N").split()))

    @property
    def conf(self) -> str:
        """SLURM_CONF of a client."""
        return str(self.folder / "etc" / "slurm.conf")

    @property
    def conf_without_accounting(self) -> str:
        """SLURM_CONF of a client that meets no accounting."""
        return str(self.folder / "etc" / "no-accounting.conf")

    @property
    def ssh_config(self) -> str:
        """Has the alias `login`: a login node of the cluster."""
        return str(self.folder / "ssh" / "config")

    def sh(self, line: str) -> str:
        """Run a shell line as on a login node; what it printed. Raises: CalledProcessError."""
        env = {**os.environ, "SLURM_CONF": self.conf}
        done = subprocess.run(["sh", "-ec", line], env=env, capture_output=True, text=True, timeout=120)
        if done.returncode:
            error = subprocess.CalledProcessError(done.returncode, line, done.stdout, done.stderr)
            error.add_note(done.stderr)
            raise error
        return done.stdout

    def state(self, job: str) -> str:
        """Slurm's word for where a job stands."""
        return self.sh(f"squeue -h -t all -j {job} -o %T || true").strip()

    def begin_now(self, job: str) -> None:
        """Have a job that was put back begin, which Slurm holds for the life of a credential: two minutes."""
        until(lambda: self.state(job) == "RUNNING" or self.hurry(job), lambda: self.sh("squeue -a -t all"))

    def hurry(self, job: str) -> bool:
        """`begin_now`, as far as Slurm takes that now. What begins in the second in which its last start was given up
        is refused by its node as that one (its credential was revoked), and fails."""
        return self._done(f"scontrol update job={job} starttime=now+2")

    def limit_now(self, job: str, in_s: int = 2) -> None:
        """Let the time of a running job be over in so many seconds. Slurm looks every 30 s; what comes then is real."""
        until(lambda: self._done(f"scontrol update job={job} endtime=$(date -d '+{in_s} sec' +%FT%T)"))

    def fail(self, node: str) -> None:
        """Have Slurm take a node for failed, as it does of itself when `slurmd` was silent for SlurmdTimeout."""
        self.sh(f"scontrol update nodename={node} state=down reason=test")

    def mend(self) -> None:
        """Every node takes jobs again, whatever Slurm held against it."""
        for node in set(self.sh("sinfo -h -N -t down,drain,fail -o %N").split()):
            self._done(f"scontrol update nodename={node} state=resume")

    def is_cleared(self) -> bool:
        """Cancel what is there; whether nothing is any more."""
        self.mend()
        if not self.sh("squeue -h -o %i").strip():
            return True
        self._done("scancel -u root --full")
        self._done("scancel -u root")
        return False

    def _done(self, line: str) -> bool:
        try:
            self.sh(line)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False
        return True

    def has_cgroups(self) -> bool:
        """Memory is watched by control groups; else Slurm itself looks and kills."""
        return "proctrack/cgroup" in Path(self.conf).read_text()


def slurm(*words: str) -> str:
    """Run the script `slurm`; what it printed. Raises: CalledProcessError, TimeoutExpired."""
    env = {**os.environ, "LAB": str(laboratory.FOLDER)}
    argv = [str(laboratory.HERE / "slurm"), *words]
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, ["slurm", *words], done.stdout, done.stderr)
    return done.stdout


def until(holds: Callable[[], object], said: Callable[[], object] = lambda: "", within_s: float = PATIENCE_S) -> None:
    """Look again and again until it holds. Raises: AssertionError."""
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, said()
        time.sleep(0.2)
