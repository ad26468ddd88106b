"""What every mailbox must hold to. Use: subclass `MailboxContract` in a test file and give it the fixtures.

    class TestMine(MailboxContract):
        @pytest.fixture
        def mailbox(self): return mine.Post(place)
        @pytest.fixture
        def mute(self): return mine.Post(a_place_where_nobody_answers)
        @pytest.fixture
        def out(self): return {"runs/a/x": b"..."}  # what has come out there

Its launcher cannot be held to `SchedulerContract`, which looks at what runs: take a run through it instead, as
`tests/test_a_notebook.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import NoAnswer
from sojourn.wire.errors import WorldError


class MailboxContract:
    """One method, one promise."""

    def test_it_says_that_it_runs_no_commands(self, mailbox: Any) -> None:
        """On the class."""
        assert type(mailbox).calls is False and not hasattr(mailbox, "call")

    def test_all_that_came_out_is_listed_and_can_be_fetched(
        self, mailbox: Any, out: Mapping[str, bytes], tmp_path: Path
    ) -> None:
        """By names below its base, with their sizes."""
        items = {item.name: item for item in mailbox.list()}
        assert out and out.keys() <= items.keys()
        for number, (name, data) in enumerate(out.items()):
            home = tmp_path / f"home-{number}"
            assert items[name].bytes == len(data) and items[name].version
            assert mailbox.get(name, str(home)) == len(data)
            assert home.read_bytes() == data

    def test_get_goes_on_from_an_offset_and_never_brings_more_than_asked(
        self, mailbox: Any, out: Mapping[str, bytes], tmp_path: Path
    ) -> None:
        """As that of a transport."""
        name, data = max(out.items(), key=lambda one: len(one[1]))
        home = tmp_path / "home"
        mailbox.list()
        assert mailbox.get(name, str(home), limit_bytes=3) == 3
        assert mailbox.get(name, str(home), offset=3) == len(data) - 3
        assert home.read_bytes() == data

    def test_what_stays_the_same_keeps_its_version(self, mailbox: Any, out: Mapping[str, bytes]) -> None:
        """It is not fetched again."""
        assert sorted(mailbox.list(), key=repr) == sorted(mailbox.list(), key=repr)

    def test_get_of_what_is_not_there_is_an_error(self, mailbox: Any, out: Mapping[str, bytes], tmp_path: Path) -> None:
        """And makes no file."""
        mailbox.list()
        with pytest.raises(WorldError):
            mailbox.get("runs/nothing", str(tmp_path / "home"))
        assert not (tmp_path / "home").exists()

    def test_what_is_put_may_be_put_again(self, mailbox: Any, tmp_path: Path) -> None:
        """It waits for the next start."""
        (tmp_path / "near").write_bytes(b"x")
        for _ in range(2):
            assert mailbox.put(str(tmp_path / "near"), "parcel.tgz") is None

    def test_where_nobody_answers_nothing_is_concluded(self, mute: Any, tmp_path: Path) -> None:
        """Neither that there is nothing, nor an error."""
        (tmp_path / "near").write_bytes(b"x")
        assert isinstance(mute.list(), NoAnswer)
        assert isinstance(mute.put(str(tmp_path / "near"), "parcel.tgz"), NoAnswer)
