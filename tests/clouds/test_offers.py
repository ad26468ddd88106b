"""`offers`: all providers side by side, ranked by the cost of the run; bad input is one line, and nothing is rented."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.cli.main import main
from sojourn.core.need import Need
from sojourn.store.home import Store
from sojourn.verbs.context import Context
from sojourn.verbs.rent.offers import Offers, offers
from tests.clouds.accounts import CLOUDS
from tests.clouds.everywhere import clouds, settings
from tests.clouds.standin import KEY, Answer, Cloud

__all__ = ["clouds"]
A100 = Need(accelerators=(("A100", 1),))


@pytest.fixture(autouse=True)
def _nothing_is_rented(clouds: dict[str, Cloud]) -> Iterator[None]:
    yield
    assert not any(cloud.rented_ever for cloud in clouds.values())


def asked(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """(exit status, lines of stderr without the next step) of `sojourn offers WORDS`."""
    rc = main(["offers", *words])
    lines = capsys.readouterr().err.strip().splitlines()
    return rc, [line for line in lines if line.startswith("sojourn: ")]


def failures(answer: Offers) -> dict[str, str]:
    """The error's code by site, without those whose settings lack a machine type."""
    return {one.site.name: one.error.code for one in answer.failed if one.error and one.error.code != "misuse"}


def found(**how: Any) -> Offers:
    with Context(Store()) as ctx:
        return offers(ctx, **how)


def test_every_provider_is_asked_and_the_cheapest_run_is_first(clouds: dict[str, Cloud]) -> None:
    answer = found(need=A100)
    assert [row.site.name for row in answer.rows] == ["vastai", "lambda", "runpod", "digitalocean"]
    document = json.loads(json.dumps(answer.as_json()))
    first = document["offers"][0]
    assert first["rate"]["micro"] == 1_100_000 and first["reliability"] == 0.995 and first["region"] == "Sweden, SE"
    assert first["run"]["total"]["micro"] == 1_100_000 + first["run"]["loss"]["micro"]
    assert document["platforms"]["runpod"]["survives_destroy"] == ["network volume"]
    assert any("balance" in clock["what"] for clock in document["platforms"]["runpod"]["clocks"])


