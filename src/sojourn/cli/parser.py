"""The command line's grammar: every file in `cli/commands` is a command; its help is laid out here. Imports no verb."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from sojourn.cli.show.text import fold, pad
from sojourn.wire import units
from sojourn.wire.errors import Misuse
from sojourn.wire.names import nearest

PURPOSE = "run a training job on another machine and bring back verified results"
WIDE = 80  # columns of every help page, the same everywhere
_FOLDER = os.path.join(os.path.dirname(__file__), "commands")


class BadCommandLine(Misuse):
    """{detail}"""

    code = "bad-command-line"
    next_step = "{help} --help"


class OtherWord(Misuse):
    """There is no command {word!r}; sojourn calls it `{meant}`. Nothing was done."""

    code = "other-word"
    next_step = "sojourn {meant}"


# Words from other tools; they are answered, never carried out.
MEANT = {
    **dict.fromkeys(("ps", "ls", "list", "queue", "jobs", "top"), "status"),
    **dict.fromkeys(("show", "info", "describe"), "status RUN"),
    **dict.fromkeys(("cancel", "kill", "interrupt"), "stop RUN"),
    **dict.fromkeys(("launch", "start", "submit", "train"), "run"),
    **dict.fromkeys(("restart", "continue", "retry"), "resume RUN"),
    **dict.fromkeys(("rm", "remove", "prune"), "clean SITE RUN"),
    **dict.fromkeys(("delete", "destroy", "terminate", "release"), "down LEASE"),
    **dict.fromkeys(("log", "tail", "attach"), "logs RUN -f"),
    **dict.fromkeys(("download", "fetch", "sync", "get", "rsync", "scp"), "pull RUN"),
    **dict.fromkeys(("check", "validate", "price", "estimate", "dry-run"), "plan"),
    **dict.fromkeys(("debug", "explain", "diagnose"), "why RUN"),
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with our help page, and errors that are raised and name the nearest valid flag."""

    spec: ModuleType | None = None  # the command's own module

    def error(self, message: str) -> NoReturn:
        """Raises: BadCommandLine."""
        raise BadCommandLine(detail=message, help=self.prog)


def build() -> Parser:
    """The whole grammar, as shell completion needs it. Imports every file of cli/commands and no verb."""
    top = Parser(prog="sojourn", description=f"{PURPOSE[0].upper()}{PURPOSE[1:]}.")
    top.add_argument("--version", action="version", version="sojourn")
    subparsers = top.add_subparsers(metavar="COMMAND", dest="command", parser_class=Parser)
    for _, members in groups():
        for name in members:
            module = load(name)
            child = subparsers.add_parser(name, help=module.SUMMARY, add_help=False, allow_abbrev=False)
            _fill(child, module)
    return top


@functools.cache
def names() -> tuple[str, ...]:
    """Every command: the files of cli/commands, by name. The folder is the list. Imports none of them."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules([_FOLDER])))


def groups() -> list[tuple[str, list[str]]]:
    """(heading, names of commands) in the order of `sojourn --help`. Imports every file of cli/commands.

    A command's file gives its heading (GROUP) and position (PLACE, lowest first); a heading appears where its first
    command does. A file with neither comes last, under "Other".
    """
    out: dict[str, list[str]] = {}
    for name in sorted(names(), key=lambda name: (getattr(load(name), "PLACE", 9999), name)):
        out.setdefault(getattr(load(name), "GROUP", "Other"), []).append(name)
    return list(out.items())


def parse(name: str, words: Sequence[str]) -> argparse.Namespace:
    """The arguments after `sojourn NAME`. Options and arguments may come in any order.

    A command whose file says COMMAND takes everything after `--` unchanged, in `args.command`.
    Raises: BadCommandLine, with the nearest valid flag.
    """
    child, own, rest = _child(name), list(words), []
    if hasattr(load(name), "COMMAND") and "--" in own:
        at = own.index("--")
        own, rest = own[:at], own[at + 1 :]
        if not rest:
            child.error("there is no command after --")
    args, unknown = child.parse_known_intermixed_args(own)
    args.command = rest
    if unknown:
        wrong = unknown[0]
        flag = wrong.split("=")[0]
        near = nearest(flag, [s for action in child._actions for s in action.option_strings])
        is_option = flag.startswith("-") and flag != "-"
        what = f"unknown option {flag}" if is_option else f"unexpected argument {wrong!r}"
        child.error(what + (f"; did you mean {near}?" if near else ""))
    return args


def load(name: str) -> ModuleType:
    """The module of a command. Raises: BadCommandLine with the nearest name."""
    if name not in names():
        if name in MEANT:
            raise OtherWord(word=name, meant=MEANT[name])
        near = nearest(name, names())
        raise BadCommandLine(
            detail=f"unknown command {name!r}" + (f"; did you mean {near}?" if near else ""), help="sojourn"
        )
    return importlib.import_module(f"sojourn.cli.commands.{name}")


def page(name: str) -> list[str]:
    """The text of `sojourn NAME --help`; our own, since argparse's changes between Python versions."""
    return _page(_child(name))


