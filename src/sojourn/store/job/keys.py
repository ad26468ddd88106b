"""The keys of a job file: what each may hold, and how it is read from a tree with the location of every mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from sojourn.core import money
from sojourn.core.need import Need
from sojourn.core.values import Retry
from sojourn.store import platforms
from sojourn.store.job import fill
from sojourn.store.job.reader import Reader
from sojourn.store.job.scalars import (
    accelerator,
    amount,
    gib,
    glob,
    inside,
    long_option,
    pattern,
    signal_before,
    target,
    whole,
    without_zero,
)
from sojourn.store.job.skypilot import SKYPILOT, SKYPILOT_RESOURCES
from sojourn.store.job.sweeps import read_sweep
from sojourn.store.job.tree import Scalar, Table, Tree, is_null
from sojourn.store.job.values import NAME_RULE, JobFile, Mount, Rule
from sojourn.wire import names, units

KEYS = (
    "name workdir site candidates resources num_nodes envs secrets file_mounts setup smoke run resume signal outputs"
    " scratch persist progress protect retry stall_after max_duration budget max_price rules hooks"
    " notify after slurm sweep"
).split()
RESOURCES = ["accelerators", "cpus", "memory", "disk_size"]
ENDS = ["preempted", "node-failure", "network"]
ACTIONS = ["retry", "fail", "exclude-site"]
HOOKS = ["before_down"]
PROTECTS = ["saves"]


def read_tree(r: Reader, tree: Tree, env: Mapping[str, str]) -> JobFile | None:
    """The job in a tree; only valid if `r.problems` stays empty. None if the tree is not even a mapping."""
    if not isinstance(tree, Table):
        r.wrong(tree, "a job file is a mapping: `run: python train.py` and so on")
        return None
    own = platforms.job_keys()
    found = r.table(tree, [*KEYS, *own], foreign=[key for key in SKYPILOT if key not in own])
    if "run" not in found:
        r.wrong(tree, "`run` is missing: the command that trains")
    if "site" in found and "candidates" in found:
        r.wrong(found["candidates"], "`site` and `candidates` exclude each other")
    if isinstance(found.get("outputs"), Table):
        r.ignored(found.pop("outputs"), "outputs", "SkyPilot's sizes; here it is a list of what must come home")
    sweep = read_sweep(r, found["sweep"]) if "sweep" in found else None
    r.declared = sweep.names if sweep else []
    envs = _envs(r, found.get("envs"), env)
    # What a cell sets stays until there is a cell, even if `envs` has a value for it.
    r.values = {name: value for name, value in envs.items() if name not in r.declared}
    return JobFile(
        path=os.path.join(r.folder, os.path.basename(r.path)),
        name=_name(r, found.get("name")),
        workdir=_workdir(r, found.get("workdir")),
        run=r.shell(found.get("run"), "run"),
        resume=r.shell(found.get("resume"), "resume"),
        signal=r.value(found.get("signal"), "signal", signal_before, ""),
        site=r.value(found.get("site"), "site", str, ""),
        candidates=r.words(found.get("candidates"), "candidates", str),
        need=_need(r, found["resources"]) if "resources" in found else Need(),
        num_nodes=r.value(found.get("num_nodes"), "num_nodes", whole, 1),
        envs=envs,
        secrets=_secrets(r, found.get("secrets")),
        file_mounts=_mounts(r, found.get("file_mounts")),
        setup=r.shell(found.get("setup"), "setup"),
        smoke=r.shell(found.get("smoke"), "smoke"),
        outputs=r.words(found.get("outputs"), "outputs", glob),
        scratch=r.words(found.get("scratch"), "scratch", glob),
        persist=_persist(r, found),
        progress=_progress(r, found["progress"]) if "progress" in found else "",
        protect=r.one_of(found["protect"], "protect", PROTECTS) if "protect" in found else "",
        retry=_retry(r, found["retry"]) if "retry" in found else Retry(),
        stall_after_s=r.value(found.get("stall_after"), "stall_after", units.seconds, None),
        max_duration_s=r.value(found.get("max_duration"), "max_duration", units.seconds, None),
        budget=r.value(found.get("budget"), "budget", money.read_money, None),
        max_price=r.value(found.get("max_price"), "max_price", money.read_rate, None),
        rules=tuple(rule for item in r.items(found.get("rules"), "rules", tables=True) for rule in _rule(r, item)),
        hooks=_hooks(r, found.get("hooks")),
        notify=r.words(found.get("notify"), "notify", str),
        after=r.words(found.get("after"), "after", str),
        scheduling=_slurm(r, found.get("slurm")),
        site_options={key: _plain(r, found[key]) for key in own if key in found},
        sweep=sweep,
        warnings=tuple(r.warnings),
    )


def _envs(r: Reader, tree: Tree | None, given: Mapping[str, str]) -> dict[str, str]:
    """Values in the order written; each may use those before it. `given` by --env wins, and may add names."""
    envs: dict[str, str] = {}
    for key, inner in r.entries(tree, "`envs` takes a mapping of names to values"):
        if not r.is_env_name(key, "envs"):
            continue
        if key.text in given:
            envs[key.text] = given[key.text]
        elif is_null(inner):
            r.wrong(key, f"`envs.{key.text}` has no value here: give one with --env {key.text}=...")
            envs[key.text] = ""
        else:
            known = {name: value for name, value in envs.items() if name not in r.declared}
            envs[key.text] = r.value(r.filled(inner, known), f"envs.{key.text}", without_zero, "")
    return envs | {name: value for name, value in given.items() if name not in envs}


def _name(r: Reader, tree: Tree | None) -> str:
    if tree is None:
        return names.as_name(os.path.basename(r.folder))
    name = r.value(r.filled(tree), "name", str, "run")
    # What a sweep fills in is checked with its cells.
    if not names.is_name(fill.fill(name, dict.fromkeys(r.declared, "0"))):
        r.wrong(tree, f"{name!r} {NAME_RULE}; the nearest is {names.as_name(name)!r}")
    return name


def _workdir(r: Reader, tree: Tree | None) -> str:
    if tree is None:
        return r.folder
    if isinstance(tree, Table):
        r.wrong(tree, "`workdir` takes a folder of this machine; clone a repository first")
        return r.folder
    folder = r.value(r.filled(tree), "workdir", r.local_path, r.folder)
    if not os.path.isdir(folder):
        r.wrong(tree, f"`workdir`: there is no folder {folder}")
    return folder


def _secrets(r: Reader, tree: Tree | None) -> tuple[str, ...]:
    if isinstance(tree, Table):
        # SkyPilot's form: NAME: null, or NAME: the secret itself, which we accept from no file.
        for key, inner in tree.entries:
            if not is_null(inner):
                r.ignored(key, f"the value of secrets.{key.text}", "it is taken from your environment, not from a file")
        items: tuple[Tree, ...] = tuple(key for key, _ in tree.entries)
    else:
        items = r.items(tree, "secrets")
    found: list[str] = []
    for item in items:
        name = r.value(item, "secrets", str, "")
        if isinstance(item, Scalar) and r.is_env_name(item, "secrets"):
            if name in r.values or name in found:
                r.wrong(item, f"`secrets`: {name} is already declared")
            found.append(name)
    return tuple(found)


def _mounts(r: Reader, tree: Tree | None) -> tuple[Mount, ...]:
    found: list[Mount] = []
    for key, inner in r.entries(tree, "`file_mounts` takes a mapping of targets to paths of this machine"):
        to = r.value(r.filled(key), "file_mounts", target, "")
        if not isinstance(inner, Scalar) or "://" in inner.text:
            r.wrong(
                inner, f"`file_mounts`: {key.text} takes a path of this machine; buckets and volumes cannot be mounted"
            )
            continue
        source = r.value(r.filled(inner), "file_mounts", r.local_path, "")
        if source and not os.path.exists(source):
            r.wrong(inner, f"`file_mounts`: there is no {source}")
        if any(_overlap(to, other.target) for other in found):
            r.wrong(key, f"`file_mounts`: {to} is inside another target, or contains it")
        found.append(Mount(to, source))
    return tuple(found)


def _persist(r: Reader, found: Mapping[str, Tree]) -> tuple[str, ...]:
    """Folders of the working copy, none inside another or inside a mount."""
    kept: list[str] = []
    mounted = [key.text.removeprefix("./").rstrip("/") for key, _ in r.entries(found.get("file_mounts"), "")]
    for item in r.items(found.get("persist"), "persist"):
        path = r.value(r.filled(item), "persist", inside, "")
        for other in (*kept, *mounted):
            if _overlap(path, other):
                r.wrong(item, f"`persist`: {path} and {other} overlap")
        kept.append(path)
    return tuple(path for path in kept if path)


def _overlap(one: str, other: str) -> bool:
    return bool(one and other) and (one == other or one.startswith(other + "/") or other.startswith(one + "/"))


def _need(r: Reader, tree: Tree) -> Need:
    found = r.table(tree, RESOURCES, "resources", SKYPILOT_RESOURCES)
    none = (0.0, False)
    cpus = r.value(found.get("cpus"), "resources.cpus", amount, none)
    memory = r.value(found.get("memory"), "resources.memory", gib, none)
    disk = r.value(found.get("disk_size"), "resources.disk_size", gib, none)
    return Need(_accelerators(r, found.get("accelerators")), *cpus, *memory, disk[0])


def _accelerators(r: Reader, tree: Tree | None) -> tuple[tuple[str, int], ...]:
    """Any of A100, A100:2, [L4:1, A100:1], {A100: 2}, {L4:1, A100:1}."""
    key = "resources.accelerators"
    items: list[Tree] = list(r.items(tree, key)) if not isinstance(tree, Table) else []
    for name, count in tree.entries if isinstance(tree, Table) else ():
        text = name.text if is_null(count) else f"{name.text}:{r.value(count, key, str, '1')}"
        items.append(Scalar(name.line, name.column, text))
    return tuple(r.value(item, key, accelerator, ("", 0)) for item in items)


def _progress(r: Reader, tree: Tree) -> str:
    """The pattern of `progress`, which must name at least one group."""
    found = r.table(tree, ["pattern"], "progress")
    if "pattern" not in found:
        if isinstance(tree, Table):
            r.wrong(tree, "`progress` needs a `pattern`")
        return ""
    text = r.value(found["pattern"], "progress.pattern", pattern, "")
    groups = set(re.compile(text).groupindex)
    if text and not groups:
        r.wrong(found["pattern"], "`progress.pattern` names nothing: write groups such as (?P<step>[0-9]+)")
    return text


def _retry(r: Reader, tree: Tree) -> Retry:
    found = r.table(tree, ["attempts", "on"], "retry")
    on = tuple(r.one_of(item, "retry.on", ENDS) for item in r.items(found.get("on"), "retry.on"))
    return Retry(r.value(found.get("attempts"), "retry.attempts", whole, 1), on)


def _rule(r: Reader, tree: Tree) -> list[Rule]:
    keys = ["name", "pattern", "action"]
    found = r.table(tree, keys, "rules")
    lacking = [f"`{key}`" for key in keys if key not in found]
    if lacking:
        r.wrong(tree, f"a rule needs {', '.join(lacking)}")
        return []
    name = r.value(found["name"], "rules.name", str, "")
    return [
        Rule(
            name,
            r.value(found["pattern"], "rules.pattern", pattern, ""),
            r.one_of(found["action"], "rules.action", ACTIONS),
        )
    ]


def _hooks(r: Reader, tree: Tree | None) -> dict[str, str]:
    found = r.table(tree, HOOKS, "hooks") if tree is not None else {}
    return {key: r.value(inner, f"hooks.{key}", without_zero, "") for key, inner in found.items()}


def _slurm(r: Reader, tree: Tree | None) -> dict[str, str | bool]:
    """Options of sbatch by their long names. `true`, or no value: an option without one; the launcher checks them."""
    out: dict[str, str | bool] = {}
    for key, inner in r.entries(tree, "`slurm` takes a mapping of sbatch's long options to their values"):
        name = r.value(key, "slurm", long_option, "")
        text = "true" if is_null(inner) else r.value(r.filled(inner), f"slurm.{key.text}", without_zero, "")
        out[name] = {"true": True, "false": False}.get(text, text)
    return out


def _plain(r: Reader, tree: Tree) -> Any:
    """A tree as the values that YAML makes of it, for who judges them later; `true` and `false` alone are booleans."""
    if isinstance(tree, Table):
        return {key.text: _plain(r, inner) for key, inner in tree.entries}
    if not isinstance(tree, Scalar):
        return [_plain(r, inner) for inner in tree.items]
    if is_null(tree):
        return None
    text = r.value(r.filled(tree), tree.text, str, "")
    if tree.kind == "bool" and text in ("true", "false"):
        return text == "true"
    if tree.kind == "int" and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return text
