"""The keeper over ssh, from an empty box to files at home, and boxes on which it cannot be put: one clear line each."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.backends.keeper.client import Answer, Keeper, NoBase, NoPython
from sojourn.backends.transport.ssh import Backend
from sojourn.core.values import NoAnswer, Place, Site
from sojourn.testing.contracts.launcher import at
from sojourn.wire.errors import WorldError
from tests.lab.lab import Box

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("ssh_config")]


def keeper(address: str = "box1", **settings: str) -> Keeper:
    site = Site(address, transport="ssh", address=address, **settings)  # type: ignore[arg-type]
    return Keeper(Backend(Place(site)), site)


def value(answer: Answer | NoAnswer) -> dict[str, object]:
    assert isinstance(answer, Answer), answer
    return dict(answer.value)


@pytest.fixture
def anew(box: Box) -> Iterator[Box]:
    """A box whose system may be damaged: it is switched off and on afterwards, which empties its disk."""
    yield box
    box.fault("power-off")
    box.fault("power-on")


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish", "dash"])
def test_the_keeper_is_put_and_answers_whatever_the_login_shell(box: Box, shell: str) -> None:
    box.user(f"k-{shell}", f"/usr/bin/{shell}")
    hello = value(keeper(f"k-{shell}@box1").ask("hello"))
    assert (hello["user"], hello["host"], hello["home"]) == (f"k-{shell}", "box1", f"/home/k-{shell}")
    assert hello["base"] == f"/home/k-{shell}/.local/share/sojourn"
    assert box.sh(f"stat -c %a /home/k-{shell}/.local/share/sojourn/keepers/*.pyz").strip() in ("600", "644")


def test_the_keeper_answers_behind_login_files_that_chat(box: Box) -> None:
    box.user("k-chatty", "/bin/bash")
    box.sh("printf 'echo hello; echo warn >&2; printf \"\\\\000SJ1\"\\n' > /home/k-chatty/.bashrc")
    assert value(keeper("k-chatty@box1").ask("hello"))["user"] == "k-chatty"


def test_a_second_question_is_one_call_on_the_same_connection(box: Box) -> None:
    ours = keeper()
    value(ours.ask("hello"))
    count = "grep -c 'Starting session' /var/log/sshd.log"
    before = int(box.sh(count))
    value(ours.ask("hello"))
    assert int(box.sh(count)) == before + 1


def test_a_megabyte_of_frames_passes_both_ways(box: Box, tmp_path: Path) -> None:
    ours = keeper()
    base = str(value(ours.ask("hello"))["base"])
    name = ours.train_file
    assert ours.put_train(base) is None
    assert value(ours.ask("have", kind="train", names=[name]))["missing"] == []
    local = tmp_path / "local"
    local.write_bytes(ours.parcel.train_bytes()[1])
    there = box.sh(f"sha256sum {base}/train/{name}").split()[0]
    assert there == hashlib.sha256(local.read_bytes()).hexdigest()


def take_python_away(box: Box) -> None:
    box.sh("rm -f /usr/bin/python3* /usr/local/bin/python3* /usr/libexec/platform-python")


def plant(box: Box, path: str, script: str) -> None:
    text = base64.b64encode(script.encode()).decode()
    box.sh(f"mkdir -p $(dirname {path}); echo {text} | base64 -d > {path}; chmod 755 {path}")


def test_a_box_without_python_says_what_was_tried(anew: Box) -> None:
    take_python_away(anew)
    plant(anew, "/usr/bin/python3", "#!/bin/sh\necho 3.6\n")
    plant(anew, "/usr/bin/python", "#!/bin/sh\nexit 1\n")
    with pytest.raises(NoPython) as caught:
        keeper().ask("hello")
    assert "python3 (3.6)" in caught.value.message and "python (does not start)" in caught.value.message
    assert "\n" not in caught.value.message and "settings" in caught.value.message


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    "place",
    [
        "~/miniconda3/bin/python3",
        "~/miniforge3/envs/train/bin/python3",
        "/opt/conda/bin/python3",
        "~/.pyenv/versions/3.11.9/bin/python3",
        "~/.local/share/uv/python/cpython-3.11-linux/bin/python3",
        "~/.local/bin/python3",
    ],
)
def test_a_python_is_found_where_it_installs_itself(anew: Box, place: str) -> None:
    place = place.replace("~", "/root")
    anew.sh(f"mkdir -p $(dirname {place}); mv /usr/bin/python3.11 /usr/lib/real-python; rm -f /usr/bin/python3*")
    plant(anew, place, '#!/bin/sh\nexec /usr/lib/real-python "$@"\n')
    assert value(keeper().ask("hello"))["user"] == "root"


def test_a_python_that_a_module_brings_is_found(anew: Box) -> None:
    anew.sh("mv /usr/bin/python3.11 /usr/lib/real-python; rm -f /usr/bin/python3*")
    plant(anew, "/sw/python/bin/python3", '#!/bin/sh\nexec /usr/lib/real-python "$@"\n')
    module = 'module() { [ "$*" = "load python" ] && PATH=/sw/python/bin:$PATH; }\n'
    plant(anew, "/etc/profile.d/modules.sh", module)  # a stand-in for environment modules
    assert value(keeper().ask("hello"))["user"] == "root"


@pytest.mark.campaign
def test_the_python_of_the_settings_comes_first(anew: Box) -> None:
    anew.sh("mv /usr/bin/python3.11 /usr/lib/real-python; rm -f /usr/bin/python3*")
    plant(anew, "/srv/mine", '#!/bin/sh\nexec /usr/lib/real-python "$@"\n')
    assert value(keeper(python="/srv/mine").ask("hello"))["user"] == "root"
    with pytest.raises(NoPython, match="/srv/other of the settings"):
        keeper(python="/srv/other").ask("hello")


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("mount -t tmpfs -o ro tmpfs /root", "Read-only file system"),
        ("mount -t tmpfs -o size=8k tmpfs /root", "No space left on device"),
        ("mount -t tmpfs -o size=9m,nr_inodes=2 tmpfs /root", "No space left on device"),
    ],
    ids=["read-only home", "full disk", "no inodes"],
)
def test_a_home_that_takes_no_files_is_said_in_one_line(anew: Box, damage: str, says: str) -> None:
    anew.sh("cp -r /root/.ssh /tmp/kept")
    anew.sh(damage)
    anew.sshd(2230, "AuthorizedKeysFile /tmp/kept/authorized_keys")
    with pytest.raises(WorldError) as caught:
        keeper("box1:2230").ask("hello")
    assert says in caught.value.message and "\n" not in caught.value.message
    if "Read-only" in says:
        assert isinstance(caught.value, NoBase) and "`base`" in caught.value.message
    assert value(keeper("box1:2230", base="/workspace/sojourn").ask("hello"))["base"] == "/workspace/sojourn"


def run_json(ours: Keeper, name: str, script: str) -> dict[str, object]:
    return {
        "schema": "sojourn/run/v1", "run": name, "name": name, "argv": ["sh", "-c", script], "setup": "",
        "setup_digest": "", "init": "", "envs": {}, "secrets": [], "outputs": ["out.json"], "scratch": [], "code": "",
        "mounts": {}, "train": "", "keeper": ours.file, "retry": {"attempts": 1, "on": []}, "stall_after_s": None,
        "max_duration_s": None, "budget_s": None, "grace_s": 5.0, "beat_s": 1.0, "identity": "i" * 64,
        "planned": "2026-11-21T00:00:00Z", "client": "test",
    }  # fmt: skip


@pytest.mark.campaign
def test_no_answer_on_the_way_is_no_answer_of_the_keeper(box: Box) -> None:
    value(keeper().ask("hello"))
    box.fault("cut")
    answer = keeper().ask("hello", timeout_s=5)
    assert isinstance(answer, NoAnswer) and answer.kind == "timeout"


@pytest.mark.campaign
def test_a_run_is_placed_supervised_heard_and_brought_home_over_ssh(box: Box, tmp_path: Path) -> None:
    from sojourn.backends.launcher.setsid import Backend as Setsid
    from sojourn.core.values import Pulse

    ours = keeper()
    hello = value(ours.ask("hello"))
    script = "echo '{\"n\": 1}' > out.json; echo said; until [ -e /tmp/gate ]; do sleep 0.1; done; exit 3"
    spec = run_json(ours, "over-ssh", script)
    placed = value(ours.ask("place", run=spec, want={"attempt": 1, "by": "run", "token": "t"}))
    root = str(placed["root"])
    path = f"{hello['base']}/keepers/{ours.file}"
    argv = [str(hello["python"]), "-I", "-S", path, "supervise", "--root", root]
    handle = Setsid().start(at(ours.transport), argv, root)
    assert not isinstance(handle, NoAnswer) and Setsid().pulse(at(ours.transport), handle) is Pulse.ALIVE
    box.fault("drop-conns")  # the connection that started it goes; it does not
    box.sh("touch /tmp/gate")
    deadline = time.monotonic() + 240
    while True:
        assert time.monotonic() < deadline
        answer = ours.ask("since", runs={"over-ssh": 0})
        if isinstance(answer, Answer) and b'"sealed"' in answer.blobs[0]:
            break
        time.sleep(0.5)
    events = [json.loads(line) for line in answer.blobs[0].splitlines()]
    ended = next(event for event in events if event.get("kind") == "ended")
    assert (ended["state"], ended["rc"]) == ("failed", 3)
    row = next(row for row in value(ours.ask("manifest", run="over-ssh", fresh=True))["manifest"]["files"])  # type: ignore[index]
    assert ours.transport.get(f"{root}/{row['from']}", str(tmp_path / "home")) == row["bytes"]
    assert hashlib.sha256((tmp_path / "home").read_bytes()).hexdigest() == row["sha256"]
