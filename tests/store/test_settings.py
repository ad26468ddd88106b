"""Sites by name, and a settings file that says where it is wrong."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.store import settings
from sojourn.store.index import Ambiguous
from sojourn.store.settings import BadSettings, UnknownSite, read_settings, read_site
from sojourn.wire.errors import Misuse

GOOD = """
[sites.lab-a]
transport = "ssh"
address = "me@lab-a:2222"
init = "module load cuda"
python = "/opt/python3"

[sites.rented]
provider = "by_hand"
rate = "1.19 USD/h"
stop = "press Destroy in the console"
stop_is_final = true
began = 2026-11-21T10:00:00Z

[[sites.rented.clocks]]
what = "the disk of a stopped box is deleted"
at = "15 days after it stopped"
loses = "everything on it"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(home: Path, text: str | bytes) -> str:
    path = home / ".config/sojourn/settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_a_table_named_like_the_launcher_is_the_launchers_own(home: Path) -> None:
    text = '[sites.hpc]\ntransport = "ssh"\nlauncher = "sbatch"\n[sites.hpc.sbatch]\npartition = "gpu"\nnice = 5\n'
    write(home, text)
    site = read_site("hpc")
    assert site.options["sbatch"] == {"partition": "gpu", "nice": 5} and site.platform == "slurm"
    write(home, text.replace("sites.hpc.sbatch", "sites.hpc.tmux"))
    with pytest.raises(BadSettings) as caught:
        read_site("hpc")
    assert "no setting is called 'tmux'" in caught.value.message


def test_this_machine_may_be_a_login_node(home: Path) -> None:
    site = read_site("slurm")
    assert (site.transport, site.launcher, site.platform) == ("local", "sbatch", "slurm")
    assert site.base == read_site("local").base


def test_local_needs_no_settings_and_lies_where_the_data_of_this_user_lie(home: Path, monkeypatch) -> None:
    site = read_site("local")
    assert (site.transport, site.launcher, site.provider, site.platform) == ("local", "setsid", "unmetered", "local")
    assert site.base == str(home / ".local/share/sojourn")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "elsewhere"))
    assert read_site("local").base == str(home / "elsewhere/sojourn")


def test_a_relative_xdg_folder_is_ignored_as_the_specification_says(home: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative/path")
    assert read_site("local").base == str(home / ".local/share/sojourn")


def test_settings_lie_where_xdg_says(home: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "conf"))
    assert read_settings().path == str(home / "conf/sojourn/settings.toml")


def test_a_site_of_the_settings_reads_back(home: Path) -> None:
    write(home, GOOD)
    lab, rented = read_site("lab-a"), read_site("rented")
    assert (lab.transport, lab.address, lab.init, lab.python) == (
        "ssh",
        "me@lab-a:2222",
        "module load cuda",
        "/opt/python3",
    )
    assert (lab.platform, lab.base) == ("generic-ssh", "")
    assert (rented.provider, rented.rate_micro_per_h, rented.currency) == ("by_hand", 1_190_000, "USD")
    assert rented.options["stop"] == "press Destroy in the console" and rented.options["stop_is_final"] is True
    assert rented.options["began"] == "2026-11-21T10:00:00.000Z"
    assert rented.options["clocks"][0]["loses"] == "everything on it"


def test_settings_may_change_local(home: Path) -> None:
    write(home, '[sites.local]\nbase = "/data/sojourn"\n')
    assert read_site("local").base == "/data/sojourn" and read_site("local").provider == "unmetered"


def test_a_site_is_found_by_its_unique_beginning(home: Path) -> None:
    write(home, '[sites.lab-a]\n[sites.lab-b]\n[sites.rented]\nprovider = "by_hand"\n')
    assert read_site("rent").name == "rented"
    with pytest.raises(Ambiguous):
        read_site("lab")


