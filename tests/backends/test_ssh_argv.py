"""The words given to OpenSSH, and the command line that every login shell passes on unchanged to a POSIX shell."""

import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn.backends.bounds import Keep
from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.ssh import share as ssh_share
from sojourn.backends.ssh import talk as ssh_talk
from sojourn.core.values import Site
from sojourn.wire.errors import Misuse

SHELLS = {
    "sh": ["sh"],
    "bash": ["bash"],
    "zsh": ["zsh"],
    "tcsh": ["tcsh"],
    "fish": ["fish"],
    "busybox": ["busybox", "ash"],
}
HARD = [
    "",
    " ",
    "a b",
    "'",
    '"',
    "\\",
    "\\n",
    "\n",
    "a\n\nb\n",
    "$HOME",
    "`id`",
    "!",
    "!!",
    "*",
    "~",
    "#x",
    ";",
    "&",
    "|",
    "%d",
    "-n",
]
HARD += ["é", "\x01\x7f", "\t", "\r\n", "${x", "{a,b}", "=ls", "^x^y", "\udcff", "x" * 5000]
ECHO = ["sh", "-c", 'for a do printf "%s\\0" "$a"; done; cat; echo words >&2; exit 7', "echo"]


def site(address: str = "box1", **options: object) -> Site:
    return Site("box1", transport="ssh", address=address, options=options)


def argv(site: Site, line: ssh_argv.Line = ssh_argv.POLL, timeout_s: float = 30.0) -> list[str]:
    return ssh_argv.argv(site, line, control_path=ssh_share.control_path(site, line), nonce="cafe", timeout_s=timeout_s)


def through(shell: list[str], words: list[str], stdin: bytes = b"") -> tuple[ssh_talk.Told, bytes, bytes]:
    """Run `words` as a box would whose login shell is `shell`."""
    nonce = ssh_argv.nonce()
    command = ssh_argv.argv(site(), ssh_argv.POLL, control_path="", nonce=nonce, timeout_s=9)[-1]
    out, err = Keep(1 << 20), Keep(1 << 20)
    limits = ssh_talk.Limits(20.0)
    program = ssh_argv.program(words, nonce)
    told = ssh_talk.talk([*shell, "-c", command], nonce, program, stdin, out, err, limits, is_shared=False)
    return told, bytes(out.kept), bytes(err.kept)


def needs(shell: str) -> list[str]:
    if not shutil.which(SHELLS[shell][0]):
        pytest.skip(f"missing Debian package {shell}")
    return SHELLS[shell]


@pytest.mark.lab
@pytest.mark.parametrize("shell", SHELLS)
def test_words_status_input_and_both_streams_pass_a_login_shell_unchanged(shell: str) -> None:
    told, out, err = through(needs(shell), [*ECHO, *HARD], stdin=b"\0input\r\n")
    want = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in HARD)
    assert (told.rc, out, err) == (7, want + b"\0input\r\n", b"words\n")


@pytest.mark.lab
@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40), max_size=4)
)
def test_any_words_pass_a_login_shell_unchanged(shell: str, words: list[str]) -> None:
    _, out, _ = through(needs(shell), [*ECHO, *words])
    assert out == b"".join(word.encode() + b"\0" for word in words)


@pytest.mark.parametrize("rc", [0, 1, 97, 126, 254, 255])
def test_every_exit_status_comes_back_as_it_was(rc: int) -> None:
    assert through(["sh"], ["sh", "-c", f"exit {rc}"])[0].rc == rc


def test_a_command_that_is_not_there_has_status_127_and_says_so() -> None:
    told, _, err = through(["sh"], ["no-such-command"])
    assert told.rc == 127 and b"no-such-command" in err


def test_what_stands_after_the_end_or_before_the_start_is_not_the_output() -> None:
    chatty = "echo hello; echo warn >&2; printf 'no newline'; "
    nonce = ssh_argv.nonce()
    command = chatty + ssh_argv.argv(site(), ssh_argv.POLL, control_path="", nonce=nonce, timeout_s=9)[-1].replace(
        "exec", "", 1
    )
    out, err = Keep(99), Keep(99)
    program = ssh_argv.program(["echo", "mine"], nonce)
    argv = ["sh", "-c", command + "; echo bye; echo bye >&2"]
    told = ssh_talk.talk(argv, nonce, program, b"", out, err, ssh_talk.Limits(9), is_shared=False)
    assert (bytes(out.kept), bytes(err.kept), told.rc) == (b"mine\n", b"", 0)
    assert told.said == "warn" and told.chatter == "hello\nno newline"


def test_nothing_is_sent_to_a_shell_that_is_not_ours(tmp_path: Path) -> None:
    # As after `exec zsh` in a .bashrc: that shell would run what is meant for a command's input.
    out = Keep(99)
    target = tmp_path / "victim"
    program = f"touch {target}\n".encode()
    told = ssh_talk.talk(["sh"], "cafe", program, program, out, out, ssh_talk.Limits(1.0), is_shared=False)
    assert (told.why, told.ready, target.exists()) == ("deadline", False, False)


