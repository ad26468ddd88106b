"""What of a script's work can outlive an attempt: the folders of its checkpoints, and the words that resume it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sojourn.verbs.project.source import loads, order, settings
from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.paths import Module, Names
from sojourn.verbs.project.source.writes import Write, writes

CHECKPOINT = re.compile(
    r"\.(pt|pth|ckpt|safetensors|keras|h5|hdf5|pdparams|msgpack|pkl|pickle|joblib|npz|npy|zip)(\.tar)?$"
)
_FOLDERS = re.compile(
    r"\b(\w*TrainingArguments|(SFT|DPO|GRPO|ORPO|KTO|PPO|RLOO|CPO|Reward)Config|ModelCheckpoint|save_pretrained|save_model"
    r"|save_state|CheckpointSaver|CheckpointManager|CheckpointCallback|save_checkpoint|BackupAndRestore)$"
)
_FROM = '"$SOJOURN_RESUME_FROM"'
# Flags that name the checkpoint to resume from, best first: their dest.
_NAMED = re.compile(
    r"resume_from_checkpoint|resume_from|resume_path|resume_ckpt|resume_checkpoint|ckpt_path|resume|load_checkpoint"
    r"|resume_training|continue_from|restore_from|restore"
)
_OUTPUT = re.compile(r"(--(?:output_dir|output-dir|out_dir|save_dir|save-dir|save))[ =]+([\w.][\w./-]*)")
# What `protect: saves` makes whole; an accelerator saves by torch.save. Keras and others write by ways of their own.
_PROTECTED = re.compile(
    r"(torch|th|(.*\.)?accelerator|np|numpy)\.save|(np|numpy)\.savez(_compressed)?|(.*\.)?save_file|joblib\.dump"
)
_OUTPUT_FLAG = re.compile(r"--(?:output[_-]dir|out_dir|save[_-]dir)")
_HOW_OFTEN = re.compile(r"--(?:checkpointing|checkpoint|save|ckpt)[_-](?:steps|every|interval|freq)")
_SAVES = re.compile(r"--save[_-](?:model|checkpoint|ckpt|weight)s?")
_MOST_BYTES = 1 << 20
# What a library resumes by, where the script itself takes no flag: the call to look for, and what to write into it.
_CALLS = {
    "transformers": ("train", 'trainer.train(resume_from_checkpoint=os.environ.get("SOJOURN_RESUME_FROM"))'),
    "trl": ("train", 'trainer.train(resume_from_checkpoint=os.environ.get("SOJOURN_RESUME_FROM"))'),
    "lightning": ("fit", 'trainer.fit(..., ckpt_path=os.environ.get("SOJOURN_RESUME_FROM"))'),
    "pytorch_lightning": ("fit", 'trainer.fit(..., ckpt_path=os.environ.get("SOJOURN_RESUME_FROM"))'),
    "accelerate": ("prepare", 'accelerator.load_state(os.environ["SOJOURN_RESUME_FROM"]) where that is set'),
    "keras": ("fit", 'model.fit(..., callbacks=[keras.callbacks.BackupAndRestore("backup")])'),
    "tensorflow": ("fit", 'model.fit(..., callbacks=[keras.callbacks.BackupAndRestore("backup")])'),
    "fastai": ("fit_one_cycle", "learn.fit_one_cycle(..., start_epoch=...) after learn.load(...)"),
    "ultralytics": (
        "train",
        'model = YOLO(os.environ.get("SOJOURN_RESUME_FROM", "yolo11n.pt")) and'
        ' model.train(..., resume="SOJOURN_RESUME_FROM" in os.environ)',
    ),
    "stable_baselines3": ("learn", 'PPO.load(os.environ["SOJOURN_RESUME_FROM"], env=env) where that is set'),
    "mmengine": ("from_cfg", "cfg.resume = True before Runner.from_cfg(cfg)"),
    "deepspeed": ("save_checkpoint", "engine.load_checkpoint(folder) where there is one"),
}
_LIBRARIES = {"lightning", "pytorch_lightning", "ultralytics", "transformers"}  # they save without being told where
# Commands of trainers that are used without a script of one's own: a word of `run`, and what resumes it.
_COMMANDS = (
    (re.compile(r"\btune run\b"), " resume_from_checkpoint=True"),
    (re.compile(r"\bllamafactory-cli train\b"), f" resume_from_checkpoint={_FROM}"),
    (re.compile(r"\baxolotl[. ](cli\.)?train\b"), f" --resume-from-checkpoint {_FROM}"),
    (re.compile(r"\byolo\b.*\btrain\b"), f" resume=True model={_FROM}"),
    (re.compile(r"\bpretrain_\w+\.py\b.*--save[= ](?P<folder>\S+)"), " --load {folder}"),
)


@dataclass(frozen=True)
class Resuming:
    """`persist`: paths of the working copy, each with what writes there. `command`: "" where no words resume it.

    `note`: what a person must do where the script cannot resume as it is; "" where it can, or saves nothing.
    """

    persist: tuple[tuple[str, str], ...]
    command: str
    note: str = ""


def survey(root: str, modules: Sequence[Module], run: str) -> tuple[Names, tuple[Write, ...]]:
    """What names mean in a script and its modules, with the flags of `run`, and what it writes on its way."""
    said = {flag.lstrip("-").replace("-", "_"): path for flag, path in _OUTPUT.findall(run)}
    names = Names(modules, said, settings.settings(root, modules))
    return names, writes(names, order.calls(names)) or writes(names)


def folders_of(run: str) -> list[Write]:
    """The output folders that a command names."""
    return [Write(f"{path.removeprefix('./').rstrip('/')}/*", flag, "run") for flag, path in _OUTPUT.findall(run)]


def resuming(run: str, names: Names, found: Iterable[Write]) -> Resuming:
    """What a script's own source says. `run`: its command line; `names`: of the script, then of what it imports."""
    modules = names.modules
    saved = [write for write in found if not write.glob.startswith(("/", "~", "..", "checkpoints/ckpt-"))]
    imports = _imports(modules)
    if "sojourn" in imports:
        return Resuming((), "")
    kept = _persisted(run, saved, modules)
    command = _command(run, modules)
    savers = [write for write in saved if holds_checkpoints(write)]
    if not kept:
        note = _advice(imports, modules, "") if _LIBRARIES & imports and not savers else ""
        return Resuming((), "", note)
    if command:
        return Resuming(kept, command)
    paths = [path for path, _ in kept]
    again = set(loads.loaded(order.calls(names), names, paths, savers))
    if again:
        return Resuming(tuple(one for one in kept if one[0] in again or one[0] == "wandb"), "")
    return Resuming((), "", _advice(imports, modules, ", ".join(path for path in paths if path != "wandb")))


