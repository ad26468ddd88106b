"""From a job file to what `run` and `plan` both start from: the code as a snapshot, run.json, the identity."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sojourn.core import money
from sojourn.core.need import Need
from sojourn.core.values import Site
from sojourn.store.catalog import environment
from sojourn.store.job.read import check_name, find_job, read_command, read_job
from sojourn.store.job.scalars import option_words
from sojourn.store.job.values import JobFile
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.decide import IDENTITY
from sojourn.verbs.launch.exempt import only_code
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.project.foresight import proposed
from sojourn.wire import names, quote, units
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot
    from sojourn.wire.documents import FileRow, Spec

GRACE_S = 30.0
BEAT_S = 5.0


class NotYet(Misuse):
    """{path}: {what}."""

    code = "not-yet"
    next_step = "{following}"


@dataclass(frozen=True)
class Prepared:
    """A job as it would be asked for now. `trees`: (what it is, snapshot), the code first. `spec`: most of run.json.

    `given`: FILE and --env, as words, for a command that means the same job.
    """

    id: str
    job: JobFile
    trees: tuple[tuple[str, Snapshot], ...]
    spec: Spec
    given: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Digest of all that makes two runs the same work."""
        return str(self.spec["identity"])

    @property
    def pushed(self) -> set[str]:
        """Paths of the files of the code."""
        return {row["path"] for row in self.trees[0][1].rows}

    @property
    def need(self) -> Need:
        """What the box must have."""
        return self.job.need

    def local(self) -> dict[str, Any]:
        """What concerns this machine alone, for the journal."""
        return {**local_of(self.job), **({"is_command": True} if "--" in self.given else {})}

    def for_site(self, site: Site, *, keeper: str, train: str, now_s: float) -> Spec:
        """run.json as it will be placed on the box of `site`. Raises: Misuse (a budget in another currency)."""
        return {**self.spec, **on_site(self.job, site, keeper=keeper, train=train, now_s=now_s)}


def local_of(job: JobFile) -> dict[str, Any]:
    """What of a job concerns this machine alone, for the journal."""
    return {
        "notify": list(job.notify),
        "hooks": dict(job.hooks),
        "budget": list(job.budget) if job.budget else None,
        "rules": [vars(rule) for rule in job.rules],
    }


def on_site(job: JobFile, site: Site, *, keeper: str, train: str, now_s: float) -> Spec:
    """What run.json holds of the site that it is for. Raises: Misuse (a budget in another currency)."""
    wanted = platform_env(site)
    return {
        "init": site.init,
        **({"platform_env": wanted} if wanted else {}),
        "budget_s": _budget_s(job, site),
        "keeper": keeper,
        "train": train,
        "planned": units.stamp(now_s),
        "client": socket.gethostname(),
    }


def platform_env(site: Site) -> dict[str, Any]:
    """What the site's platform wants of every run: `store.catalog.environment`, unless its settings say no."""
    return dict(environment(site.platform)) if site.options.get("platform_env", True) else {}


def prepare(ctx: Context, asked: RunRequest) -> Prepared:
    """Read the job file and the code as they are now. Reads every file of the working folder; writes nothing.

    With `new`, under the first name of NAME, NAME-2, NAME-3 ... that is free, or is that of this very job. Where it
    runs is not decided here: `site`, `another`, `yes` and `waits` are not read.
    Raises: Misuse (no-job-file, bad-job-file, a name, a sweep, a tree that cannot be a snapshot).
    """
    file, command, env = asked.file, asked.command, asked.env
    if command and file:
        raise Misuse(detail=f"{file} and a command after --: give only one of them")
    job = proposed(read_command(command, env)) if command else read_job(file or find_job(), env)
    if job.sweep is not None:
        following = quote.join(["sojourn", "sweep", *([file] if file else [])])
        what = "it has a sweep, but `run` runs a single job"
        raise NotYet(path=job.path, what=what, following=following, has_sweep=True)
    tree = read_trees(ctx, job)
    run = check_name(asked.name) if asked.name else job.name
    scheduling = {**job.scheduling, **asked.scheduling}
    job = replace(job, name=run, scheduling=scheduling, warnings=(*job.warnings, *tree.remarks))
    if asked.new:
        job = next(one for one in _numbered(job) if _is_free(ctx, spec_of(one, tree)))
    given = [*([file] if file else []), *(word for key, value in env.items() for word in ("--env", f"{key}={value}"))]
    given += option_words(asked.scheduling)
    given += ["--", *command] if command else []
    return Prepared(job.name, job, tree.trees, spec_of(job, tree), tuple(given))


def _numbered(job: JobFile) -> Iterator[JobFile]:
    yield job
    for number in itertools.count(2):
        yield replace(job, name=f"{job.name[:58]}-{number}")


def _is_free(ctx: Context, spec: Spec) -> bool:
    """Whether nothing has this name but, perhaps, this very job."""
    known = ctx.store.index.run(spec["name"])
    if known is None:
        return spec["name"] not in ctx.store.index.sweeps()
    return known.run.spec.get("identity") == spec["identity"]


