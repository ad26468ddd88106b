"""A tree that was pushed before: only what changed is told and sent; what was remembered wrongly costs a question."""

import shutil
from typing import Any

from sojourn.store import snapshot
from sojourn.wire import atomic
from tests.verbs.test_moving import Pair, noise, pair

__all__ = ["pair"]


def test_a_small_change_is_one_question_of_its_own_size_and_no_stream(pair: Pair) -> None:
    pair.write({f"f{n:05d}": noise(300, n) for n in range(3000)})
    (pair.tree / "link").symlink_to("f00001")
    pair.push()
    pair.write({"f00007": noise(5000, 5000), "new": noise(700, 5001)})
    (pair.tree / "f00008").unlink()
    (pair.tree / "f00009").rename(pair.tree / "f00009-renamed")
    (pair.tree / "f00010").chmod(0o755)
    asked: list[int] = []
    streams, call = pair.line.streams, pair.line.call

    def counted(argv: Any, **how: Any) -> Any:
        asked.append(len(how["stdin"]))
        return call(argv, **how)

    pair.line.call = counted  # type: ignore[method-assign]
    assert pair.is_whole(pair.push())
    assert (pair.line.streams - streams, len(asked), asked[0] < 5700 + 2000) == (0, 1, True)
    assert pair.staged() == []


def test_a_change_to_a_tree_that_the_box_has_lost_is_pushed_as_a_whole(pair: Pair) -> None:
    pair.write({f"f{n}": noise(300, n) for n in range(50)})
    first = pair.push()
    shutil.rmtree(pair.there(first))
    pair.write({"f7": noise(400, 1000)})
    assert pair.is_whole(pair.push())
    (pair.there(snapshot.take_snapshot(str(pair.tree), everything=True)) / "roster.json").write_text("[]")
    pair.write({"f7": noise(500, 1001)})
    assert pair.is_whole(pair.push())


def test_a_remembered_roster_that_is_not_true_costs_only_a_question(pair: Pair) -> None:
    pair.write({f"f{n}": noise(300, n) for n in range(50)})
    first = pair.push()
    rows = [{**row, "sha256": "0" * 64} if row["path"] == "f9" else row for row in first.rows]
    atomic.write_json(str(pair.rosters / first.digest), rows[:-1])
    pair.write({"f7": noise(400, 1000)})
    assert pair.is_whole(pair.push())
