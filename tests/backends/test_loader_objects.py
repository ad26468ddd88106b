"""What research code writes beside weights: read without building a class. What would call something: never good."""

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import os
import pathlib
import pickle
import random
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sojourn.backends.proof.judge import Judgement, judge_file
from tests.backends import samples


class Mode(enum.Enum):
    FAST = "fast mode"
    SLOW = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    mode: Mode = Mode.FAST
    where: Path = dataclasses.field(default_factory=lambda: Path("/data"))
    more: dict[str, Any] = dataclasses.field(default_factory=dict)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a, self.b = 1, [2.5]


class History(list[float]):
    pass


class Table(dict[str, Any]):
    pass


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - the class itself is what is pickled


def activation(value: float) -> float:
    return value


GOOD: dict[str, Callable[[], Any]] = {
    "namespace": lambda: argparse.Namespace(lr=0.1, out=Path("x"), layers=[1, 2]),
    "dataclass": lambda: {"config": Config(), "n": 3},
    "slots": Slotted,
    "enum": lambda: [Mode.FAST, Mode.SLOW, Level.LOW, {Mode.FAST}],
    "numpy state": lambda: {"numpy": np.random.get_state(), "python": random.getstate()},
    "numpy generator": lambda: np.random.default_rng(3),
    "numpy seeded": lambda: np.random.RandomState(3),
    "numpy scalars": lambda: [np.float64(0.5), np.int32(3), np.bool_(True)],
    "numpy arrays": lambda: {"a": np.arange(12.0).reshape(3, 4), "b": np.arange(3, dtype=">i2"), "t": np.array(["x"])},
    "random": lambda: random.Random(3),
    "containers": lambda: [
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=[1]),
        collections.deque([1, 2], 5),
        collections.Counter("aab"),
        Point(1, 2),
        SimpleNamespace(a=1),
    ],
    "times": lambda: [
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        datetime.date(2026, 1, 2),
        datetime.timedelta(seconds=3),
    ],
    "numbers": lambda: [decimal.Decimal("1.5"), fractions.Fraction(1, 3), uuid.UUID(int=7), 1j, 1 << 90],
    "paths": lambda: [Path("/a/b"), pathlib.PurePosixPath("c")],
    "subclasses": lambda: [History([1.0, 2.0]), Table(a=1)],
    "partial": lambda: functools.partial(activation, 2.0),
    "exception": lambda: Mode.FAST and {"error": ValueError("no such step")},
    "itself": lambda: _round(),
}


def _round() -> Any:
    space = argparse.Namespace()
    space.me = space
    return space


def judged(path: Path) -> Judgement:
    return judge_file(str(path), path.name)


# Python itself writes slots from protocol 2 on only.
PICKLED = [(name, protocol) for name in GOOD for protocol in range(6) if name != "slots" or protocol > 1]


@pytest.mark.parametrize(("name", "protocol"), PICKLED)
def test_what_research_code_pickles_is_read_without_building_it(name: str, protocol: int, tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(GOOD[name](), protocol))
    found = judged(tmp_path / "a.pkl")
    assert (found.problem, found.detail) == ("", "")
    assert found.proved == ("structure", "content")
    assert found.remarks[0].startswith("content known, ")


@pytest.mark.torch
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("name", GOOD)
def test_the_same_inside_a_file_of_pytorch(name: str, is_old: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = {"w": torch.ones(3), "more": GOOD[name]()}
    torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=not is_old)
    found = judged(tmp_path / "a.pt")
    assert (found.problem, found.detail) == ("", "")
    assert "content" in found.proved
    assert found.facts["tensors"] == 1


@pytest.mark.campaign(keep=1)
@pytest.mark.torch
@pytest.mark.parametrize("is_old", [False, True])
def test_a_whole_module_with_its_optimizer_is_read_to_the_last_value(is_old: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU())
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 1, 5, 5)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    whole = {"net": net, "optimizer": optimizer, "scheduler": scheduler, "rng": torch.get_rng_state()}
    torch.save(whole, tmp_path / "a.pt", _use_new_zipfile_serialization=not is_old)
    found = judged(tmp_path / "a.pt")
    assert (found.problem, found.detail, found.proved) == ("", "", ("structure", "content"))
    assert "torch.nn.modules.conv.Conv2d" in found.facts["classes"]
    assert "classes not built: " in found.remarks[0]
    with torch.no_grad():
        net[0].weight[0, 0, 0, 0] = float("nan")
    torch.save(net, tmp_path / "b.pt", _use_new_zipfile_serialization=not is_old)
    found = judged(tmp_path / "b.pt")
    assert (found.problem, "weight: 1 NaN of 18 values" in found.detail) == ("non-finite", True)


