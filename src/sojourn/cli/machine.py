"""Options that say which machine to rent: --gpus, --cpus, --memory, --disk, --spot, --provider, --max-price."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.core.need import Need


def add_machine(parser: argparse.ArgumentParser) -> None:
    """What a machine must have, where it may be, and what it may cost."""
    parser.add_argument(
        "--gpus",
        action="append",
        default=[],
        type=_read("accelerator"),
        metavar="NAME:N",
        help="GPUs of the machine: A100, A100-80GB:2, 'RTX 4090:1'; repeat it to accept any of several",
    )
    parser.add_argument("--cpus", type=_read("amount"), default=None, metavar="N+", help="at least this many CPUs")
    parser.add_argument(
        "--memory", type=_read("gib"), default=None, metavar="GIB+", help="at least this much memory, in GiB"
    )
    parser.add_argument(
        "--disk", type=_read("gib"), default=None, metavar="GIB", help="at least this much disk, in GiB"
    )
    parser.add_argument("--spot", action="store_true", help="only interruptible machines, which cost less")
    parser.add_argument("--provider", default="", metavar="P", help="ask only this provider, or site of your settings")
    parser.add_argument(
        "--max-price", type=_rate, default=None, metavar="RATE", help="leave out machines that cost more: '2 USD/h'"
    )


def need_of(args: argparse.Namespace) -> Need | None:
    """What the options ask of a machine; None where they ask nothing."""
    from sojourn.core.need import Need

    cpus, memory, disk = args.cpus or (0.0, False), args.memory or (0.0, False), args.disk or (0.0, False)
    need = Need(tuple(args.gpus), cpus[0], cpus[1], memory[0], memory[1], disk[0])
    return None if need == Need() else need


def _read(what: str) -> Callable[[str], object]:
    """argparse type: as the job file reads it."""

    def read(text: str) -> object:
        from sojourn.store.job import scalars

        try:
            value: object = getattr(scalars, what)(text)
            return value
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from wrong

    return read


def _rate(text: str) -> tuple[int, str]:
    """argparse type: (micro-units an hour, currency)."""
    from sojourn.core import money

    try:
        return money.read_rate(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong
