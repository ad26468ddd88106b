"""Why a call did not come back is told from what OpenSSH prints: one recorded text a file, its folder is the kind."""

from pathlib import Path

import pytest

from sojourn.backends.ssh import failures as ssh_failures

TEXTS = sorted((Path(__file__).parent / "ssh_texts").glob("*/*.txt"))
KINDS = {rule.kind for rule in ssh_failures.RULES}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recorded_text_is_told_by_its_kind_and_says_what_to_do(path: Path) -> None:
    verdict = ssh_failures.classify(path.read_text(), "box1")
    assert verdict.kind == path.parent.name
    assert verdict.detail in " ".join(path.read_text().split()) and verdict.detail
    assert verdict.next_step and "\n" not in verdict.detail + verdict.next_step and "{" not in verdict.next_step


@pytest.mark.parametrize("path", [path for path in TEXTS if path.stem.endswith("midway")], ids=lambda path: path.stem)
def test_a_connection_that_broke_midway_is_told_by_its_last_words(path: Path) -> None:
    assert ssh_failures.broken("words of the command\n" + path.read_text(), "box1").kind == path.parent.name


def test_every_kind_has_a_recorded_text() -> None:
    assert {path.parent.name for path in TEXTS} == KINDS


def test_words_of_the_command_itself_are_no_reason() -> None:
    tail = "Permission denied (publickey).\nConnection refused\nclient_loop: send disconnect: Broken pipe"
    assert ssh_failures.broken(tail, "box1").kind == "reset"
    assert (
        ssh_failures.broken("Permission denied (publickey).", "box1").detail
        == "the connection ended before the command did"
    )


@pytest.mark.parametrize("text", ["", 'Authenticated to box1 ([10.0.0.1]:22) using "publickey".\n', "something new"])
def test_a_text_that_no_rule_knows_is_other_and_keeps_its_words(text: str) -> None:
    verdict = ssh_failures.classify(text, "box1")
    assert verdict.kind == "other" and verdict.next_step
    assert verdict.detail == (text if text == "something new" else "ssh ended without a message")


def test_the_first_reason_counts_behind_a_jump_host() -> None:
    text = (Path(__file__).parent / "ssh_texts/proxy/jump-host-refuses.txt").read_text()
    assert "Connection refused" in ssh_failures.classify(text, "far").detail


def test_a_refused_login_is_never_repeated() -> None:
    assert [ssh_failures.wait_s(kind, 1) for kind in ("auth", "host-key", "config", "relay")] == [None] * 4


def test_other_failures_are_repeated_ever_more_slowly_up_to_half_a_minute() -> None:
    assert [ssh_failures.wait_s("refused", n) for n in range(1, 9)] == [0, 2, 4, 8, 16, 30, 30, 30]
    assert ssh_failures.wait_s("busy", 1) == 2  # a box that turns logins away is not asked again at once
    assert ssh_failures.wait_s("a kind of a later version", 3) == 4


def test_a_detail_is_bounded() -> None:
    assert len(ssh_failures.classify("Connection refused " + "x" * 10_000, "box1").detail) == ssh_failures.DETAIL_CHARS