def output_words(modules: Sequence[Module]) -> str:
    """What `run` says so that a script writes into a folder that we know: one whose flags are made of
    TrainingArguments, or that takes a folder and has no default for it.
    """
    if has_trainer_flags(modules, must_resume=False):
        return " --output_dir out"
    flags = [flag for module in modules for flag in module.flags if _OUTPUT_FLAG.fullmatch(flag.name)]
    return next((f" {flag.name} out" for flag in flags if flag.default in (None, "") and not flag.is_switch), "")


def saving_words(modules: Sequence[Module]) -> str:
    """What `run` says so that a script saves at all: a flag without a default that says how often, or a switch."""
    flags = [flag for module in modules for flag in module.flags if _HOW_OFTEN.fullmatch(flag.name)]
    switches = [
        flag.name for module in modules for flag in module.flags if flag.is_switch and _SAVES.fullmatch(flag.name)
    ]
    named = [flag for flag in flags if flag.default is None and not flag.is_required and not flag.is_switch]
    often = [f" {f.name} {'epoch' if 'epoch' in f.said and not f.said.startswith('int') else 100}" for f in named[:1]]
    return "".join(often + [f" {name}" for name in switches[:1]])


def in_shell(root: str, path: str) -> list[Write]:
    """The checkpoints that a shell script names, each once; nothing that depends on a variable. Raises: nothing."""
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            lines = f.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    found: dict[str, Write] = {}
    for number, line in enumerate(lines, 1):
        for word in re.findall(r"(?<![\w$}/.-])[\w.][\w./-]*(?![\w$*])", line.partition("#")[0]):
            if CHECKPOINT.search(word) and ".." not in word:
                name = word.removeprefix("./")
                found.setdefault(name, Write(name, "named there", f"{path}:{number}"))
    return list(found.values())