def test_nan_in_an_array_that_was_not_built_is_found(tmp_path: Path) -> None:
    for value in (np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.float64("nan"), [np.float32("nan")]):
        (tmp_path / "a.pkl").write_bytes(pickle.dumps({"a": value, "c": Config()}, 4))
        assert judged(tmp_path / "a.pkl").problem == "non-finite"
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(Config(rate=float("nan"))))
    assert judged(tmp_path / "a.pkl").problem == "non-finite"


def test_an_array_whose_bytes_are_not_its_shape_is_damaged(tmp_path: Path) -> None:
    good = pickle.dumps(np.arange(4.0), 4)
    raw = b"C\x20" + np.arange(4.0).tobytes()  # SHORT_BINBYTES
    assert raw in good
    (tmp_path / "a.pkl").write_bytes(good.replace(raw, b"C\x18" + raw[2:26]))
    assert judged(tmp_path / "a.pkl").problem == "corrupt"


@pytest.mark.parametrize("step", [1, 7])
def test_a_cut_is_never_taken_for_the_whole(step: int, tmp_path: Path) -> None:
    whole = pickle.dumps({"c": Config(), "n": np.arange(3.0), "m": [Mode.FAST]}, 4)
    for end in range(step, len(whole), step):
        (tmp_path / "a.pkl").write_bytes(whole[:end])
        assert judged(tmp_path / "a.pkl").problem, end


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + b"\x93"


def called(module: str, name: str, *args: bytes) -> bytes:
    return named(module, name) + b"(" + b"".join(args) + b"tR"


