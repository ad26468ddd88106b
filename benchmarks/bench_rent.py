"""What renting costs beside the providers: asking six of them at once, and our own part from `run` to the create call.

The providers are the stand-ins of `tests/clouds`; for `offers` each takes as long for an answer as an API far away.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.protocol import LONGEST_S, Desk, Row
from sojourn import backends

# Any: the stand-ins are typed as tests are, and not as what ships.
_ACCOUNTS: Any = importlib.import_module("tests.clouds.accounts")
_STANDIN: Any = importlib.import_module("tests.clouds.standin")

TITLE = "Asking six providers at once, and what `run` does before it rents"
ROUNDS = 5
# site -> (provider, seconds that each of its answers takes)
SITES = {
    "runpod": ("runpod", 0.5),
    "lambda": ("lambda", 2.0),
    "vastai": ("vastai", 1.0),
    "digitalocean": ("digitalocean", 0.7),
    "second": ("runpod", 1.5),
    "third": ("vastai", 0.4),
}
SLOWEST = "lambda"
JOB = "name: digits\nrun: 'true'\nsite: {site}\nresources: {{accelerators: 'A100:1'}}\n"
JOB += "budget: 9 USD\nmax_price: 3 USD/h\n"


class Sold:
    """An account that has offers and no machine: every create is refused, and its time and the calls are kept."""

    def __init__(self, name: str, delay_s: float) -> None:
        self.cloud: Any = _ACCOUNTS.CLOUDS[name]()
        self.cloud.is_sold_out = True
        self.delay_s, self.is_far = delay_s, False
        self.calls, self.created_s = 0, 0.0
        answer = self.cloud.answer

        def far(method: str, path: str, *rest: Any) -> Any:
            self.calls += 1
            if self.is_far:
                time.sleep(self.delay_s)
            elif self.cloud.kind_of(method, path) == "create":
                self.created_s = self.created_s or time.monotonic()
            return answer(method, path, *rest)

        self.cloud.answer = far


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """Six accounts, settings that name them, and a job."""
    desk = Desk(folder)
    (folder / "id.pub").write_text(_ACCOUNTS.PUBLIC_KEY + "\n")
    text, sold = "", {name: Sold(*how) for name, how in SITES.items()}
    with contextlib.ExitStack() as stack:
        for name, (provider, _) in SITES.items():
            api = stack.enter_context(_STANDIN.serving(sold[name].cloud))
            text += f'[sites.{name}]\ntransport = "ssh"\nprovider = "{provider}"\n'
            text += f'[sites.{name}.{provider}]\napi = "{api}"\npublic_key = "{folder}/id.pub"\n'
            desk.env[backends.get("provider", provider).key_env] = _STANDIN.KEY
        settings = Path(desk.env["XDG_CONFIG_HOME"]) / "sojourn/settings.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(text)

        def offers(*words: str) -> float:
            for one in sold.values():
                one.is_far = True
            return desk.say("offers", "--gpus", "A100:1", *words)

        last: dict[str, int] = {}

        def own(site: str) -> float:
            """Seconds from the start of the command to the arrival of its first create."""
            (folder / "sojourn.yaml").write_text(JOB.format(site=site))
            for one in sold.values():
                one.is_far, one.calls, one.created_s = False, 0, 0.0
            began_s = time.monotonic()
            subprocess.run(
                [desk.sojourn, "run", "-y"],
                cwd=folder,
                env=desk.env,
                capture_output=True,
                timeout=LONGEST_S,
                check=False,
            )
            created = [one for one in sold.values() if one.created_s]
            last[site] = next((one.calls for one in sold.values() if one.created_s), 0)
            return min(one.created_s for one in created) - began_s

        def calls() -> float:
            own("vastai")
            return float(last["vastai"])

        yield {
            "slowest": lambda: offers("--provider", SLOWEST),
            "all": offers,
            "start": lambda: desk.say("--version"),
            "named": lambda: own("vastai"),
            "rent": lambda: own("rent"),
            "calls": calls,
        }


def rows(medians: dict[str, float]) -> list[Row]:
    """Ratios, seconds, and how many requests."""
    return [
        Row("`sojourn offers` of the slowest provider alone", medians["slowest"], "s"),
        Row("`sojourn offers` of six providers", medians["all"], "s"),
        Row("six providers, in times of the slowest alone", medians["all"] / medians["slowest"], "x", limit=1.2),
        Row("`sojourn --version`", medians["start"], "s"),
        Row("from `sojourn run` to the create call, one provider", medians["named"], "s"),
        Row("from `sojourn run` to the create call, `site: rent` and six providers", medians["rent"], "s"),
        Row("requests to the provider, the create included", medians["calls"], "", limit=3),
    ]