@pytest.mark.parametrize(
    ("text", "transport", "launcher", "address"),
    [
        ("ssh:gpu", "ssh", "setsid", "gpu"),
        ("ssh:me@host:2222", "ssh", "setsid", "me@host:2222"),
        ("slurm:cluster", "ssh", "sbatch", "cluster"),
        ("k8s:arn:aws:eks:eu:1:cluster/x/ns", "kube", "k8s_job", "arn:aws:eks:eu:1:cluster/x/ns"),
        ("kaggle", "kaggle", "kaggle", ""),
    ],
)
def test_a_name_with_a_kind_says_its_backends(text: str, transport: str, launcher: str, address: str) -> None:
    site = read_site(text)
    assert (site.name, site.transport, site.launcher, site.address) == (text, transport, launcher, address)


@pytest.mark.parametrize("text", ["", "ssh:", "shh:gpu", "locall", "nope"])
def test_an_unknown_site_is_misuse(text: str) -> None:
    with pytest.raises(UnknownSite) as caught:
        read_site(text)
    assert caught.value.exit_status == 2


def test_an_unknown_site_is_answered_with_the_nearest(home: Path) -> None:
    write(home, GOOD)
    with pytest.raises(UnknownSite, match="the nearest is 'rented'"):
        read_site("rentde")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[sites.a]\n\nratee = '1 USD/h'\n", 3, "no setting is called 'ratee'; the nearest is 'rate'"),
        ("[site.a]\n", 1, "no key is called 'site'; the nearest is 'sites'"),
        ("x = 1\n[sites.a]\n", 1, "no key is called 'x'"),
        ("[sites.a]\nrate = 1.19\n", 2, "rate: not a rate: '1.19' (write 1.19 USD/h)"),
        ("[sites.a]\nrate = '1.19 USD'\n", 2, "not a rate"),
        ("[sites.b]\nbase = 'x'\n[sites.a]\nbase = 7\n", 4, "base: write text in quotes, not 7"),
        ("[sites.a]\nstop_is_final = 'yes'\n", 2, "write true or false"),
        ("[sites.a]\nbegan = 'noon'\n", 2, "began: "),
        ("[sites.a]\nbegan = 12\n", 2, "not an instant"),
        ("[sites]\na = 1\n", 2, "write [sites.a]"),
        ("sites = 4\n", 1, "write [sites.NAME]"),
        ('[sites."a b"]\n', 1, "'a b' is not a valid site name"),
        ("[sites.a]\n[[sites.a.clocks]]\nat = 'x'\n", 2, "a clock needs `what`"),
        ("[sites.a]\n[[sites.a.clocks]]\nwhat = 'x'\nlooses = 'y'\n", 4, "the nearest is 'loses'"),
        ("[sites.a\n", 1, "Expected ']'"),
        ("[sites.a]\nrate = '1 USD/h'\nrate = '2 USD/h'\n", 3, "Cannot overwrite a value"),
        (b"[sites.a]\ninit = '\xff'\n", 2, "not UTF-8"),
        ("[sites.a]\ninit = 'x", 2, ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(home: Path, text: str | bytes, line: int, words: str) -> None:
    path = write(home, text)
    with pytest.raises(BadSettings) as caught:
        read_settings()
    assert caught.value.message.startswith(f"{path}:{line}: "), caught.value.message
    assert words in caught.value.message and caught.value.exit_status == 2


def test_a_folder_in_place_of_the_file_is_one_line(home: Path) -> None:
    (home / ".config/sojourn/settings.toml").mkdir(parents=True)
    with pytest.raises(Misuse, match="cannot be read: Is a directory"):
        read_settings()


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_no_text_at_all_gives_a_traceback(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    path = tmp_path_factory.mktemp("s") / "settings.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        assert isinstance(read_settings(str(path)), settings.Settings)
    except Misuse as error:
        assert "\n" not in error.message


def test_channels_are_texts_at_the_top(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('notify = ["env:NTFY_URL", "mailto://a"]\n')
    assert read_settings(str(path)).notify == ("env:NTFY_URL", "mailto://a")
    path.write_text('\nnotify = "env:NTFY_URL"\n')
    with pytest.raises(BadSettings, match=r":2: write notify = \["):
        read_settings(str(path))
