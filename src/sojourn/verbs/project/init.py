"""`init`: looks at a project and writes a commented sojourn.yaml that runs. Runs and imports nothing of it."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.verbs.project.source import needs, reads, recipes, scripts
from sojourn.verbs.project.source.flags import environment
from sojourn.verbs.project.source.resuming import (
    Resuming,
    folders_of,
    has_trainer_flags,
    in_shell,
    is_torn_by_a_kill,
    output_words,
    resuming,
    saving_words,
    survey,
)
from sojourn.verbs.project.source.tree import walk
from sojourn.verbs.project.source.writes import Write
from sojourn.wire import atomic
from sojourn.wire.errors import Misuse
from sojourn.wire.names import as_name
from sojourn.wire.quote import join
from sojourn.wire.units import say_bytes

FILE = "sojourn.yaml"
BIG_BYTES = 20 << 20  # a file of this size is named as one that may not belong into every push
# Flags that make a short run, best first, and the value that makes it short (None: a switch).
_SHORT = (
    *((name, None) for name in ("smoke", "smoke-test", "fast-dev-run", "dry-run", "quick", "debug")),
    *((name, "2") for name in ("max-steps", "steps", "num-steps", "n-steps", "max-iters", "iters", "iterations")),
    *((name, "1") for name in ("epochs", "max-epochs", "num-epochs", "n-epochs", "num-train-epochs")),
)
_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./=,+@$-]*( [A-Za-z0-9_./=,+@$-]+)*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "="}
_NO_SCRIPT = "echo 'sojourn.yaml: put the command of your training under run' >&2; exit 64"


class JobFileExists(Misuse):
    """{path} exists and was left as it is."""

    code = "job-file-exists"
    next_step = "sojourn init --dry-run"


class NoFolder(Misuse):
    """{path} is not a folder."""

    code = "no-folder"


@dataclass(frozen=True)
class Draft:
    """A job file for a project. `script` is "" where none was found.

    `why`: what spoke for it. `others`: what else it may be. `notes`: what a person should look at.
    `written` is False after `--dry-run`.
    """

    path: str
    text: str
    name: str
    script: str
    why: tuple[str, ...]
    others: tuple[str, ...]
    outputs: tuple[str, ...]
    smoke: str
    notes: tuple[str, ...]
    written: bool
    next: str
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `init` document."""
        keys = ("path", "text", "name", "script", "why", "others", "outputs", "smoke", "notes", "written", "next")
        values = {key: getattr(self, key) for key in keys}
        return {"schema": "sojourn/init/v1"} | {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


_PLACE = (
    "workdir: .            # pushed as it is, except what .gitignore and .sojournignore exclude",
    "site: local           # this machine",
    '# resources: {accelerators: "A100:1", cpus: 4+, memory: 16+, disk_size: 100}    # GiB',
)
_LIMITS = (
    "",
    "# retry: {attempts: 3, on: [preempted, node-failure]}    # never after an error in your own code",
    "# stall_after: 20m",
    "# max_duration: 12h",
    "# budget: 20 USD",
)


def init(folder: str = ".", *, name: str = "", force: bool = False, dry_run: bool = False) -> Draft:
    """Look at the project in `folder` and write its sojourn.yaml, whole or not at all.

    Raises: NoFolder, JobFileExists (unless `force` or `dry_run`), OSError (the folder cannot be written).
    """
    if not os.path.isdir(folder):
        raise NoFolder(path=folder)
    path = os.path.normpath(os.path.join(folder, FILE))
    if not force and not dry_run and os.path.lexists(path):
        raise JobFileExists(path=path)
    draft = _draft(folder, path, as_name(name or os.path.basename(os.path.abspath(folder))))
    if dry_run:
        return draft
    atomic.write(path, draft.text.encode("utf-8"))
    return replace(draft, written=True)


def _draft(folder: str, path: str, name: str) -> Draft:
    project = scripts.read_project(folder)
    need = needs.needs(folder)
    notes = list(need.notes)
    told = recipes.recipe(folder, project.shell_scripts, {one.source.path for one in project.scripts})
    script = project.script(told.script) if told else project.scripts[0] if project.scripts else None
    if project.unread:
        notes.append(f"not read, because this Python cannot parse them: {', '.join(map(scalar, project.unread[:3]))}")
    again = Resuming((), "")
    if script is None:
        run, smoke, outputs, extra = _without_script(project)
        modules = []
        again = Resuming(tuple((write.glob, f"{write.where}, {write.how}") for write in outputs), "")
    else:
        modules = project.closure(script)
        often = saving_words(modules)
        words = output_words(modules) + often
        short = " --max_steps 2" if has_trainer_flags(modules, must_resume=False) else _short(script)
        command = told.command if told else _run(script)
        words = "" if told and told.command and words.split()[:1] and words.split()[0] in told.command else words
        run, smoke = (command or _run(script)) + words, f"{command}{words}{short}" if short and command else ""
        outputs = []
        extra = [f"`run` says{often}, for without it the script may save nothing"] if often else []
    names, found = survey(folder, modules, run)
    again = resuming(run, names, found) if modules else again
    if told:
        run = told.start + words if told.start == told.command else told.start
        script = replace(script, why=(f"{told.where} runs it", *script.why)) if script else None
    owed, scratch, unclear = _sorted(found)
    if modules:
        named = {write.glob.partition("/")[0] for write in owed}
        owed += [one for one in folders_of(run) if one.glob.partition("/")[0] not in named]
        notes += reads.in_words(reads.unpushed(folder, names, [path for path, _ in walk(folder)]))
        notes += reads.outside(folder, names)
    notes = [*([again.note] if again.note else []), *notes, *extra, *unclear, *_heavy(folder)]
    outputs = outputs or owed
    if script is not None:
        missing = [f.name for f in script.source.flags if f.is_required and not f.choices and f.name not in run.split()]
        if missing:
            notes.append(f"`run` must also say {', '.join(missing)}: {script.source.path} takes no default for it")
        if not smoke:
            notes.append(
                "no flag makes a short run, so there is no `smoke` line: add one to the script, such as --max-steps"
            )
    lines = [*_head(script, notes), "", f"name: {scalar(name)}", *_PLACE, *_environment(script), ""]
    lines += _commands(run, smoke, script is not None, need, again)
    lines += [*_files(outputs, scratch), *_LIMITS]
    return Draft(
        path=path,
        text="\n".join(_comment_only_printable(line) for line in lines) + "\n",
        name=name,
        script=script.source.path if script else "",
        why=script.why if script else (),
        others=tuple(other.source.path for other in project.scripts[1:4]),
        outputs=tuple(write.glob for write in outputs),
        smoke=smoke,
        notes=tuple(notes),
        written=False,
        next="sojourn smoke" if smoke else "sojourn plan",
    )


def _without_script(project: scripts.Project) -> tuple[str, str, list[Write], list[str]]:
    """run, smoke, outputs and notes where no Python file looks like a training."""
    shell = next(
        (path for path in project.shell_scripts if re.match(r"(train|run)\b|.*train", os.path.basename(path))), ""
    )
    if shell:
        named = in_shell(project.root, shell)
        note = f"{shell} was only searched for checkpoint names: list what it writes under `outputs`"
        return join(["bash", shell]), "", named, [note]
    notes = ["no training script was found: put its command under `run`, and what it writes under `outputs`"]
    if project.notebooks:
        notebook = project.notebooks[0]
        notes.append(
            f"{notebook} is a notebook, which cannot run unattended: jupyter nbconvert --to script {join([notebook])}"
        )
    return _NO_SCRIPT, "", [], notes


def _run(script: scripts.Script) -> str:
    needed = [w for f in script.source.flags if f.is_required and f.choices for w in (f.name, str(f.choices[0]))]
    if not script.module:
        return join(["python3", script.source.path, *needed])
    # The box's own PYTHONPATH holds sojourn.train.
    path = f'PYTHONPATH={join([script.import_root])}:"$PYTHONPATH" ' if script.import_root else ""
    return path + join(["python3", "-m", script.module, *needed])


def _short(script: scripts.Script) -> str:
    """The words of a short run; "" where no flag makes one."""
    flags = {flag.name.lstrip("-").replace("_", "-"): flag for flag in script.source.flags if flag.name.startswith("-")}
    for name, value in _SHORT:
        flag = flags.get(name)
        if flag is not None and flag.is_switch == (value is None):
            return f" {flag.name}" + (f" {value}" if value else "")
    return ""


def _sorted(found: Sequence[Write]) -> tuple[list[Write], list[Write], list[str]]:
    """Outputs owed, scratch, and notes about what could be neither."""
    owed, scratch, notes = [], [], []
    for write in found:
        if write.how.endswith("BackupAndRestore"):
            continue  # Keras removes it at the end
        if not write.glob:
            notes.append(
                f"{write.where} ({write.how}) writes to a path that the source does not reveal: add it to `outputs`"
            )
        elif write.glob.startswith(("/", "~")):
            if not write.glob.startswith("/scratch"):
                notes.append(
                    f"{write.where} writes {scalar(write.glob)}, outside the run's folder: it would not come home, "
                    "and is lost with the machine; let the script write to a relative path"
                )
        elif write.glob.startswith(".."):
            notes.append(f"{write.where} writes {scalar(write.glob)}, above the run's folder: it would not come home")
        elif write.is_periodic:
            scratch.append(write)
        else:
            owed.append(write)
    if scratch and not any(
        re.search(r"\.(pt|pth|bin|ckpt|safetensors|npz|pkl|joblib|h5|keras|msgpack)$", w.glob) for w in owed
    ):
        return [*owed, *scratch], [], notes  # the only weights there are must come home
    return owed, scratch, notes


def _heavy(folder: str) -> list[str]:
    """The biggest files that would be pushed."""
    big = sorted(((size, path) for path, size in walk(folder) if size > BIG_BYTES), reverse=True)
    return [
        f"{scalar(path)} has {say_bytes(size)}: it is pushed, unless .gitignore or .sojournignore names it"
        for size, path in big[:3]
    ]


def _head(script: scripts.Script | None, notes: Sequence[str]) -> list[str]:
    """The comments on top."""
    lines = ["# A job for sojourn. `sojourn help job-file` explains every key; `sojourn plan` says what it would do."]
    if script is not None:
        lines += _folded("# ", f"Written by `sojourn init` for {scalar(script.source.path)}: {', '.join(script.why)}.")
    for note in notes:
        lines += _folded("# Look at: ", note)
    return lines


def _commands(run: str, smoke: str, has_script: bool, need: needs.Needs, again: Resuming) -> list[str]:
    """From `setup` to `persist`: what is run, and what is kept between its attempts."""
    if need.setup:
        lines = [f"setup: {scalar(need.setup)}    # from {need.source}; runs once per box and change"]
    else:
        lines = ["# setup: pip install -r requirements.txt    # runs once per box and change of what it names"]
    short = f"# smoke: {run if has_script else 'python3 train.py'} --max-steps 2    # a short test run"
    lines.append(f"smoke: {scalar(smoke)}" if smoke else short)
    lines.append(f"run: {scalar(run)}")
    if again.command:
        lines.append(f"resume: {scalar(again.command)}    # replaces `run` if there is a checkpoint")
    if again.persist:
        lines += ["", "# Kept from one attempt to the next.", "persist:"]
        lines += [f"  - {quoted(path)}    # {why}" for path, why in again.persist]
    return lines


def _files(outputs: Sequence[Write], scratch: Sequence[Write]) -> list[str]:
    """`outputs`, `scratch` and `protect`."""
    lines = ["", "# Files that must come home and load before `sojourn down` releases the machine (globs)."]
    if outputs:
        lines.append("outputs:")
        lines += [f"  - {quoted(write.glob)}    # {write.where}, {write.how}" for write in outputs]
    else:
        lines.append(
            'outputs: []           # nothing was recognised; for example ["checkpoints/best.pt", "metrics.json"]'
        )
    if scratch:
        lines += ["# Files that may be pruned after success; they need not come home.", "scratch:"]
        lines += [f"  - {quoted(write.glob)}    # {write.where}, {write.how}" for write in scratch]
    torn = next((write for write in (*outputs, *scratch) if is_torn_by_a_kill(write)), None)
    if torn is not None:
        lines += ["", f"# protect: saves    # {torn.where} writes over {quoted(torn.glob)}: a kill in between tears it"]
    return lines


def _folded(start: str, text: str) -> list[str]:
    below = "#" + " " * (len(start) - 1)
    return textwrap.wrap(
        text, 100, initial_indent=start, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )


def _environment(script: scripts.Script | None) -> list[str]:
    names = environment(script.source.tree) if script else []
    secret = [name for name in names if re.search(r"KEY|TOKEN|SECRET|PASSWORD", name)]
    plain = [name for name in names if name not in secret]
    lines = [
        f"# envs: {{{', '.join(f'{n}: ...' for n in plain or ['DATA'])}}}"
        + ("    # the script reads this" if plain else "")
    ]
    if secret:
        lines.append(f"# secrets: [{', '.join(secret)}]    # by name; the values are taken from your environment")
    return lines


def scalar(text: str) -> str:
    """`text` as a YAML scalar: plain where nothing in it can be misread, else quoted."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else quoted(text)


def quoted(text: str) -> str:
    """`text` in double quotes, as YAML reads them; what is not printable is escaped."""
    out = []
    for c in text:
        code = ord(c)
        if c in '"\\':
            out.append("\\" + c)
        elif c.isprintable():
            out.append(c)
        else:
            out.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def _comment_only_printable(line: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in line)
