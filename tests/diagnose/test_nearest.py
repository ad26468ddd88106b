"""Where no pattern fits, known logs say what it looks like: measured by leaving out whole repositories."""

import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.diagnose import nearest as near
from sojourn.diagnose.nearest import compile_known, nearest, telling
from sojourn.diagnose.words import terms
from sojourn.verbs.explain.known_logs import NO_CAUSE, known_logs
from sojourn.verbs.explain.why import of_log

LOGS = Path(__file__).parent / "specimens/logs"
CASES = [tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(LOGS.glob("*.toml"))]
CASES = [case for case in CASES if case["expect"][0] not in NO_CAUSE]


def repository(case: dict[str, str]) -> str:
    return "/".join(case["source"].split("/")[2:5])


def of_repositories() -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for number, case in enumerate(CASES):
        found[repository(case)].add(number)
    return found


def measured(ask: Callable[[str, set[int]], list[str]]) -> tuple[float, float, float]:
    """Shares: of logs of which something is said; of those, where the first entry is right, and any of three."""
    own = of_repositories()
    said = [(ask(case["log"], own[repository(case)])[:3], case["expect"]) for case in CASES]
    said = [(names, right) for names, right in said if names]
    first = sum(names[0] in right for names, right in said) / len(said)
    return len(said) / len(CASES), first, sum(not set(names).isdisjoint(right) for names, right in said) / len(said)


def bm25() -> Callable[[str, set[int]], list[str]]:
    """The peer: BM25 over the same lines, with the usual k1 = 1.2 and b = 0.75; the entries of its best logs."""
    counted = [Counter(terms("\n".join(telling(case["log"])))) for case in CASES]
    mean = sum(map(Counter.total, counted)) / len(counted)
    rows: dict[str, list[tuple[int, float]]] = defaultdict(list)
    frequency = Counter(term for counts in counted for term in counts)
    for number, counts in enumerate(counted):
        norm = 1.2 * (0.25 + 0.75 * counts.total() / mean)
        for term, times in counts.items():
            rare = math.log(1 + (len(counted) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            rows[term].append((number, rare * times * 2.2 / (times + norm)))

    def ask(log: str, without: set[int]) -> list[str]:
        scores: dict[int, float] = defaultdict(float)
        for term in set(terms("\n".join(telling(log)))):
            for number, weight in rows.get(term, ()):
                scores[number] += weight if number not in without else 0.0
        best = sorted(scores, key=lambda number: -scores[number])[:20]
        return list(dict.fromkeys(CASES[number]["expect"][0] for number in best))

    return ask


@pytest.mark.campaign
def test_of_logs_from_repositories_it_never_saw_most_are_like_the_right_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    index = known_logs()
    assert len(index["logs"]) == len(CASES) > 1000

    def ask(log: str, without: set[int]) -> list[str]:
        return [one.id for one in nearest(index, log, without)]

    said, first, any_of_three = measured(ask)
    print(f"said {said:.3f}, first right {first:.3f}, one of three right {any_of_three:.3f}")
    assert said >= 0.75 and first >= 0.73 and any_of_three >= 0.86
    monkeypatch.setattr(near, "SURE", 0.0)
    of_all, peer = measured(ask), measured(bm25())
    print("of all logs:", of_all, "BM25:", peer)
    assert of_all[0] * of_all[1] >= peer[0] * peer[1] and of_all[0] * of_all[2] >= peer[0] * peer[2]


def test_a_log_is_compared_by_what_its_lines_say_not_by_numbers_folders_colours_or_its_own_words() -> None:
    index = compile_known(
        [
            ("full", "write /data/a/model.pt failed: quota of 10 GiB used up"),
            ("full", "write /x/last.pt failed: quota used up"),
            ("gone", "cannot reach licence daemon 10.0.0.1"),
            ("gone", "cannot reach licence daemon"),
            *[("other", f"error number {i}: unlike all others, wordless{i}") for i in range(5)],
        ]
    )
    log = "Epoch 3\n\x1b[31mwrite /home/me/model.pt failed: quota of 7 GiB used up\x1b[0m\nbye\n"
    (found,) = nearest(index, log)
    assert (found.id, found.logs) == ("full", 2) and found.score > 0.5
    assert found.lines == ("write /home/me/model.pt failed: quota of 7 GiB used up",)
    assert nearest(index, "Epoch 4 loss 0.2\n") == nearest(index, "") == ()
    assert nearest(index, log, without={0, 1}) == ()
    assert nearest(compile_known(()), log) == ()


UNKNOWN = "loading\nlibfoo.so.3 cannot open shared thing\nlauncher: fatal: no such object, giving up\n"


def test_why_says_so_as_a_possibility_and_only_where_nothing_is_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sojourn.cli.main import main

    log = tmp_path / "log"
    log.write_text(UNKNOWN)
    why = of_log(str(log))
    assert why.judged.verdict is None and why.exit_status == 10
    assert why.alike[0].id == "missing-library" == why.as_json()["nearest"][0]["id"]
    assert main(["why", "--log", str(log)]) == 10
    said = capsys.readouterr().out
    assert "possible looks like" in " ".join(said.split()) and "[missing-library]" in said
    assert said.splitlines()[-1].split() == ["next", "sojourn", "gotchas", "show", "missing-library"]
    log.write_text(UNKNOWN + "Epoch 1: loss 0.3\nEpoch 2: loss 0.2\nTraining finished\n")
    assert of_log(str(log)).alike == () and "nearest" not in of_log(str(log)).as_json()
