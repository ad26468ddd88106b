"""`sojourn shard`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen
from sojourn.wire import units

SUMMARY = "pack a folder of many small files into tar shards for WebDataset"
GROUP, PLACE = "Before a run", 220
ABOUT = (
    "Files whose paths are equal up to the first dot of the file name are one sample and stay in one shard. Each shard"
    " is read back from the disk and compared before it gets its name, and `shards.json` beside the shards lists size"
    " and SHA-256 of each. The same folder always gives the same bytes. DIR is only read.",
)
EXAMPLES = (
    ("sojourn shard data/train", "writes data/train-shards/train-000000.tar and so on"),
    ("sojourn shard data/train --size 1GiB --to /scratch/train", "larger shards, in a folder of your choice"),
)
EXITS = (
    (0, "every shard is whole"),
    (1, "a shard did not read back as it was written"),
    (2, "no samples in DIR, a link that leaves it, or the target holds other files"),
)
INTERRUPTED = "Finished shards are kept; run the same command again to continue."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("folder", metavar="DIR", help="the folder of samples")
    parser.add_argument("--to", default="", metavar="FOLDER", help="where the shards go (default: DIR-shards)")
    parser.add_argument(
        "--size", type=_size, default=256 << 20, metavar="SIZE", help="approximate size of a shard (default: 256MiB)"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import shard as show
    from sojourn.verbs.datasets.shard import shard

    answer = shard(args.folder, to=args.to, shard_bytes=args.size, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status


def _size(text: str) -> int:
    try:
        return max(1, units.size_bytes(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
