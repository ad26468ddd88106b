"""`learn` drafts from evidence, refuses what is not grounded, edits nothing, and tells no secret."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sojourn.diagnose.evidence import from_document
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas, parse_gotcha
from sojourn.store.platforms import document, faults, text_of
from sojourn.verbs.explain import learn
from sojourn.verbs.explain.learn_fact import fact
from sojourn.verbs.explain.specimen import Hide, pattern, toml
from sojourn.verbs.explain.why import BadEvidence, CannotRead
from sojourn.wire.errors import Misuse

ROOT = Path(__file__).resolve().parents[2]
SAID = "floodgate.FluxError: flux capacitor 3 of 8 drained at /data/run7/flux.bin after 1200 s"
LOG = 'Traceback (most recent call last):\n  File "/home/me/t.py", line 3, in <module>\n    go()\n' + SAID + "\n"
ENVIRON = {"HOME": "/home/me", "WANDB_API_KEY": "abcd1234efgh", "LANG": "C"}
FILLED = {
    "title": "The flux capacitor drained",
    "theme": "gpu",
    "cause": "Its pump stops after twenty minutes.",
    "fix": "Set FLUX_PUMP=1.",
}


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def filled(tmp_path: Path, source: str = "measured, 2026-11") -> tuple[str, str]:
    """A log, and its draft as a person filled it in."""
    log = write(tmp_path / "train.log", LOG)
    text = learn.draft(log, environ=ENVIRON).text
    for key, value in FILLED.items():
        text = text.replace(f'{key} = "LACKS"', f"{key} = {toml(value)}")
    text = text.replace('sources = ["LACKS"]', f"sources = [{toml(source)}]").replace(
        'zh = "LACKS"', 'zh = "磁通电容耗尽"'
    )
    assert not [line for line in text.splitlines() if "LACKS" in line and not line.startswith("#")]
    return log, write(tmp_path / "draft.toml", text)


def near_miss(tmp_path: Path) -> str:
    return write(tmp_path / "near.log", LOG.replace("drained", "charged"))


def test_a_draft_holds_what_is_known_and_says_what_lacks(tmp_path: Path) -> None:
    log = write(tmp_path / "train.log", LOG)
    drafted = learn.draft(log, environ=ENVIRON)
    data = tomllib.loads(drafted.text)
    assert drafted.kind == "draft" and data["id"] == "fluxerror" and data["title"] == "LACKS"
    assert (
        data["patterns"][0]["text"]
        == r"floodgate\.FluxError: flux capacitor [\d.]+ of [\d.]+ drained at \S+ after [\d.]+ s"
    )


def test_a_root_caused_entry_with_a_near_miss_becomes_a_patch_that_applies(tmp_path: Path) -> None:
    log, draft = filled(tmp_path)
    made = learn.patch(log, draft, "root-caused", miss=near_miss(tmp_path), environ=ENVIRON)
    assert made.kind == "patch"
    repository = tmp_path / "r"
    repository.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True, timeout=120)
    subprocess.run(["git", "apply", "-"], cwd=repository, input=made.text, text=True, check=True, timeout=120)
    entry = repository / "src/sojourn/data/gotchas/fluxerror.toml"
    gotcha = parse_gotcha(entry.name, entry.read_text(encoding="utf-8"))
    assert gotcha.title == FILLED["title"] and gotcha.is_decidable
    names = sorted(path.name for path in (repository / "tests/specimens/fluxerror").iterdir())
    assert names == ["hit-1.json", "miss-1.json"]


@pytest.mark.parametrize(
    ("because", "says"),
    [
        ("", "--because is one of"),
        ("a-hunch", "--because is one of"),
        ("root-caused", "--miss FILE"),
        ("reproduced", "--again FILE"),
        ("mechanistic", "a URL that explains the mechanism"),
    ],
)
def test_what_is_not_grounded_is_refused_with_what_lacks(tmp_path: Path, because: str, says: str) -> None:
    log, draft = filled(tmp_path)
    with pytest.raises(learn.NotGrounded) as refused:
        learn.patch(log, draft, because, environ=ENVIRON)
    assert refused.value.exit_status == 4
    assert any(says in line for line in refused.value.fields["lines"])


def test_reproduced_needs_a_second_case_that_confirms_it(tmp_path: Path) -> None:
    log, draft = filled(tmp_path)
    second = write(tmp_path / "two.log", LOG.replace("3 of 8", "5 of 8"))
    made = learn.patch(log, draft, "reproduced", again=second, environ=ENVIRON)
    assert "hit-2.json" in made.text and any("another cause" in remark for remark in made.remarks)
    for other in (log, near_miss(tmp_path)):
        with pytest.raises(learn.NotGrounded):
            learn.patch(log, draft, "reproduced", again=other, environ=ENVIRON)


def test_mechanistic_needs_an_address(tmp_path: Path) -> None:
    log, draft = filled(tmp_path, source="https://example.org/flux (2026-11)")
    assert learn.patch(log, draft, "mechanistic", environ=ENVIRON).kind == "patch"


def test_a_miss_that_is_confirmed_too_tells_nothing_apart(tmp_path: Path) -> None:
    log, draft = filled(tmp_path)
    with pytest.raises(learn.NotGrounded) as refused:
        learn.patch(log, draft, "root-caused", miss=log, environ=ENVIRON)
    assert any("nothing distinguishes the cause" in line for line in refused.value.fields["lines"])


def test_a_draft_that_its_own_evidence_does_not_confirm_is_refused(tmp_path: Path) -> None:
    _, draft = filled(tmp_path)
    other = write(tmp_path / "other.log", "ValueError: something else\n")
    with pytest.raises(learn.NotGrounded) as refused:
        learn.patch(other, draft, "root-caused", miss=near_miss(tmp_path), environ=ENVIRON)
    assert any("do not confirm it" in line for line in refused.value.fields["lines"])


def test_an_unfilled_draft_is_told_every_gap(tmp_path: Path) -> None:
    log = write(tmp_path / "train.log", LOG)
    draft = write(tmp_path / "d.toml", learn.draft(log, environ=ENVIRON).text)
    with pytest.raises(learn.NotGrounded) as refused:
        learn.patch(log, draft, "root-caused", environ=ENVIRON)
    assert {line.split(":")[0] for line in refused.value.fields["lines"]} >= {"title", "theme", "cause", "fix", "zh"}


def test_what_is_known_or_healthy_teaches_nothing(tmp_path: Path) -> None:
    known = write(
        tmp_path / "known.log",
        "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried\n",
    )
    with pytest.raises(learn.NothingToLearn, match="gpu-out-of-memory"):
        learn.draft(known, environ=ENVIRON)
    well = write(tmp_path / "well.log", "Epoch 1/3 loss=0.4\nEpoch 2/3 loss=0.3\n")
    with pytest.raises(learn.NothingToLearn, match="no problem"):
        learn.draft(well, environ=ENVIRON)


@pytest.mark.parametrize("text", ["", "step 1\nstep 2\n", "[]"])
def test_where_nothing_failed_and_nothing_is_known_there_is_nothing_to_draft(tmp_path: Path, text: str) -> None:
    with pytest.raises(learn.NothingToLearn):
        learn.draft(write(tmp_path / "quiet.log", text), environ=ENVIRON)


def test_bytes_are_no_evidence_and_no_draft(tmp_path: Path) -> None:
    odd = tmp_path / "odd.bin"
    odd.write_bytes(b"\x80\0\xff" * 300)
    with pytest.raises(BadEvidence):
        learn.draft(str(odd), environ=ENVIRON)
    log, _ = filled(tmp_path)
    with pytest.raises(CannotRead):
        learn.patch(log, str(odd), "mechanistic", environ=ENVIRON)


def test_a_patch_brings_a_specimen_that_must_miss_and_does(tmp_path: Path) -> None:
    log, draft = filled(tmp_path, source="https://example.org/flux (2026-11)")
    made = learn.patch(log, draft, "mechanistic", environ=ENVIRON)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, timeout=120)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=made.text, text=True, check=True, timeout=120)
    entry = tmp_path / "src/sojourn/data/gotchas/fluxerror.toml"
    catalog = (*gotchas(), parse_gotcha(entry.name, entry.read_text(encoding="utf-8")))
    for name, is_it in (("hit-1", True), ("miss-1", False)):
        case = json.loads((tmp_path / f"tests/specimens/fluxerror/{name}.json").read_text(encoding="utf-8"))
        found = reason(catalog, from_document(case, catalog)).findings
        assert (("fluxerror", "confirmed") in [(f.id, f.status) for f in found]) is is_it


SECRETS = [
    "hf_abcdefghijklmnopqrstuv",
    "Authorization: Bearer abc.def-ghi_jkl",
    "https://me:hunter22@example.org/x",
    "AKIAABCDEFGHIJKLMNOP",
    "0123456789abcdef0123456789abcdef01234567",
    "password=hunter22 next",
    "sk-proj-abcdefghijklmnop1234",
    "abcd1234efgh",
]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_reaches_a_draft_a_patch_or_a_note(tmp_path: Path, secret: str) -> None:
    log, draft = filled(tmp_path)
    with open(log, "a", encoding="utf-8") as f:
        f.write(f"env: {secret}\n")
    loud = secret.split()[-1] if "Bearer" in secret else "hunter22" if "hunter22" in secret else secret
    made = learn.patch(log, draft, "root-caused", miss=near_miss(tmp_path), environ=ENVIRON)
    for text in (
        made.text,
        learn.note(log, f"look: {secret}", environ=ENVIRON).text,
        learn.draft(log, environ=ENVIRON).text,
    ):
        assert loud not in text
    assert "/home/me" not in made.text


def test_hiding_twice_is_hiding_once_and_names_of_secrets_hide_what_they_hold() -> None:
    hide = Hide(ENVIRON)
    once = hide.text(" ".join(SECRETS))
    assert hide.text(once) == once
    assert hide.document({"env": {"GH_TOKEN": "short", "LANG": "C"}}) == {"env": {"GH_TOKEN": "***", "LANG": "C"}}


def test_only_what_decides_goes_into_the_specimen(tmp_path: Path) -> None:
    _, draft = filled(tmp_path)
    long = {
        "schema": "sojourn/evidence/v1",
        "scope": ["universal"],
        "facts": {"disk.bytes_pct": 0.4},
        "probes": {"log": {"stdout": "step\n" * 5000 + LOG}},
    }
    file = write(tmp_path / "long.json", json.dumps(long))
    made = learn.patch(file, draft, "root-caused", miss=near_miss(tmp_path), environ=ENVIRON)
    assert len(made.text) < 8000 and "disk.bytes_pct" not in made.text


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, draft = filled(tmp_path)
    near = near_miss(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    learn.patch(log, draft, "root-caused", miss=near, environ=ENVIRON)
    learn.note(log, "only here", environ=ENVIRON)
    fact("runpod", "traffic.out", "0.01 USD/GB", "https://example.org/prices", month="2026-11", environ=ENVIRON)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_pattern_of_a_line_matches_its_kin_and_not_every_line() -> None:
    import re

    made = pattern("RuntimeError: shape '[3, 4]' is invalid for input of size 17 at 0xdeadbeef in /a/b.py")
    assert re.search(made, "RuntimeError: shape '[9]' is invalid for input of size 2 at 0x1f in /c/d.py")
    assert not re.search(made, "RuntimeError: out of memory")


def test_a_fact_of_a_platform_becomes_a_patch_of_its_file(tmp_path: Path) -> None:
    made = fact("RunPod", "traffic.out", "0.01 USD/GB", "https://example.org/prices", month="2027-01", environ=ENVIRON)
    where = tmp_path / "src/sojourn/data/platforms/runpod.toml"
    where.parent.mkdir(parents=True)
    where.write_text(text_of("runpod"), encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, timeout=120)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=made.text, text=True, check=True, timeout=120)
    data = tomllib.loads(where.read_text(encoding="utf-8"))
    assert data["traffic"]["out"] == {
        "is": "0.01 USD/GB",
        "source": "https://example.org/prices",
        "verified": "2027-01",
    }
    assert faults(data) == [] and data["tier"] == document("runpod")["tier"]
    new = fact("local", "storage.shared", "no", "it is one machine", environ=ENVIRON)
    assert "+[storage]" in new.text and "no value before" in new.remarks[0]


@pytest.mark.parametrize(
    ("where", "says", "source", "error"),
    [
        ("traffic.out", "0", "", learn.NotGrounded),
        ("traffic.out", "", "https://example.org", learn.NotGrounded),
        ("whim.x", "0", "https://example.org", Misuse),
        ("stop.is_final", "perhaps", "https://example.org", Misuse),
    ],
)
def test_a_fact_without_a_source_or_a_place_is_refused(
    where: str, says: str, source: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        fact("runpod", where, says, source, environ=ENVIRON)


def test_the_command_line_prints_the_draft_and_refuses_with_status_4(tmp_path: Path) -> None:
    log = write(tmp_path / "train.log", LOG)
    drafted = subprocess.run(
        [sys.executable, "-m", "sojourn", "learn", log], capture_output=True, text=True, timeout=120
    )
    assert drafted.returncode == 0 and 'id = "fluxerror"' in drafted.stdout
    draft = write(tmp_path / "d.toml", drafted.stdout)
    argv = [sys.executable, "-m", "sojourn", "learn", log, "--draft", draft, "--because", "reproduced", "--json"]
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert refused.returncode == 4
    assert json.loads(refused.stderr.splitlines()[-1])["code"] == "not-grounded" and refused.stdout == ""
    assert not [one for one in gotchas() if one.id == "fluxerror"]
