"""Calls to a keeper from the client: put there when it is missing, mended when damaged, and never misunderstood."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper import client
from sojourn.backends.keeper.client import Answer, Keeper, KeeperRefused, NoFrames, NoPython
from sojourn.backends.transport import local
from sojourn.core.values import Ended, NoAnswer, Site
from sojourn.store import parcel
from sojourn.wire import framing


class Counting(local.Backend):
    """The local transport, counting."""

    def __init__(self, chatter: bytes = b"") -> None:
        super().__init__()
        self.calls: list[Sequence[str]] = []
        self.puts: list[str] = []
        self.chatter = chatter

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        self.calls.append(argv)
        answer = super().call(argv, **how)
        if isinstance(answer, Ended):
            return Ended(answer.rc, self.chatter + answer.stdout, answer.stderr, truncated=answer.truncated)
        return answer

    def put(self, local: str, remote: str, **how: Any) -> None | NoAnswer:
        self.puts.append(remote)
        return super().put(local, remote, **how)


class Replying:
    """A box that gives one prepared reply."""

    def __init__(self, reply: Ended | NoAnswer) -> None:
        self.reply = reply

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        return self.reply


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site("here", base=str(tmp_path / 'a b\'s "box" \u00e9'))


def keeper(transport: Any, site: Site) -> Keeper:
    return Keeper(transport, site)


def said(answer: Answer | NoAnswer) -> Answer:
    assert isinstance(answer, Answer), answer
    return answer


def test_the_first_question_puts_the_keeper_there_and_the_second_is_one_call(site: Site) -> None:
    transport = Counting()
    box = keeper(transport, site)
    assert said(box.ask("hello")).value["base"] == site.base
    assert transport.puts == [f"{site.base}/keepers/{box.file}"] and len(transport.calls) == 2
    said(box.ask("since", runs=None))
    assert len(transport.puts) == 1 and len(transport.calls) == 3


def test_a_silent_box_is_waited_for_once_and_asked_again_a_little_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SILENT_S", 0.0)
    monkeypatch.setattr(client, "AGAIN_S", 1000.0)
    transport = Counting()
    box = keeper(transport, site)
    box.transport = Replying(NoAnswer(sent=True, kind="timeout", detail="silent"))  # type: ignore[assignment]
    assert box.ask("hello") == NoAnswer(sent=True, kind="timeout", detail="silent")
    box.transport = transport
    assert box.ask("hello") == NoAnswer(sent=False, kind="timeout", detail="silent") and not transport.calls
    monkeypatch.setattr(client, "AGAIN_S", 0.0)
    assert said(box.ask("hello")).value["base"] == site.base


def test_a_python_that_is_named_and_not_there_is_searched_for_once(site: Site) -> None:
    transport = Counting()
    box = keeper(transport, replace(site, transport="other", python="/no/such/python"))
    assert said(box.ask("hello")).value["ok"] and len(transport.calls) == 3 and len(transport.puts) == 1
    assert said(box.ask("hello")).value["ok"] and len(transport.calls) == 4
    box = keeper(transport, replace(site, transport="other"))
    assert said(box.ask("hello")).value["ok"] and len(transport.calls) == 5
    assert said(box.ask("hello")).value["ok"] and len(transport.calls) == 6 and len(transport.puts) == 1


def test_a_damaged_keeper_is_replaced(site: Site) -> None:
    transport = Counting()
    box = keeper(transport, site)
    said(box.ask("hello"))
    path = Path(site.base, "keepers", box.file)
    path.write_bytes(path.read_bytes() + b"\n")
    assert said(box.ask("hello")).value["ok"]
    assert path.read_bytes() == parcel.keeper_bytes()[1] and len(transport.puts) == 2


def test_a_call_is_entered_in_the_byte_code_where_that_is_kept_and_sound(site: Site) -> None:
    box = keeper(local.Backend(), site)
    said(box.ask("hello"))
    path = Path(site.base, "keepers", box.file)
    (kept,) = path.parent.glob("*.zip")
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert said(box.ask("since", runs=None)).value["runs"] == []
    path.write_bytes(whole)
    for bad in (kept.read_bytes()[:999], b""):
        kept.write_bytes(bad)
        assert said(box.ask("since", runs=None)).value["runs"] == []
    kept.unlink()
    assert said(box.ask("since", runs=None)).value["runs"] == []


def test_no_word_of_a_question_is_in_argv(site: Site) -> None:
    transport = Counting()
    keeper(transport, site).ask("since", runs={"secret-name": 0})
    assert not any("secret-name" in word for argv in transport.calls for word in argv)


def test_without_a_base_the_box_s_own_default_is_used(private_home: Path) -> None:
    box = keeper(local.Backend(), Site("here"))
    assert said(box.ask("hello")).value["base"] == str(private_home / ".local/share/sojourn")


def test_chatter_before_the_answer_does_not_matter(site: Site) -> None:
    transport = Counting(chatter=b"Welcome!\n\x00SJ\x00\xff motd\n")
    assert said(keeper(transport, site).ask("hello")).value["ok"]


def test_answers_bring_their_bytes(site: Site) -> None:
    box = keeper(local.Backend(), site)
    spec = {"run": "r", "identity": "x", "argv": ["true"]}
    said(box.ask("place", run=spec, want={"attempt": 1, "by": "run"}))
    answer = said(box.ask("read", run="r", path="want.json"))
    assert b'"attempt": 1' in answer.blobs[0]


def test_a_refusal_keeps_the_box_s_own_code_and_what_it_said(site: Site) -> None:
    with pytest.raises(KeeperRefused) as no:
        keeper(local.Backend(), site).ask("read", run="nobody", log=1)
    assert (no.value.code, no.value.exit_status) == ("no-such-run", 5)
    assert "nobody" in no.value.message and no.value.value["ok"] is False


def test_a_box_that_does_not_answer_is_no_answer(site: Site) -> None:
    silent = NoAnswer(sent=True, kind="timeout")
    assert keeper(Replying(silent), site).ask("hello") is silent


@pytest.mark.parametrize(
    "reply",
    [
        Ended(0, b"", b""),
        Ended(1, b"<html>login please</html>", b""),
        Ended(137, b"", b"Killed"),
        Ended(0, framing.pack_json({"ok": True})[:-2], b""),
        Ended(0, framing.pack(b"bytes first"), b""),
        Ended(0, framing.pack_json({"ok": True}).replace(b"true", b"tru3"), b""),
    ],
)
def test_an_answer_without_a_keeper_s_words_is_an_error_with_what_was_said(site: Site, reply: Ended) -> None:
    with pytest.raises(NoFrames) as no:
        keeper(Replying(reply), site).ask("hello")
    assert "here" in no.value.message and str(reply.rc) in no.value.message


def test_an_answer_that_was_cut_by_the_limit_says_so(site: Site) -> None:
    cut = Ended(0, framing.pack_json({"ok": True}) + framing.pack(b"x" * 1000)[:500], b"", truncated=True)
    with pytest.raises(NoFrames, match="over the limit"):
        keeper(Replying(cut), site).ask("since", runs=None)


def test_a_box_without_python_is_told_in_one_line(site: Site) -> None:
    reply = Ended(127, b"", b"sojourn:no-python: tried python3 (not there)\n")
    with pytest.raises(NoPython) as no:
        keeper(Replying(reply), site).ask("hello")
    assert "python" in no.value.message and no.value.exit_status == 5


def test_the_training_side_is_put_below_the_base(site: Site) -> None:
    transport = Counting()
    box = keeper(transport, site)
    assert box.put_train(site.base) is None
    assert Path(site.base, "train", box.train_file).read_bytes() == parcel.train_bytes()[1]
    assert [os.path.basename(path)[:5] for path in transport.puts] == ["train"]
