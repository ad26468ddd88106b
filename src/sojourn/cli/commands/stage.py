"""`sojourn stage`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "copy a data set to a fast local disk of the box, verified"
GROUP, PLACE = "Before a run", 217
ABOUT = (
    "Copies a folder or file from slow storage of a box, such as a network volume or a mounted bucket, to one of its"
    " local disks. SRC and DST are both paths on that box. Bytes and inodes of the disk are checked first; every copy"
    " is read back and compared by SHA-256; DST gets its name only when it is whole.",
    "The copy runs on the box by itself and survives a lost connection. The same command again joins it, continues"
    " what was interrupted, or copies only what has changed. A changed DST is replaced at once; do not replace one"
    " that a run is reading.",
)
EXAMPLES = (
    ("sojourn stage /mnt/volume/imagenet /scratch/imagenet --site ssh:gpu-box", "on a box over SSH"),
    ("sojourn stage data/train /dev/shm/train", "on this machine, into memory"),
    ("sojourn stage data/train /dev/shm/train --stop", "end the copy; the same command without --stop continues"),
)
EXITS = (
    (0, "DST is the source, whole and verified"),
    (1, "not staged: a file cannot be read, or the source keeps changing"),
    (2, "no such SRC; DST holds something else, or is on the same disk or on network storage"),
    (3, "cannot reach the box; a copy that was started continues there"),
    (5, "the disk has no room, or the copy failed"),
)
INTERRUPTED = "The copy continues on the box; run the same command again to wait for it, or with --stop to end it."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("source", metavar="SRC", help="the folder or file on slow storage")
    parser.add_argument("target", metavar="DST", help="the name of the copy, on a local disk of the same box")
    parser.add_argument(
        "--site", default="", metavar="SITE", help="local, ssh:ALIAS, or a site from your settings (default: local)"
    )
    parser.add_argument(
        "--streams", type=_streams, default=8, metavar="N", help="files copied at the same time, 1 to 64 (default: 8)"
    )
    parser.add_argument(
        "--rehash", action="store_true", help="compare contents, not size and times, of what is already there"
    )
    parser.add_argument("--any-disk", action="store_true", help="allow a DST on the disk of SRC, or on network storage")
    parser.add_argument("--stop", action="store_true", help="end a copy that is going on")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import stage as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.datasets import stage

    with Context.open(say=screen.progress) as ctx:
        if args.stop:
            answer = stage.stop(ctx, args.source, args.target, site=args.site)
        else:
            answer = stage.stage(
                ctx,
                args.source,
                args.target,
                site=args.site,
                streams=args.streams,
                rehash=args.rehash,
                any_disk=args.any_disk,
            )
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _streams(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("a number from 1 to 64")
    return int(text)
