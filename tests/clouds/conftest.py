"""An account, and somebody whose settings rent from it; clocks are the test's own."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sojourn.backends.client import https, program
from sojourn.core.need import Need
from sojourn.core.values import Site
from sojourn.store import places
from sojourn.store.home import Store
from sojourn.verbs.context import Context
from sojourn.verbs.observe.audit import Audit, audit
from sojourn.verbs.rent.machine import rented
from sojourn.verbs.rent.price import Wish
from tests.clouds.accounts import CLOUDS, account
from tests.clouds.standin import Cloud

SETTINGS = """
[sites.cloud]
transport = "local"
provider = "{name}"
base = "{base}"
[sites.cloud.{name}]
"""


@dataclass
class Ground:
    """An account, and somebody whose settings rent from it."""

    cloud: Cloud
    site: Site
    ctx: Context
    clock: list[float] = field(default_factory=list)

    def rent(self) -> None:
        rented(self.ctx, self.site, Wish(Need(accelerators=(("A100", 1),))))

    def audit(self) -> Audit:
        answer = audit(self.ctx)
        assert self.cloud.violations == []
        return answer

    def verdicts(self) -> list[tuple[str, str]]:
        return [(row.verdict.value, row.lease) for row in self.audit().rows]


@pytest.fixture(params=sorted(CLOUDS))
def ground(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with account(request.param, tmp_path, monkeypatch) as (cloud, site):
        here = replace(site, transport="local", base=str(tmp_path / "base"))  # every machine is this one, to `down`
        own = site.options[request.param]
        settings = Path(places.settings_path())
        settings.parent.mkdir(parents=True, exist_ok=True)
        keys = [f"{name} = {json.dumps(value)}" for name, value in own.items()]
        settings.write_text(SETTINGS.format(name=request.param, base=here.base) + "\n".join(keys))
        clock = [1_800_000_000.0]
        with Store(str(tmp_path / "client"), lambda: clock[0]) as store:

            def sleep(seconds: float) -> None:
                clock[0] += seconds

            how = "Program" if request.param == "compshare" else "Api"
            client = functools.partial(
                getattr(program if how == "Program" else https, how), now_s=lambda: clock[0], sleep=sleep
            )
            monkeypatch.setattr(f"sojourn.backends.provider.{request.param}.{how}", client)
            yield Ground(
                cloud,
                here,
                Context(store, now_s=lambda: clock[0], sleep=sleep, confirm=lambda ask: ask.name, environ={}),
                clock,
            )