def test_one_that_fails_is_a_line_of_its_own(clouds: dict[str, Cloud], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMBDA_API_KEY", "wrong")
    monkeypatch.setattr(clouds["digitalocean"], "route", lambda *words: Answer(200, {"sizes": [{"gpu_info": 3}]}))
    monkeypatch.setattr(clouds["digitalocean"], "said", lambda method, path, answer: answer)
    answer = found(need=A100)
    assert [row.site.name for row in answer.rows] == ["vastai", "runpod"]
    assert failures(answer) == {"lambda": "key-refused", "digitalocean": "odd-answer"}


def test_one_that_hangs_is_left_out_after_its_time(clouds: dict[str, Cloud], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clouds["lambda"], "route", lambda *words: time.sleep(12) or Answer(200, {"data": {}}))
    began_s = time.monotonic()
    answer = found(need=A100, deadline_s=3.0)
    assert time.monotonic() - began_s < 10.0
    assert failures(answer) in ({"lambda": "provider-silent"}, {"lambda": "too-slow"}) and len(answer.rows) == 3
    monkeypatch.setattr("sojourn.backends.provider.lambda.Backend.offers", lambda self, need: time.sleep(12))
    answer = found(need=A100, deadline_s=3.0)
    assert failures(answer) == {"lambda": "too-slow"} and len(answer.rows) == 3


def test_a_provider_without_settings_is_asked_if_its_variable_is_set(
    clouds: dict[str, Cloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn/settings.toml").read_text()
    settings(text[text.index("[sites.vastai]") : text.index("[sites.digitalocean]")])
    for name in ("RUNPOD_API_KEY", "LAMBDA_API_KEY", "DIGITALOCEAN_ACCESS_TOKEN"):
        monkeypatch.delenv(name)
    answer = found(need=A100)
    assert {row.site.name for row in answer.rows} == {"vastai"}
    assert answer.without_key["runpod"] == "RUNPOD_API_KEY" and "vastai" not in answer.without_key


def test_spot_machines_are_asked_for_where_there_are_any(clouds: dict[str, Cloud]) -> None:
    answer = found(need=A100, is_spot=True)
    assert [(row.site.name, row.offer.rate_micro_per_h) for row in answer.rows] == [("vastai", 600_000)]
    assert any("--mtbf" in remark for remark in answer.remarks)


def test_what_the_job_file_says_is_asked_for(clouds: dict[str, Cloud], tmp_path: Path) -> None:
    job = "run: true\nresources: {accelerators: 'H100:8'}\nmax_duration: 10h\nmax_price: 23.95 USD/h\n"
    (tmp_path / "sojourn.yaml").write_text(job)
    answer = found()
    assert [row.offer.facts["gpus"] for row in answer.rows] == [8, 8, 8]
    assert answer.errand.run_s == 36_000.0 and not answer.is_assumed


def test_no_key_anywhere_is_one_line(
    clouds: dict[str, Cloud], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings("")
    for name in CLOUDS:
        monkeypatch.delenv(backends.get("provider", name).key_env)
    rc, said = asked("--gpus", "A100:1", capsys=capsys)
    assert rc == 2 and len(said) == 1 and "RUNPOD_API_KEY (runpod)" in said[0]


@pytest.mark.parametrize(
    ("words", "rc", "says"),
    [
        (("--gpus", "A1000:1"), 2, "No GPU is called 'A1000'; the nearest is 'A100'"),
        (("--gpus", "B200:1"), 5, "No machine with B200:1 can be rented now"),
        (("--gpus", "A100:1", "--max-price", "0.10 USD/h"), 5, "Nothing that fits is within 0.10 USD an hour"),
        (("--gpus", "A100:1", "--max-price", "1 EUR/h"), 2, "is in EUR"),
        (("--provider", "vast"), 2, "the nearest is 'vastai'"),
        (("--gpus", "A100:x"), 2, "is not an accelerator"),
        (("nowhere.yaml",), 2, "nowhere.yaml"),
    ],
)
def test_bad_input_is_one_line_with_the_exit_status_of_the_table(
    clouds: dict[str, Cloud], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], rc: int, says: str
) -> None:
    answered, said = asked(*words, capsys=capsys)
    assert (answered, len(said)) == (rc, 1) and says in said[0], said


@pytest.mark.parametrize("name", sorted(CLOUDS))
def test_doctor_says_in_one_line_whether_a_key_works(
    clouds: dict[str, Cloud], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variable = backends.get("provider", name).key_env
    assert main(["doctor", name]) == 0
    assert f"key from env:{variable}" in capsys.readouterr().out
    monkeypatch.setenv(variable, "wrong")
    assert main(["doctor", name]) == 5
    said = capsys.readouterr().err.strip().splitlines()[-2:]
    words = "RetCode " if name == "compshare" else "HTTP "
    assert (
        said[0].startswith(f"sojourn: {name} refused the API key from env:{variable}: {words}") and KEY not in said[0]
    )
    monkeypatch.delenv(variable)
    assert main(["doctor", name]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-2:]
    assert said[0] == f"sojourn: Site {name} needs an API key of {name}: {variable} is not set."


def test_doctor_reads_a_key_file_of_mode_0600(
    clouds: dict[str, Cloud], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    text = (Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn/settings.toml").read_text()
    settings(text.replace("[sites.runpod.runpod]", '[sites.runpod.runpod]\nkey = "file:key"', 1))
    assert main(["doctor", "runpod"]) == 0
    assert "key from file:key" in capsys.readouterr().out
    (tmp_path / "key").chmod(0o644)
    assert main(["doctor", "runpod"]) == 2
    assert "sojourn: Site runpod needs an API key of runpod: key can be read by others; chmod 600 key." in (
        capsys.readouterr().err.splitlines()
    )


def test_doctor_says_soon_when_a_service_is_not_there(
    clouds: dict[str, Cloud], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sojourn.verbs.explain.doctor.ACCOUNT_S", 0.2)
    settings('[sites.pods]\ntransport = "ssh"\nprovider = "runpod"\n[sites.pods.runpod]\napi = "http://127.0.0.1:9"\n')
    assert main(["doctor", "pods"]) == 3
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sojourn: ")]
    assert len(said) == 1 and "runpod cannot be reached to list its pods" in said[0]