@dataclass(frozen=True)
class Trees:
    """The code and the mounts of a job, as they are now. `trees`: (what it is, snapshot), the code first."""

    trees: tuple[tuple[str, Snapshot], ...]
    mounts: Mapping[str, str]
    setups: dict[str, str] = field(default_factory=dict, compare=False)  # text of a setup -> its digest

    @property
    def code(self) -> Snapshot:
        """The snapshot of the working folder."""
        return self.trees[0][1]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know of them."""
        return tuple(remark for _, tree in self.trees for remark in tree.remarks)


def refuse_there(job: JobFile, box: Box) -> None:
    """Return where this kind of site can run such a job. Raises: NotYet."""
    name = box.site.name
    if job.num_nodes > 1 and not getattr(box.launcher, "spans", False):
        what = f"it asks for {job.num_nodes} nodes, and {name} has one"
        raise NotYet(path=job.path, what=what, following="num_nodes: 1, or a site whose scheduler allocates nodes")
    if job.after and not box.scheduler:
        what = f"it should start `after` {', '.join(job.after)}, and nothing on {name} could wait for that"
        raise NotYet(path=job.path, what=what, following=f"sojourn watch {job.after[0]} && sojourn run")
    if job.secrets and box.is_blind:
        what = f"it names `secrets`, and {name} takes files alone: their values would be stored there with the code"
        raise NotYet(
            path=job.path, what=what, following=f"keep them in the secrets of {name} itself, and read them there"
        )


def read_trees(ctx: Context, job: JobFile) -> Trees:
    """Read the working folder and what is mounted. Raises: Misuse (a tree that cannot be a snapshot)."""
    from sojourn.store import snapshot

    ctx.say(f"reading {job.workdir}")
    code = only_code(ctx, job, snapshot.take_snapshot(job.workdir))
    trees, mounts = [("code", code)], {}
    for mount in job.file_mounts:
        ctx.say(f"reading {mount.source}")
        tree = snapshot.take_snapshot(mount.source, everything=True)
        trees.append((mount.target, tree))
        mounts[mount.target] = (
            posixpath.join(tree.digest, os.path.basename(mount.source)) if tree.is_file else tree.digest
        )
    return Trees(tuple(trees), mounts)


def spec_of(job: JobFile, tree: Trees) -> Spec:
    """Most of run.json of a job: all that its identity covers, and its limits."""
    if job.setup not in tree.setups:
        tree.setups[job.setup] = setup_digest(job.setup, tree.code.rows)
    spec: Spec = {
        "schema": "sojourn/run/v1",
        "run": job.name,
        "name": job.name,
        "argv": ["bash", "-eo", "pipefail", "-c", job.run],
        "setup": job.setup,
        "setup_digest": tree.setups[job.setup],
        "envs": dict(job.envs),
        "secrets": sorted(job.secrets),
        "outputs": list(job.outputs),
        "scratch": list(job.scratch),
        "code": tree.code.digest,
        "mounts": dict(tree.mounts),
        "num_nodes": job.num_nodes,
        "resources": job.need.as_plain(),
        "retry": {"attempts": job.retry.attempts, "on": list(job.retry.on)},
        "stall_after_s": job.stall_after_s,
        "max_duration_s": job.max_duration_s,
        **({"after": list(job.after)} if job.after else {}),
        **({"persist": list(job.persist)} if job.persist else {}),
        **({"progress": job.progress} if job.progress else {}),
        **({"protect": job.protect} if job.protect else {}),
        **({"resume_argv": ["bash", "-eo", "pipefail", "-c", job.resume]} if job.resume else {}),
        **({"signal": job.signal} if job.signal else {}),
        **({"scheduling": dict(job.scheduling)} if job.scheduling else {}),
        **({"site_options": dict(job.site_options)} if job.site_options else {}),
        "grace_s": GRACE_S,
        "beat_s": BEAT_S,
    }
    if job.rules:
        spec["rules"] = [vars(rule) for rule in job.rules]
    spec["identity"] = names.digest({key: value for key, value in spec.items() if key in IDENTITY})
    return spec


def setup_digest(setup: str, rows: Sequence[FileRow]) -> str:
    """Names the environment that `setup` makes: its text, and the files of the code that it names; "" without setup.

    A word of the text that is a folder of the code (also `.`) names every file below it.
    """
    if not setup:
        return ""
    words = {posixpath.normpath(word) for word in re.split(r"""[\s"'=;&|()<>,]+""", setup) if word}
    named = [[row["path"], row["sha256"]] for row in rows if words & _above(row["path"])]
    return names.digest([setup, sorted(named)])


def _above(path: str) -> set[str]:
    """The path itself and every folder it lies in, `.` included."""
    parts = path.split("/")
    return {".", *("/".join(parts[: n + 1]) for n in range(len(parts)))}


def _budget_s(job: JobFile, site: Site) -> float | None:
    if job.budget is None:
        return None
    micro, currency = job.budget
    if site.rate_micro_per_h and currency != site.currency:
        raise Misuse(detail=f"{job.path}: `budget` is in {currency}, and site {site.name} costs {site.currency}")
    return money.affords_s(micro, site.rate_micro_per_h)
