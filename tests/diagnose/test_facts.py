"""Raw texts of real machines give the observations that their case file says; what a text does not tell is absent."""

import json
from pathlib import Path

import pytest

from sojourn.diagnose import evidence, vocabulary
from sojourn.diagnose.facts import table
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

FILES = sorted((Path(__file__).parent / "specimens/facts").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_probe_tells_what_its_case_says(file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    assert case["source"]
    probe = table.Probe(
        case["probe"],
        case.get("stdout", ""),
        case.get("stderr", ""),
        case.get("rc"),
        "",
        case.get("launch", {}),
        case.get("others", {}),
    )
    found = table.observe(probe)
    assert {name: found.get(name, "absent") for name in case["expect"]} == case["expect"]
    types = {"bool": bool, "int": int, "float": (int, float), "text": str, "list": list, "map": dict}
    for name, value in found.items():
        known = vocabulary.observations()[name]
        assert isinstance(value, types[known.type]) or (value is None and known.may_be_null), (name, value)  # type: ignore[arg-type]


JUDGED = [file for file in FILES if "verdict" in json.loads(file.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("file", JUDGED, ids=lambda f: f.stem)
def test_raw_text_alone_gives_the_verdict_or_none(file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    probes = {name: {"stdout": text} for name, text in case.get("others", {}).items()}
    probes[case["probe"]] = {key: case.get(key) for key in ("rc", "stdout", "stderr")}
    document = {"scope": case["scope"], "launch": case.get("launch", {}), "probes": probes}
    found = reason(gotchas(), evidence.from_document(document, gotchas()))
    assert (found.verdict.id if found.verdict else None) == case["verdict"], [(f.id, f.status) for f in found.findings]
    assert not found.is_healthy


@pytest.mark.parametrize("reader", table.readers(), ids=lambda r: r.named)
def test_a_reader_makes_nothing_of_an_empty_or_strange_text(reader: table.Reader) -> None:
    for text in ("", "\n", "permission denied", "\x00\xff" * 50, "{", "[]", "a b c d e f\n" * 3):
        for name in reader.parse(table.Probe("probe", text)):
            assert name in vocabulary.observations()


def test_a_probe_with_a_strange_name_is_known_by_its_text() -> None:
    text = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n/dev/sda1 100 100 0 100% /\n"
    assert table.observe(table.Probe("room", text))["disk.bytes_pct"] == 1.0
