"""Traps of checkpoints and of going on from them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import (
    Code,
    Sight,
    Source,
    argument,
    called,
    constant,
    dotted,
    inside,
    is_open,
    last,
    names_in,
    owner,
)

_WHOLE = {"accelerate", "deepspeed", "lightning", "pytorch_lightning", "transformers", "ignite", "sojourn"}
_AVERAGES = ("AveragedModel", "ExponentialMovingAverage", "ModelEma", "ModelEmaV2", "ModelEmaV3", "EMAModel", "EMA")
_VERBS, _NOUNS = ("write", "do", "make", "dump"), ("checkpoint", "ckpt", "snapshot")
_AVERAGE_SAVED = re.compile(r"\w*(ema\w*(state|save|weights)|(state|save|state_dict)\w*_ema)\w*", re.I)
_TOLD_WHERE = re.compile(r"epoch|iter|step|update")
_OFF_POLICY = {"SAC", "TD3", "DQN", "DDPG", "TQC", "QRDQN"}


def weights_only(code: Code) -> Iterator[Sight]:
    """A resume loads a model's weights, and no optimizer's state is ever saved."""
    if code.imports & _WHOLE or not (code.uses("backward") and code.uses("load_state_dict")) or _saves_optimizer(code):
        return
    resumes = any(part in word.lower() for word in code.words for part in ("resum", "start_epoch", "continue train"))
    saves = [(source, call) for source, name, call in code.find("save") if name == "torch.save" and call.args]
    if saves and resumes and code.uses("optim", "Adam", "AdamW", "SGD", "optimizer"):
        yield saves[0][0].sight("weights-only-checkpoint", saves[0][1])


def no_scheduler(code: Code) -> Iterator[Sight]:
    """An optimizer's state is saved, a scheduler ticks, and its state is not saved."""
    if not code.uses("last_epoch"):  # by which it is set to where it stood
        yield from _left_out(code, "scheduler-not-saved", "sched", "step")


def no_scaler(code: Code) -> Iterator[Sight]:
    """An optimizer's state is saved, a GradScaler works, and its state is not saved."""
    yield from _left_out(code, "scaler-not-saved", "scaler", "update")


def no_average(code: Code) -> Iterator[Sight]:
    """An averaged copy that no checkpoint holds."""
    if code.imports & {"lightning", "pytorch_lightning"} or not _saves_optimizer(code):
        return
    if any(_AVERAGE_SAVED.fullmatch(word) for word in code.words):
        return
    for source in code.sources:
        for name, value, statement in source.assigned:
            if not isinstance(value, ast.Call) or last(dotted(value.func)) not in _AVERAGES:
                continue
            if not (value.args or value.keywords):  # EMA() averages numbers
                continue
            kept = any(
                last(name) in names_in([*call.args, *(k.value for k in call.keywords)])
                for _, _, call in code.find("save", "save_checkpoint")
            )
            told = any(last(owner(n).rstrip("()")) == last(name) for _, n, _ in code.find("state_dict"))
            inner = any(f"{last(name)}.module.state_dict" in n for _, n, _ in code.find("state_dict"))
            if not (kept or told or inner):
                yield source.sight("ema-not-saved", statement)


def saved_in_handler(code: Code) -> Iterator[Sight]:
    """A function given to signal.signal that writes a checkpoint, itself or by a function of the same file."""
    for source, name, call in code.find("signal"):
        if name not in ("signal.signal", "signal") or len(call.args) < 2:
            continue
        handler = call.args[1]
        if isinstance(handler, ast.Call) and last(dotted(handler.func)) == "partial" and handler.args:
            handler = handler.args[0]
        functions = {function.name: function for function in source.every(ast.FunctionDef)}
        body = handler if isinstance(handler, ast.Lambda) else functions.get(last(dotted(handler)))
        for saver in inside(body, ast.Call) if body is not None else ():
            inner = functions.get(last(dotted(saver.func)))
            if _is_save(saver) or inner is not None and any(_is_save(deep) for deep in inside(inner, ast.Call)):
                yield source.sight("checkpoint-in-signal-handler", saver)
                break


def epoch_from_zero(code: Code) -> Iterator[Sight]:
    """An optimizer is loaded from a checkpoint, and the epochs begin at 0."""
    loads = [n for _, n, _ in code.find("load_state_dict") if "opt" in owner(n).lower()]
    if not loads or code.uses(
        "start_epoch", "begin_epoch", "first_epoch", "initial_epoch", "resume_epoch", "skip_epochs"
    ):
        return
    for source in code.sources:
        for loop in source.every(ast.For):
            counted = loop.iter
            is_plain = isinstance(counted, ast.Call) and dotted(counted.func) == "range" and len(counted.args) == 1
            if is_plain and "epoch" in dotted(loop.target).lower() and _trains(source, loop) and not _skips(loop):
                yield source.sight("epoch-counter-restarts", counted)


def replayed(code: Code) -> Iterator[Sight]:
    """accelerator.load_state without skip_first_batches."""
    if "accelerate" in code.imports and not code.uses(
        "skip_first_batches", "StatefulDataLoader", "use_stateful_dataloader"
    ):
        for source, name, call in code.find("load_state"):
            if "accelerator" in owner(name):
                yield source.sight("accelerate-replays-batches", call, is_sure=False)


