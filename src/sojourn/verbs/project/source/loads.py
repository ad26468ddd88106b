"""What a training loads again of what it saves: calls that load, before it first saves, by the paths they are given."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator, Sequence

from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.paths import Names, as_glob
from sojourn.verbs.project.source.writes import Write

_LOADS = {
    *("load", "load_checkpoint", "load_state", "load_weights", "load_model", "load_file", "read_bytes", "read_text"),
    *(
        "restore",
        "restore_checkpoint",
        "load_state_dict",
        "unpickle",
        "read_pickle",
        "resume",
        "load_learner",
        "set_parameters",
    ),
}
# Calls that look for a checkpoint: what they find is loaded by a path that the source does not tell.
_LOOKS = {
    *("exists", "is_file", "isfile", "isdir", "is_dir", "glob", "rglob", "latest_checkpoint", "listdir", "iterdir"),
    *("scandir", "latest_step", "get_last_checkpoint", "latest"),
}
_BY_THEMSELVES = {"BackupAndRestore", "get_last_checkpoint"}  # what is given their folder resumes from it


def loaded(calls: Sequence[ast.Call], names: Names, kept: Sequence[str], writers: Sequence[Write]) -> tuple[str, ...]:
    """Those of the `kept` paths that it loads from before `writers` first save a checkpoint. `calls`: in order."""
    saved = {write.node for write in writers if not _is_constructed(write)}
    first = next((place for place, call in enumerate(calls) if id(call) in saved), len(calls))
    before = calls[:first]
    if any(_is_given_the_last(call) for call in calls) or _is_given_what_was_found(calls):
        # A trainer looks in the folder of its own saves: what else the script writes, it writes at the end.
        own = [one for one in kept if any(_is_constructed(write) and _is_of(write.glob, one) for write in writers)]
        return tuple(own or kept)
    given = [
        as_glob(text)
        for call in calls
        if last(call.func) in _BY_THEMSELVES
        for p in _paths(call)
        for text in names.paths(p)
    ]
    if given:
        return tuple(one for one in kept if any(_is_of(text, one) for text in given))
    found: list[str] = []
    unknown = False
    for call in before:
        name = last(call.func)
        if name in _LOADS or name == "open":
            texts = [as_glob(text) for path in _paths(call) for text in names.paths(path)]
            hits = [one for one in kept if any(_is_of(text, one) for text in texts)]
            found += hits
            unknown = unknown or (name != "open" and (not texts or any(map(_is_unknown, texts))))
    if found:
        return tuple(one for one in kept if one in found)
    looked = [call for call in before if last(call.func) in _LOOKS]
    if unknown and looked:
        texts = [as_glob(text) for call in looked for path in _paths(call) for text in names.paths(path)]
        known = [one for one in kept if any(_is_of(text, one) for text in texts)]
        if known or all(map(_is_unknown, texts)):
            return tuple(known or kept)
    return ()


def _is_constructed(write: Write) -> bool:
    """Whether the object saves by itself: `ModelCheckpoint(folder)`, `TrainingArguments(folder)`."""
    return write.how.rpartition(".")[2][:1].isupper()


def _is_given_the_last(call: ast.Call) -> bool:
    """`trainer.fit(..., ckpt_path="last")`, `trainer.train(resume_from_checkpoint=get_last_checkpoint(...))`."""
    return any(
        (keyword.arg == "ckpt_path" and constant(keyword.value) in ("last", "hpc"))
        or (keyword.arg == "resume_from_checkpoint" and constant(keyword.value) is True)
        for keyword in call.keywords
    )


def _is_given_what_was_found(calls: Sequence[ast.Call]) -> bool:
    """`found = get_last_checkpoint(folder)`, and later `trainer.train(resume_from_checkpoint=found)`."""
    is_found = any(last(call.func) in ("get_last_checkpoint", "latest_checkpoint", "latest_step") for call in calls)
    words = ("resume_from_checkpoint", "ckpt_path")
    return is_found and any(
        keyword.arg in words and not isinstance(keyword.value, (ast.Constant, ast.Attribute))
        for call in calls
        for keyword in call.keywords
    )


def _paths(call: ast.Call) -> Iterator[ast.expr]:
    """What a call may be given as its path: its first argument, a keyword, the value that a method belongs to."""
    mode = constant(call.args[1]) if last(call.func) == "open" and len(call.args) > 1 else "r"
    if isinstance(mode, str) and set(mode) & set("wax"):
        return
    for value in [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg)]:
        inner = value.args[0] if isinstance(value, ast.Call) and last(value.func) == "open" and value.args else value
        yield inner
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and (not call.args or (last(call.func) in ("glob", "rglob") and last(owner) != "glob")):
        yield owner


def _is_unknown(text: str) -> bool:
    """Whether the source does not even tell the folder."""
    return not re.search(r"\w", text.partition("/")[0])


def _is_of(text: str, kept: str) -> bool:
    """Whether a path, with gaps as `*`, may be the kept one or lie in it."""
    head = text.partition("/")[0]
    if text == kept or head == kept or text.startswith(kept + "/"):
        return True
    return bool(re.search(r"\w", text)) and "*" in text and fnmatch.fnmatch(kept, text)
