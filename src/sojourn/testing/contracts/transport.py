"""What every transport must hold to. Use: subclass `TransportContract`, or `StreamContract` for one with `stream`, in a
test file and give it the fixtures.

    class TestMine(TransportContract):
        @pytest.fixture
        def make(self): return lambda: mine.Backend(site)
        @pytest.fixture
        def there(self): return "/tmp/of-this-test-alone"

`there` names a folder of the box that need not exist; it and what is in it belongs to the test.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import Ended, NoAnswer
from sojourn.wire.errors import WorldError

SOON_S = 60.0  # this is for slow machines
EVERY_BYTE = bytes(range(256)) * 257
WORDS = ["a b", "$HOME", "$(id)", "'\"`\\", "", "*", "é", "line\nbreak", ";", "--", "~", "!!"]


def ended(answer: Ended | NoAnswer) -> Ended:
    """The call came back."""
    assert isinstance(answer, Ended), answer
    return answer


class TransportContract:
    """One method, one promise."""

    @pytest.fixture
    def transport(self, make: Callable[[], Any]) -> Any:
        """One of them."""
        return make()

    def test_a_second_one_misses_nothing(self, make: Callable[[], Any], there: str, tmp_path: Path) -> None:
        """It holds no state: what one has put, another gets."""
        (tmp_path / "near").write_bytes(EVERY_BYTE)
        assert make().put(str(tmp_path / "near"), f"{there}/x") is None
        assert make().get(f"{there}/x", str(tmp_path / "home")) == len(EVERY_BYTE)

    def test_streams_and_exit_status_are_kept_apart(self, transport: Any) -> None:
        """Also 255, which ssh uses for itself."""
        answer = ended(transport.call(["sh", "-c", "echo out; echo err >&2; exit 255"]))
        assert (answer.rc, answer.stdout, answer.stderr, answer.truncated) == (255, b"out\n", b"err\n", False)

    def test_argv_arrives_as_it_was_given(self, transport: Any) -> None:
        """No shell looks at it on the way."""
        answer = ended(transport.call(["sh", "-c", 'printf "%s|" "$@"', "sojourn", *WORDS]))
        assert answer.stdout == "|".join([*WORDS, ""]).encode()

    def test_stdin_arrives_byte_for_byte_and_ends(self, transport: Any) -> None:
        """More than any pipe holds, while the answer comes back at once."""
        data = EVERY_BYTE * 40
        assert ended(transport.call(["cat"], stdin=data, timeout_s=60)).stdout == data
        assert ended(transport.call(["cat"])).stdout == b""

    def test_a_command_that_does_not_read_its_stdin_is_no_error(self, transport: Any) -> None:
        """It says with its exit status what it thinks of that."""
        assert ended(transport.call(["sh", "-c", "exit 3"], stdin=EVERY_BYTE * 40)).rc == 3

    def test_a_program_that_is_not_there_ends_with_127(self, transport: Any) -> None:
        """The box answered; that is no NoAnswer."""
        assert ended(transport.call(["no-such-program-anywhere"])).rc == 127

    def test_an_end_by_a_signal_shows(self, transport: Any) -> None:
        """As a negative number or, where a shell stands between, as 128 more."""
        assert ended(transport.call(["sh", "-c", "kill -9 $$"])).rc in (-9, 137)

    def test_both_streams_are_bounded_and_say_so(self, transport: Any) -> None:
        """What is over is dropped, and the command still runs to its end."""
        script = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 4"
        answer = ended(transport.call(["sh", "-c", script], limit_bytes=1000))
        assert (len(answer.stdout), len(answer.stderr), answer.truncated, answer.rc) == (1000, 1000, True, 4)
        assert not ended(transport.call(["head", "-c", "1000", "/dev/zero"], limit_bytes=1000)).truncated

    def test_a_call_that_takes_too_long_is_no_answer_and_was_sent(self, transport: Any) -> None:
        """Never an error, and nothing is concluded from it."""
        began = time.monotonic()
        answer = transport.call(["sleep", "300"], timeout_s=1.0)
        assert isinstance(answer, NoAnswer) and answer.sent
        assert time.monotonic() - began < SOON_S

    def test_what_keeps_our_pipes_does_not_keep_the_call(self, transport: Any) -> None:
        """It comes back in time, with what was said, whether as an answer or as none; the child lives on."""
        began = time.monotonic()
        answer = transport.call(["sh", "-c", "sleep 100 & echo $!"], timeout_s=3.0)
        assert time.monotonic() - began < 3.0 + SOON_S
        if isinstance(answer, Ended):
            assert answer.rc == 0
            assert ended(transport.call(["kill", answer.stdout.decode().strip()])).rc == 0

    def test_put_makes_folders_and_the_file_whole(self, transport: Any, there: str, tmp_path: Path) -> None:
        """Whatever it is called; a second time changes nothing; another content replaces it."""
        near, remote = tmp_path / "near", f'{there}/new/it\'s a "name"\nwith é'
        for data in (EVERY_BYTE * 20, EVERY_BYTE * 20, b""):
            near.write_bytes(data)
            assert transport.put(str(near), remote) is None
            assert ended(transport.call(["cat", remote])).stdout == data
        assert ended(transport.call(["ls", "-A", f"{there}/new"])).stdout.count(b"tmp") == 0

    def test_put_into_what_is_no_folder_is_an_error_and_leaves_nothing(
        self, transport: Any, there: str, tmp_path: Path
    ) -> None:
        """One clear line; no temporary file stays."""
        near = tmp_path / "near"
        near.write_bytes(b"x")
        assert transport.put(str(near), f"{there}/file") is None
        with pytest.raises(WorldError):
            transport.put(str(near), f"{there}/file/below")
        assert ended(transport.call(["ls", "-A", there])).stdout == b"file\n"

    def test_put_renames_over_the_old_file_and_never_writes_into_it(
        self, transport: Any, there: str, tmp_path: Path
    ) -> None:
        """Who has the old one open, or hard-linked, keeps it whole."""
        near = tmp_path / "near"
        near.write_bytes(b"old")
        assert transport.put(str(near), f"{there}/f") is None
        assert ended(transport.call(["ln", f"{there}/f", f"{there}/kept"])).rc == 0
        near.write_bytes(EVERY_BYTE)
        assert transport.put(str(near), f"{there}/f") is None
        assert ended(transport.call(["cat", f"{there}/kept", f"{there}/f"])).stdout == b"old" + EVERY_BYTE

    def test_put_onto_a_folder_or_of_nothing_is_an_error_in_one_line(
        self, transport: Any, there: str, tmp_path: Path
    ) -> None:
        """It is not put into the folder."""
        near = tmp_path / "near"
        near.write_bytes(b"x")
        assert ended(transport.call(["mkdir", "-p", f"{there}/folder"])).rc == 0
        for local, remote in ((near, f"{there}/folder"), (tmp_path / "none", f"{there}/f")):
            with pytest.raises(WorldError) as caught:
                transport.put(str(local), remote)
            assert "\n" not in str(caught.value)
        assert ended(transport.call(["ls", "-A", f"{there}/folder"])).stdout == b""

    def test_get_brings_the_rest_from_an_offset(self, transport: Any, there: str, tmp_path: Path) -> None:
        """What a cut transfer has already brought is not brought again."""
        near, home, data = tmp_path / "near", tmp_path / "home", EVERY_BYTE * 20
        near.write_bytes(data)
        transport.put(str(near), f"{there}/a b")
        assert transport.get(f"{there}/a b", str(home)) == len(data)
        assert home.read_bytes() == data
        home.write_bytes(data[:1000])
        assert transport.get(f"{there}/a b", str(home), offset=1000) == len(data) - 1000
        assert home.read_bytes() == data
        assert transport.get(f"{there}/a b", str(home), offset=len(data)) == 0

    def test_get_of_what_is_not_there_is_an_error(self, transport: Any, there: str, tmp_path: Path) -> None:
        """The box answered, and the file at home is not made up."""
        with pytest.raises(WorldError):
            transport.get(f"{there}/nothing", str(tmp_path / "home"))
        with pytest.raises(WorldError):
            transport.get("/", str(tmp_path / "home"))
        assert not (tmp_path / "home").exists()

    def test_get_never_brings_more_than_it_was_asked_for(self, transport: Any, there: str, tmp_path: Path) -> None:
        """Also of a file that grew; and what is no file, as a device that never ends, is not read at all."""
        near, home, data = tmp_path / "near", tmp_path / "home", EVERY_BYTE * 60
        near.write_bytes(data)
        transport.put(str(near), f"{there}/grew")
        assert transport.get(f"{there}/grew", str(home), limit_bytes=1000) == 1000
        assert transport.get(f"{there}/grew", str(home), offset=1000, limit_bytes=500_000) == 500_000
        assert home.read_bytes() == data[:501_000]
        assert transport.get(f"{there}/grew", str(home), offset=501_000, limit_bytes=len(data) - 501_000) > 0
        assert home.read_bytes() == data
        assert ended(transport.call(["ln", "-s", "/dev/zero", f"{there}/for-ever"])).rc == 0
        assert ended(transport.call(["mkfifo", f"{there}/pipe"])).rc == 0
        for name in ("for-ever", "pipe"):
            with pytest.raises(WorldError):
                transport.get(f"{there}/{name}", str(tmp_path / name), limit_bytes=1000, timeout_s=SOON_S)
            assert not (tmp_path / name).exists()
        assert ended(transport.call(["echo", "still here"])).stdout == b"still here\n"


class StreamContract(TransportContract):
    """The same for a transport that also has `stream`."""

    def test_a_stream_goes_both_ways_and_keeps_its_bytes(self, transport: Any) -> None:
        """What is read from a file arrives, and what comes back comes piece by piece."""
        found = bytearray()
        source = io.BytesIO(EVERY_BYTE * 20)
        answer = transport.stream(
            ["sh", "-c", "cat; echo err >&2; exit 7"], stdin=source, out=found.extend, timeout_s=SOON_S
        )
        assert (ended(answer).rc, answer.stdout, answer.stderr) == (7, b"", b"err\n")
        assert bytes(found) == EVERY_BYTE * 20

    def test_a_stream_ends_with_what_its_reader_raises(self, transport: Any) -> None:
        """A full disk here is no answer of the box."""

        def full(data: bytes) -> None:
            raise OSError(28, "full")

        began = time.monotonic()
        with pytest.raises(OSError, match="full"):
            transport.stream(["sh", "-c", "echo out; sleep 60"], out=full, timeout_s=SOON_S)
        assert time.monotonic() - began < 30

    def test_a_stream_in_which_nothing_moves_is_given_up(self, transport: Any) -> None:
        """After `quiet_s`, long before its time is over."""
        answer = transport.stream(["sleep", "60"], out=bytearray().extend, timeout_s=SOON_S, quiet_s=1.0)
        assert isinstance(answer, NoAnswer) and answer.kind == "timeout"