WORD = text("reboot")
NEW = b"c__main__\nThing\n)\x81"  # an object of some class
# Ways to reach a call that a reader of names could miss; each a whole pickle of protocol 4.
REACHES: dict[str, bytes] = {
    "by dots": called("torch.serialization", "os.system", WORD),
    "by dots through a class": called("torch.serialization", "Path.os.system", WORD),
    "getattr of a module": named("torch", "os") + b"0" + called("builtins", "getattr", named("torch", "os"), WORD),
    "what getattr gives": b"c__builtin__\ngetattr\n(" + named("a.b", "Thing") + text("run") + b"tR(" + WORD + b"tR",
    "getattr of a private name": called("builtins", "getattr", named("a.b", "Thing"), text("__init__")),
    "a partial that is called": called("functools", "partial", named("a.b", "start")) + b"(" + WORD + b"tR",
    "a class that starts a program": called("a.b", "Popen", WORD),
    "a class with an option": called("a.b", "Thing", text("--run /bin/sh")),
    "a class with a path": called("a.b", "Thing", text("/bin/sh")),
    "a class with a list": called("a.b", "Thing", b"(" + WORD + b"l"),
    "a function of somebody": called("a.b", "run", WORD),
    "a function without arguments": called("a.b", "run"),
    "PyTorch's own loader": called("torch", "load", WORD),
    "a nested pickle": called("torch.storage", "_load_from_bytes", b"C\x02N."),
    "numpy's loader": called("numpy", "load", WORD),
    "the hub": called("torch.hub", "load", WORD),
    "an old name of subprocess": called("commands", "getoutput", WORD),
    "an old name of map": called("itertools", "imap", named("a.b", "run"), b"]"),
    "exec": called("builtins", "exec", WORD),
    "compile": called("builtins", "compile", WORD, WORD, WORD),
    "an attribute getter": called("operator", "attrgetter", WORD),
    "a method caller": called("operator", "methodcaller", WORD),
    "a code object": called("types", "CodeType", b"K\x00"),
    "a function object": named("types", "FunctionType") + b")\x81",
    "marshal": called("marshal", "loads", b"C\x01N"),
    "runpy": called("runpy", "run_path", WORD),
    "importlib": called("importlib", "import_module", WORD),
    "ctypes": called("ctypes", "CDLL", WORD),
    "a browser": called("webbrowser", "open", WORD),
    "pty": called("pty", "spawn", WORD),
    "a name alone of the standard library": named("antigravity", "fly"),
    "a function as a class": called("copyreg", "__newobj__", named("os", "system"), WORD),
    "a base that runs": called("copyreg", "_reconstructor", named("a.b", "Thing"), named("a.b", "Popen"), WORD),
    "a function of numpy's constructor": called("numpy.random._pickle", "__generator_ctor", WORD, named("a.b", "run")),
    "a function of PyTorch's constructor": called(
        "torch._tensor", "_rebuild_from_type_v2", named("a.b", "run"), named("a.b", "Thing"), b"(" + WORD + b"t", b"N"
    ),
    "an iterable of somebody's in list": called("builtins", "list", NEW),
    "an iterable of somebody's in a mapping": called("collections", "Counter", NEW),
    "pairs of somebody's": called("collections", "ChainMap", b"(" + NEW + b"l"),
    "the text of somebody's": called("builtins", "str", NEW),
    "a method that is set": NEW + b"}" + text("__setstate__") + named("a.b", "run") + b"sb" + WORD + b"b",
    "an append that is set": NEW + b"}" + text("append") + named("a.b", "run") + b"sb" + WORD + b"a",
    "an extend that is set in slots": NEW + b"N}" + text("extend") + named("a.b", "run") + b"s\x86b(" + WORD + b"e",
    "an attribute of a class": named("a.b", "Thing") + b"N}" + text("x") + b"K\x01s\x86b",
    "an item of a global": named("a.b", "environ") + WORD + WORD + b"s",
    "an attribute of a member": called("builtins", "getattr", named("a.b", "Thing"), text("x"))
    + b"}"
    + WORD
    + WORD
    + b"sb",
    "codecs": called("_codecs", "encode", text("x"), text("zip")),
    "an extension": b"\x82\x01",
    "a persistent id": WORD + b"Q",
    "INST": b"(" + WORD + b"ios\nsystem\n",
    "OBJ": b"(" + named("os", "system") + WORD + b"o",
    "a class of threads": named("threading", "Thread") + b")\x81",
    "a worker": named("torch.multiprocessing", "Process") + b")\x81",
}


@pytest.mark.parametrize("where", ["a.pkl", "a.pt", "old.pt"])
@pytest.mark.parametrize("name", REACHES)
def test_no_way_to_a_call_is_taken_for_data(name: str, where: str, tmp_path: Path) -> None:
    raw = b"\x80\x04(" + b"N" + REACHES[name] + b"l."
    if where == "a.pkl":
        (tmp_path / where).write_bytes(raw)
    elif where == "a.pt":
        samples.torch_zip_of(str(tmp_path / where), raw)
    else:
        heads = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + pickle.dumps(1001, 2)
        facts = pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {}}, 2)
        (tmp_path / where).write_bytes(heads + facts + raw + pickle.dumps([], 2))
    found = judged(tmp_path / where)
    words = ("unsafe", "corrupt") if name == "codecs" else ("unsafe",)  # plain, but for the codec, which takes no text
    assert found.problem in words, (found.detail, found.remarks)
    assert found.proved == ()


def test_the_ways_are_whole_pickles() -> None:
    """They stop where they end: none is refused for being malformed."""
    from sojourn.formats.torch import pickle_walk

    for name, raw in REACHES.items():
        whole = b"\x80\x04(" + b"N" + raw + b"l."
        assert pickle_walk.walk(whole).end == len(whole), name


def test_what_is_behind_the_first_pickle_is_not_passed_over(tmp_path: Path) -> None:
    out = io.BytesIO()
    pickle.dump(Config(), out)
    pickle.dump(samples.Bomb(tmp_path / "canary"), out)
    (tmp_path / "a.pkl").write_bytes(out.getvalue())
    assert judged(tmp_path / "a.pkl").problem in ("unsafe", "corrupt")
    assert not os.path.exists(tmp_path / "canary")