def holds_checkpoints(write: Write) -> bool:
    """Whether what is written is, by its name or its writer, a checkpoint."""
    return bool(CHECKPOINT.search(write.glob) or _FOLDERS.search(write.how))


def is_torn_by_a_kill(write: Write) -> bool:
    """Whether a checkpoint is written over in place by a call that `protect: saves` makes whole."""
    return bool(_PROTECTED.fullmatch(write.how)) and not write.is_periodic and bool(CHECKPOINT.search(write.glob))


def _persisted(run: str, found: Sequence[Write], modules: Sequence[Module]) -> tuple[tuple[str, str], ...]:
    """The folder that `run` names, the top folder of each checkpoint, or the file itself beside the script."""
    kept: dict[str, str] = {}
    for flag, path in _OUTPUT.findall(run):
        kept[path.removeprefix("./").partition("/")[0]] = flag
    for write in found:
        if not write.glob or not holds_checkpoints(write):
            continue
        path = write.glob.partition("/")[0] if "/" in write.glob else write.glob
        if not any(c in path for c in "*?["):
            kept.setdefault(path, f"{write.where}, {write.how}")
    if kept and "wandb" in _imports(modules):
        kept.setdefault("wandb", "wandb's offline runs")
    return tuple(kept.items())


def _command(run: str, modules: Sequence[Module]) -> str:
    for pattern, words in _COMMANDS:
        if found := pattern.search(run):
            return run + words.replace("{folder}", found.groupdict().get("folder", ""))
    if _has_init_from(modules):
        return f"{run} --init_from=resume"
    flags = [flag for module in modules for flag in module.flags if flag.name.startswith("-")]
    for word in _NAMED.pattern.split("|"):
        for flag in flags:
            if flag.dest == word:
                return f"{run} {flag.name}{'' if flag.is_switch else ' ' + _FROM}"
    if has_trainer_flags(modules):
        return f"{run} --resume_from_checkpoint {_FROM}"
    return ""


def _has_init_from(modules: Sequence[Module]) -> bool:
    """nanoGPT and its kin: `init_from` is a global that the command line sets, and "resume" is one of its values."""
    for module in modules:
        given = any(
            isinstance(node, ast.Assign) and any(last(target) == "init_from" for target in node.targets)
            for node in module.tree.body
        )
        compared = any(
            isinstance(node, ast.Compare)
            and last(node.left) == "init_from"
            and any(constant(other) == "resume" for other in node.comparators)
            for node in ast.walk(module.tree)
        )
        if given and compared:
            return True
    return False


def has_trainer_flags(modules: Sequence[Module], must_resume: bool = True) -> bool:
    """Flags that Hugging Face's parser makes of TrainingArguments; `must_resume`: and a `train` that is given a
    checkpoint.
    """
    calls = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    parsed = any(last(call.func) in ("HfArgumentParser", "TrlParser") for call in calls)
    if not parsed or not must_resume:
        return parsed
    return any(
        last(call.func) == "train"
        and isinstance(call.func, ast.Attribute)
        and (call.args or any(k.arg == "resume_from_checkpoint" for k in call.keywords))
        for call in calls
    )


def _advice(imports: set[str], modules: Sequence[Module], paths: str) -> str:
    """What to add to a script that never loads what it saves. `paths`: what it would then have to keep."""
    calls = {last(node.func) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    loss = "NOTHING RESUMES THIS SCRIPT: it never loads what it saves, so each attempt starts at step 0"
    kept = f", and `persist: [{paths}]` here" if paths else ", and the folder of its checkpoints under `persist` here"
    for library, (call, words) in _CALLS.items():
        if library in imports and call in calls:
            return f"{loss}. To resume, write into it: {words}{kept}"
    return f"{loss}. To resume, load $SOJOURN_RESUME_FROM where it is set, before the first step{kept}" if paths else ""


def _imports(modules: Sequence[Module]) -> set[str]:
    found: set[str] = set()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found
