"""Harmful providers, each a small error in the example of docs/adding-a-provider.md: the contract catches every one."""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sojourn.testing.contracts.provider import ProviderContract
from tests.installed import blocks

GOOD, TESTS, *_ = blocks("adding-a-provider.md", "python")
FREE = "law.check(clearance, lease)"
LOOK = "return answers.standing(answers.by_id(reply, one, _pulse), listed)"
TAKE = 'reply = self._api.write("POST", "/machines", {"name": token, "type": offer.native})'
CREATED = "        answer = answers.created("
LATE = "from sojourn.core.ports import Rejected\n        "
DELETE = 'reply = self._api.write("DELETE", f"/machines/{lease.native}")'
# What is wrong with it -> (what stands in the example, what stands there in its place).
MUTANTS: dict[str, tuple[str, str]] = {
    "look says gone when the API fails": (LOOK, f"if not one:\n            return Pulse.GONE\n        {LOOK}"),
    "look says gone on a lone 404": (
        LOOK,
        f"if getattr(reply, 'status', 0) == 404:\n            return Pulse.GONE\n        {LOOK}",
    ),
    "look believes the list alone": (LOOK, "return answers.standing(Pulse.GONE, listed)"),
    "look says gone of a stopped one": ('Pulse.STOPPED if one["state"]', 'Pulse.GONE if one["state"]'),
    "look calls a stopped one alive": ('Pulse.STOPPED if one["state"]', 'Pulse.ALIVE if one["state"]'),
    "find says nothing when the API fails": ("return answers.no_answer(listed)", "return []"),
    "find believes the first of two": (
        'return [self._lease(one["id"], token, PRICES[one["type"]], now_s, {}) for one in mine]',
        'return [self._lease(one["id"], token, PRICES[one["type"]], now_s, {}) for one in mine[:1]]',
    ),
    "find takes another client's for ours": ('if one["name"] == token]', 'if one["name"].startswith(token[:6])]'),
    "find takes a token's beginning for it": ('if one["name"] == token]', 'if one["name"].startswith(token)]'),
    "take repeats itself": (TAKE, f"{TAKE}\n        if not getattr(reply, 'is_ok', False):\n            {TAKE}"),
    "a time-out is called rejected": (
        CREATED,
        f"        {LATE}if isinstance(reply, NoAnswer):\n            return Rejected('time-out')\n{CREATED}",
    ),
    "a 5xx is called rejected": (
        CREATED,
        f"        {LATE}if isinstance(reply, Reply) and not reply.is_ok:\n"
        f"            return Rejected('HTTP', 'key' if reply.status == 404 else 'request')\n{CREATED}",
    ),
    "a failed delete is swallowed": (
        '        if done is False:\n            self._must(reply, "delete the machine")\n'
        '        return f"slab was told to delete {lease.native}" + ("" if done else "; its answer was lost")',
        '        return f"slab deleted {lease.native}"',
    ),
    "others are deleted too": (
        DELETE,
        f"{DELETE}\n        body = getattr(self._api.read('/machines'), 'body', None)"
        "\n        for one in answers.rows(body, 'machines') or ():"
        "\n            self._api.write('DELETE', '/machines/' + one['id'])",
    ),
    "others are listed as ours": ('one["id"], one["name"], one["state"]', 'one["id"], "token-1", one["state"]'),
    "what the list lacks is deleted as well": (DELETE, "reply = self._api.write('DELETE', '/machines/none')"),
    "only page one is read": ('if not reply.fields.get("next"):', "if True:"),
    "a page that fails ends the list": (
        "                return page\n            found += page",
        "                return found\n            found += page",
    ),
    "ready has no deadline": (
        '            return answers.no_answer(reply, "not-ready")',
        "            import time\n\n            while True:\n                time.sleep(1.0)",
    ),
    "ready calls a stopped one ready": ('if reply.fields["state"] == "off":', "if False:"),
    "an address of yesterday": (
        "        return replace(lease, address=f\"root@{reply.fields['ip']}\")",
        "        return replace(lease, address=lease.address or f\"root@{reply.fields['ip']}\")",
    ),
    "a price in cents": ('answers.micro(one["usd"])', 'int(one["usd"] * 100)'),
    "a price of a day": ('PRICES[one["type"]], now_s', '24 * PRICES[one["type"]], now_s'),
    "a key in a message": (
        "            return answers.no_answer(listed)",
        "            no = answers.no_answer(listed)\n"
        "            return NoAnswer(sent=True, kind=no.kind, detail=f'{no.detail} (key {self._api.key().value})')",
    ),
    "a release without a clearance": (FREE, "pass"),
    "keep the disk, and it is deleted": (
        'stop = ("delete the machine", "")',
        'stop = ("delete the machine", "stop the machine")',
    ),
}


def contract(code: str) -> tuple[type[ProviderContract], types.ModuleType]:
    """The page's own tests, of this provider."""
    backend = types.ModuleType("sojourn_slab")
    exec(compile(code, "sojourn_slab", "exec"), backend.__dict__)  # noqa: S102 - the code of a page of ours
    module = types.ModuleType("test_slab")
    exec(compile(TESTS.replace("from sojourn_slab import Backend", ""), "test_slab", "exec"), module.__dict__)  # noqa: S102
    module.__dict__["Backend"] = backend.__dict__["Backend"]
    return module.__dict__["TestSlab"], module


def cases(suite: type[ProviderContract]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each test of the suite with each of its parameters."""
    for name in dir(suite):
        test = getattr(suite, name)
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        sets = [[{mark.args[0]: value} for value in mark.args[1]] for mark in marks]
        for chosen in itertools.product(*sets):
            yield name, {key: value for one in chosen for key, value in one.items()}


def failures(code: str, monkeypatch: pytest.MonkeyPatch, most: int = 1) -> list[str]:
    """The tests that it does not pass; after `most` of them nobody asks for more."""
    suite, _ = contract(code)
    failed: list[str] = []
    for name, given in cases(suite):
        one = suite()
        made: dict[str, Any] = {**given, "monkeypatch": monkeypatch}
        ends: list[Callable[[], None]] = []
        try:
            wanted = [word for word in inspect.signature(getattr(suite, name)).parameters if word != "self"]
            getattr(one, name)(**{word: fixture(one, word, made, ends) for word in wanted})
        except pytest.skip.Exception:
            pass
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - any of them is a failed test
            failed.append(f"{name}: {type(error).__name__} {error}"[:200])
        finally:
            for end in reversed(ends):
                end()
        if len(failed) == most:
            break
    return failed


def fixture(one: Any, word: str, made: dict[str, Any], ends: list[Callable[[], None]]) -> Any:
    """What pytest would make of this name: each fixture once, and ended afterwards."""
    if word not in made:
        plain = inspect.unwrap(getattr(type(one), word))
        needs = [name for name in inspect.signature(plain).parameters if name != "self"]
        value = plain(one, *(fixture(one, name, made, ends) for name in needs))
        if inspect.isgenerator(value):
            going = value
            value = next(going)
            ends.append(lambda: next(going, None))
        made[word] = value
    return made[word]


def test_the_good_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(GOOD, monkeypatch) == []


@pytest.mark.parametrize("wrong", MUTANTS)
def test_a_harmful_provider_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, instead = MUTANTS[wrong]
    assert GOOD.count(right) == 1, "the page has no such line any more"
    code = GOOD.replace(right, instead)
    monkeypatch.setattr("sojourn.testing.contracts.provider_faults.HANG_S", 3.0)
    assert failures(code, monkeypatch), f"the contract lets it pass: {wrong}"
