"""`sojourn gpu`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json, duration
from sojourn.cli.screen import Screen

SUMMARY = "show GPU health and which processes use each GPU"
GROUP, PLACE = "For experts", 705
ABOUT = (
    "Samples the GPUs for two seconds through NVML or nvidia-smi: memory, clocks, power, throttling, ECC errors,"
    " remapped rows, and Xid errors in the kernel log. Clocks and power are judged only under load; a low clock on"
    " an idle GPU is normal.",
    "--matmul runs matrix multiplications on idle GPUs for a few seconds, using the site's Python with torch, and"
    " checks that the result is the same each time. Every process that holds a GPU is listed, including those that"
    " nvidia-smi does not show.",
)
EXAMPLES = (
    ("sojourn gpu", "this machine"),
    ("sojourn gpu ssh:gpu-box --matmul", "under load; GPUs in use are left alone"),
    ("sojourn gpu lab --json", "as JSON, for a script"),
)
EXITS = (
    (0, "no problems found, or no GPUs"),
    (2, "no such site"),
    (3, "cannot reach the site"),
    (10, "warnings: a GPU is throttled, or an orphaned process holds one"),
    (11, "a confirmed blocker: a GPU is lost or faulty, or the driver is missing"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "site",
        nargs="?",
        default="",
        metavar="SITE",
        help="local, ssh:ALIAS, or a site from your settings (default: local)",
    )
    parser.add_argument("--matmul", action="store_true", help="run matrix multiplications on idle GPUs meanwhile")
    parser.add_argument(
        "--seconds",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="how long to sample, up to 1m (default: 2s; 5s with --matmul)",
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import gpu as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.explain.gpu import gpu

    with Context.open(say=screen.progress) as ctx:
        answer = gpu(ctx, args.site, matmul=args.matmul, seconds=args.seconds)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