def overview() -> list[str]:
    """The text of `sojourn --help`."""
    lines = [f"sojourn: {PURPOSE}", "", "usage    sojourn COMMAND ..."]
    for title, members in groups():
        lines += ["", title]
        lines += [f"  {pad(name, 10)}  {load(name).SUMMARY}" for name in members]
    return [
        *lines,
        "",
        "For options and examples: sojourn COMMAND --help. Most commands accept --json.",
        "For the documentation: sojourn help (lists the topics).",
        "Runs, sweeps, leases and sites can be given by any unique prefix of their name.",
    ]


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`, the same for every command that answers with a document."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_reopen(parser: argparse.ArgumentParser) -> None:
    """`--confirm LEASE` of a command that starts something."""
    words = "agree in advance, by the lease's exact name, to rent it or to start on a lease cleared for release"
    parser.add_argument("--confirm", default="", metavar="LEASE", help=words)


def add_job(parser: argparse.ArgumentParser) -> None:
    """The job and where it runs: FILE, --site, --new-machine, --name, --env, --slurm."""
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the job file (default: ./sojourn.yaml)")
    parser.add_argument("--site", default="", metavar="S", help="run on this site, overriding the job file")
    parser.add_argument("--new-machine", action="store_true", help="rent another machine, even if the site has one")
    parser.add_argument("--name", default="", metavar="N", help="name the run, overriding the job file")
    parser.add_argument("--new", action="store_true", help="if the name is taken, use the next free number: NAME-2")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=pair,
        metavar="K=V",
        help="set an environment variable; repeatable; K alone takes its value from your environment",
    )
    add_scheduling(parser)


def add_scheduling(parser: argparse.ArgumentParser) -> None:
    """`--slurm OPTION=VALUE`."""
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        type=option,
        dest="scheduling",
        metavar="O=V",
        help="set an option of sbatch by its long name (time=2:00:00), overriding job file and site; repeatable",
    )


def add_confirm(parser: argparse.ArgumentParser, what: str) -> None:
    """`--confirm NAME`, and `-y`, which is accepted and answers nothing."""
    parser.add_argument("--confirm", default="", metavar=what, help="confirm by exact name, for scripts; no prefix")
    parser.add_argument("-y", "--yes", action="store_true", help="accepted, but does not confirm: give the name")


def add_giving_up(parser: argparse.ArgumentParser, what: str) -> None:
    """`--abandon` and `--accept`: results given up though not pulled, or accepted though not loaded."""
    parser.add_argument(
        "--abandon",
        nargs="+",
        action="extend",
        default=[],
        metavar=what,
        help="give up results that were not pulled, by full name",
    )
    parser.add_argument(
        "--accept",
        nargs="+",
        action="extend",
        default=[],
        metavar="RUN:PATH",
        help="accept a file pulled byte for byte that could not be loaded",
    )


def duration(text: str) -> float:
    """argparse type: seconds from 90s, 20m, 1h30m."""
    try:
        return units.seconds(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def whole(text: str) -> int:
    """argparse type: a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def option(text: str) -> tuple[str, str | bool]:
    """argparse type: `OPTION=VALUE`, or `OPTION` for one without a value."""
    from sojourn.store.job.scalars import long_option

    key, equals, value = text.partition("=")
    try:
        return long_option(key), value if equals else True
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pair(text: str) -> tuple[str, str]:
    """argparse type: `KEY=VALUE`, or `KEY` with its value here; KEY is the name of an environment variable."""
    key, equals, value = text.partition("=")
    if not equals and key in os.environ:
        return key, os.environ[key]
    if not equals and key.isidentifier() and key.isascii():
        raise argparse.ArgumentTypeError(f"{key} is not set here: write {key}=VALUE, or export it first")
    if not equals or not key.replace("_", "a").isalnum() or not key.isascii() or key[0].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def metric(text: str) -> tuple[str, str]:
    """argparse type: `NAME`, `NAME=max` or `NAME=min`; the direction is "" if not given."""
    name, _, way = text.rpartition("=") if text.endswith(("=max", "=min")) else (text, "", "")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME, NAME=max or NAME=min")
    return name, way


def _child(name: str) -> Parser:
    return _fill(Parser(prog=f"sojourn {name}", add_help=False, allow_abbrev=False), load(name))


def _fill(child: Parser, module: ModuleType) -> Parser:
    child.spec = module
    module.arguments(child)
    child.add_argument("-h", "--help", action="help", help="show this help")
    return child


def _page(parser: Parser) -> list[str]:
    spec: Any = parser.spec
    lines = fold(f"{parser.prog}: {spec.SUMMARY}", WIDE)
    lines += ["", *_folded("usage    ", _usage(parser))]
    for paragraph in spec.ABOUT:
        lines += ["", *fold(paragraph, WIDE)]
    positional = [a for a in parser._actions if not a.option_strings]
    options = [a for a in parser._actions if a.option_strings]
    for title, actions in (("arguments", positional), ("options", options)):
        if actions:
            lines += ["", title]
            for action in actions:
                lines += _entry(_spelling(action), action.help or "")
            if title == "arguments" and hasattr(spec, "COMMAND"):
                lines += _entry("-- CMD...", spec.COMMAND)
    lines += ["", "examples"]
    for line, what in spec.EXAMPLES:
        lines += _entry(line, what)
    lines += ["", "exit status"]
    for status, what in spec.EXITS:
        lines += _folded(f"  {status:>3}  ", what)
    return lines


def _entry(left: str, right: str) -> list[str]:
    if len(left) <= 24:
        return _folded(f"  {left:<24}  ", right)
    return [f"  {left}", *_folded(" " * 28, right)]


def _folded(left: str, text: str) -> list[str]:
    parts = fold(text, WIDE - len(left))
    return [(left if i == 0 else " " * len(left)) + part for i, part in enumerate(parts)]


def _usage(parser: Parser) -> str:
    words = [parser.prog]
    for action in [a for a in parser._actions if a.option_strings and a.dest != "help"]:
        value = _value(action)
        word = action.option_strings[0] + (" " + value if value else "")
        words.append((word if action.required else f"[{word}]").replace(" ", "\u00a0"))
    words += [_value(action) for action in parser._actions if not action.option_strings]
    words += ["[-- CMD...]"] if hasattr(parser.spec, "COMMAND") else []
    return " ".join(words).replace("\u00a0", " ")


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.nargs == "?":
        return f"[{name}]"
    return f"[{name}...]" if action.nargs == "*" else f"{name}..." if action.nargs == "+" else name


def _spelling(action: argparse.Action) -> str:
    value = _value(action)
    return ", ".join(action.option_strings) + (" " + value if value else "") if action.option_strings else value
