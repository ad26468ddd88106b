"""Conditions are yes, no or unknown; what was not observed is never false."""

from typing import Any

import pytest

from sojourn.diagnose.grammar import BadCondition, Facts, Known, Truth, evaluate, parse

YES, NO, UNKNOWN = Truth.YES, Truth.NO, Truth.UNKNOWN


def truth(condition: str, kept: dict[str, Any] | None = None, **facts: Any) -> Truth:
    known = {name.replace("__", "."): Known(value) for name, value in facts.items()}
    return evaluate(condition, Facts(known, {"recorded": kept or {}}))[0]


@pytest.mark.parametrize(
    ("condition", "facts", "is_it"),
    [
        ("run.alive == false", {}, UNKNOWN),
        ("run.alive == false", {"run__alive": False}, YES),
        ("run.exit_code == 137", {"run__exit_code": None}, NO),
        ("run.exit_code != 0", {"run__exit_code": None}, YES),
        ("disk.avail > 5", {"disk__avail": None}, NO),
        ("kmsg.xid absent", {"kmsg__xid": []}, YES),
        ("kmsg.xid absent", {"kmsg__xid": None}, YES),
        ("kmsg.xid absent", {}, UNKNOWN),
        ("kmsg.xid contains 79", {"kmsg__xid": [31, 79]}, YES),
        ("kmsg.xid contains 7", {"kmsg__xid": [79]}, NO),
        ("net.proxy_env contains https_proxy", {"net__proxy_env": {"https_proxy": "x"}}, YES),
        ("gpu.throttle contains hw_slowdown", {"gpu__throttle": ["sw_power_cap"]}, NO),
        ("xfer.rc in 12,20,30", {"xfer__rc": 20}, YES),
        ("ssh.class in refused,auth", {"ssh__class": "ok"}, NO),
        ("k.last =~ /exitCode.*137/", {"k__last": {"reason": "Error", "exitCode": 137}}, YES),
        ("log.ended_by !~ /oom/", {"log__ended_by": None}, YES),
        ("log.ended_by =~ /OUT of/i", {"log__ended_by": "a\nout of memory"}, YES),
        ("gpu.torch_cuda > gpu.driver_cuda", {"gpu__torch_cuda": "12.10", "gpu__driver_cuda": "12.4"}, YES),
        ("gpu.torch_cuda > gpu.driver_cuda", {"gpu__torch_cuda": "12.10"}, UNKNOWN),
        ("cg.cpu_quota < 0.6 * box.nproc", {"cg__cpu_quota": 4, "box__nproc": 64}, YES),
        ("run.alive == true && cg.oom_kill_delta >= 1", {"run__alive": False}, NO),
        ("run.alive == true && cg.oom_kill_delta >= 1", {"run__alive": True}, UNKNOWN),
    ],
)
def test_a_condition(condition: str, facts: dict[str, Any], is_it: Truth) -> None:
    assert truth(condition, **facts) is is_it


def test_what_was_kept_at_launch_is_compared() -> None:
    assert truth("env.lock_hash != recorded", {"env.lock_hash": "a"}, env__lock_hash="b") is YES
    assert truth("env.lock_hash != recorded", {}, env__lock_hash="b") is UNKNOWN


def test_it_says_what_decided_and_what_lacks() -> None:
    facts = Facts({"run.alive": Known(False)})
    assert evaluate("run.alive == false && box.pid1_changed == true", facts) == (
        UNKNOWN,
        ("run.alive",),
        ("box.pid1_changed",),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alive == true",
        "run.alive = true",
        "run.alive absent 3",
        "run.alive ==",
        "run.x =~ a",
        "run.log_text =~ /CUDA out of memory/",
        "run.log_text present",
        "sl.out =~ /oom/",
    ],
)
def test_what_is_not_of_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(BadCondition):
        parse(text)