def moved_argument(code: Code) -> Iterator[Sight]:
    """Lightning's Trainer(resume_from_checkpoint=...)."""
    if code.imports & {"lightning", "pytorch_lightning"}:
        for source, _, call in code.find("Trainer"):
            if argument(call, "resume_from_checkpoint") is not None:
                yield source.sight("lightning-resume-argument", call)


def never_resumes(code: Code) -> Iterator[Sight]:
    """A Hugging Face trainer whose train() is never given a checkpoint."""
    if not code.imports & {"transformers", "trl"} or code.uses("resume_from_checkpoint", "get_last_checkpoint"):
        return
    for source in code.sources:
        theirs = {
            alias.asname or alias.name
            for node in source.every(ast.ImportFrom)
            if (node.module or "").split(".")[0] in ("transformers", "trl")
            for alias in node.names
        }
        theirs |= {c.name for c in source.every(ast.ClassDef) if theirs & {dotted(base) for base in c.bases}}
        trainers = {
            name
            for name, value, _ in source.assigned
            if isinstance(value, ast.Call) and last(dotted(value.func)).endswith("Trainer")
            if dotted(value.func) in theirs or dotted(value.func).startswith(("transformers.", "trl."))
        }
        for name, call in source.find("train"):
            if owner(name) in trainers and not call.args and not is_open(call):
                yield source.sight("trainer-has-nothing-to-resume", call, is_sure=False)


def buffer_lost(code: Code) -> Iterator[Sight]:
    """An off-policy agent that is saved and loaded without its replay buffer."""
    if "stable_baselines3" not in code.imports or code.uses("save_replay_buffer"):
        return
    agents = {
        name
        for source in code.sources
        for name, value, _ in source.assigned
        if any(set(dotted(call.func).split(".")) & _OFF_POLICY for call in inside(value, ast.Call))
    }
    if any(set(name.split(".")) & _OFF_POLICY for _, name, _ in code.find("load")):
        for source, name, call in code.find("save"):
            if owner(name) in agents:
                yield source.sight("replay-buffer-not-saved", call)


def bare_latents(code: Code) -> Iterator[Sight]:
    """Latents of a VAE that are used as they come."""
    if not code.uses("scaling_factor", "scale_factor", "latents_std") and "0.18215" not in _numbers(code):
        for source, name, call in code.find("sample", "mode"):
            if "latent_dist" in name:
                yield source.sight("latents-not-scaled", call)


def _saves_optimizer(code: Code) -> bool:
    """Whether an optimizer's state goes into something."""
    return code.uses("optim_state_dict", "get_state_dict", "get_optimizer_state_dict") or any(
        source.speaks_of(owner(name), "opt") for source, name, _ in code.find("state_dict")
    )


def _is_save(call: ast.Call) -> bool:
    word = last(dotted(call.func)).lower()
    return (
        word.startswith("save") or word == "dump" or any(f"{verb}_{noun}" in word for verb in _VERBS for noun in _NOUNS)
    )


def _saves_dict(code: Code) -> bool:
    """Whether torch.save writes a dict of states, which is a checkpoint and no model for use."""
    for source, name, call in code.find("save"):
        if name == "torch.save" and call.args:
            given = [call.args[0], *(value for bound, value, _ in source.assigned if bound == dotted(call.args[0]))]
            for value in given:
                is_dict = isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and dotted(value.func) == "dict")
                if is_dict and called(value, "state_dict"):
                    return True
    return False


def _left_out(code: Code, which: str, word: str, tick: str) -> Iterator[Sight]:
    """The first call of `tick` on what is called so, where a checkpoint is written and does not hold its state."""
    if code.imports & _WHOLE or any(s.speaks_of(owner(name), word) for s, name, _ in code.find("state_dict")):
        return
    if not any(_is_save(call) for source in code.sources for _, call in source.calls):
        return
    for source, name, call in code.find(tick):
        if not source.speaks_of(owner(name), word) or _TOLD_WHERE.search(ast.unparse(call).rpartition("(")[2]):
            continue  # step(epoch) keeps nothing
        saver = Code((source,)) if any(n == "torch.save" for n, _ in source.find("save")) else code
        keeps = any(
            isinstance(up, ast.ClassDef) and "state_dict" in {f.name for f in inside(up, ast.FunctionDef)}
            for up in source.above(call)
        )
        if not keeps and (_saves_optimizer(saver) or _saves_dict(saver)):
            yield source.sight(which, call)
            return


def _trains(source: Source, loop: ast.For) -> bool:
    """Whether the loop trains: itself, or by a function of this file or of one of the usual names."""
    names = {function.name for function in source.every(ast.FunctionDef) if called(function, "backward")}
    return bool(called(loop, "backward", "train", "train_one_epoch", "train_epoch", "fit", "run_epoch", *names))


def _skips(loop: ast.For) -> bool:
    """Whether it passes over epochs: `if epoch < self.epoch: continue`."""
    return any(
        isinstance(step, ast.If)
        and isinstance(step.body[-1], ast.Continue)
        and any("epoch" in name.lower() for name in names_in(step.test))
        for step in loop.body
    )


def _numbers(code: Code) -> set[str]:
    return {
        str(constant(node))
        for source in code.sources
        for node in source.every(ast.Constant)
        if isinstance(constant(node), float)
    }


RULES = (
    weights_only,
    no_scheduler,
    no_scaler,
    no_average,
    saved_in_handler,
    epoch_from_zero,
    replayed,
    moved_argument,
    never_resumes,
    buffer_lost,
    bare_latents,
)