def test_a_line_that_is_cut_is_never_run(tmp_path: Path) -> None:
    nonce = ssh_argv.nonce()
    command = ssh_argv.argv(site(), ssh_argv.POLL, control_path="", nonce=nonce, timeout_s=9)[-1]
    program = ssh_argv.program(["touch", str(tmp_path / "made")], nonce)
    out = Keep(99)
    for cut in (3, len(program) // 2, len(program) - 1):
        told = ssh_talk.talk(
            ["sh", "-c", command], nonce, program[:cut], b"", out, out, ssh_talk.Limits(9), is_shared=False
        )
        assert (told.ready, told.rc, told.ssh_rc) == (True, None, ssh_argv.NOT_FOR_US)
    assert not (tmp_path / "made").exists()


def test_a_terminal_in_the_way_is_noticed_before_anything_is_sent() -> None:
    out = Keep(99)
    argv = ["sh", "-c", "printf 'cafe ready\\r\\n'; cat"]
    told = ssh_talk.talk(argv, "cafe", b"secret", b"", out, out, ssh_talk.Limits(9), is_shared=False)
    assert (told.why, bytes(out.kept)) == ("terminal", b"")


@pytest.mark.parametrize("words", [[], ["a\0b"]])
def test_what_is_no_argv_is_refused(words: list[str]) -> None:
    with pytest.raises(ValueError):
        ssh_argv.program(words, "cafe")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("gpu7", ("gpu7", "", "")),
        ("u@gpu7", ("gpu7", "u", "")),
        ("u@203.0.113.5:2222", ("203.0.113.5", "u", "2222")),
        ("u@[2001:db8::1]:22", ("2001:db8::1", "u", "22")),
    ],
)
def test_addresses_are_read(text: str, want: tuple[str, str, str]) -> None:
    found = ssh_argv.address(text)
    assert (found.host, found.user, found.port) == want


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=x", "u@-x", "-l@h", "a b", "a@b@h", "h:0", "h:70000", "h:x", "a\nb"]
)
def test_what_is_no_address_is_refused_before_ssh_sees_it(text: str) -> None:
    with pytest.raises(Misuse):
        ssh_argv.address(text)


def test_every_connection_has_its_limits_and_asks_nothing() -> None:
    words = argv(site())
    for want in ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=10", "ServerAliveCountMax=3"):
        assert want in words
    copying = argv(site(), ssh_argv.COPY)
    assert "ServerAliveInterval=5" in copying and "ServerAliveCountMax=2" in copying
    assert "ConnectTimeout=3" in argv(site(), timeout_s=4.2)  # ends before the deadline, and so says why


def test_the_users_own_settings_count_unless_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-F" not in argv(site())
    monkeypatch.setenv("SOJOURN_SSH_CONFIG", "/etc/other")
    assert argv(site())[-4:-1] == ["-F", "/etc/other", "box1"]
    assert argv(site("u@h:99", ssh_config="/a"))[-8:-1] == ["-F", "/a", "-p", "99", "-l", "u", "h"]


def test_no_argument_of_a_command_stands_in_the_argv() -> None:
    assert not [word for word in argv(site()) if "secret" in word]  # what varies is in `program`, which goes over stdin
    assert b"secret" in ssh_argv.program(["echo", "secret"], "cafe")


@pytest.mark.parametrize("option", [{"sharing": "perhaps"}, {"persist_s": 5}, {"persist_s": 4000}, {"persist_s": "60"}])
def test_a_wrong_option_is_named_with_the_valid_ones(option: dict[str, object]) -> None:
    with pytest.raises(Misuse, match="valid: "):
        argv(site(**option))


def test_sharing_can_be_left_to_the_user_or_switched_off() -> None:
    assert not [word for word in argv(site(sharing="user")) if word.startswith("Control")]
    assert {"ControlMaster=no", "ControlPath=none"} <= set(argv(site(sharing="off")))


def test_a_socket_lies_in_a_private_short_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 80)))
    path = ssh_share.control_path(site(), ssh_argv.POLL)
    assert len(path.replace("%C", "0" * 40)) + 17 < ssh_share.PATH_BYTES
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path.replace("%C", "0" * 40) + "." + "t" * 16)
    Path(path.replace("%C", "0" * 40) + "." + "t" * 16).unlink()


def test_a_folder_that_others_may_enter_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="sj-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        (Path(folder) / "sojourn").mkdir(mode=0o755)
        assert not ssh_share.control_path(site(), ssh_argv.POLL).startswith(folder)


def test_boxes_settings_and_purposes_do_not_share_a_socket() -> None:
    sites = [site("a"), site("b"), site("a", ssh_config="/x"), site("root@a")]
    paths = {ssh_share.control_path(each, line) for each in sites for line in (ssh_argv.POLL, ssh_argv.COPY)}
    assert len(paths) == 8
