"""PyTorch files read, checked and written without PyTorch. What PyTorch says of them: test_torch_zip_with_torch."""

from __future__ import annotations

import os
import pickle
import random
import sys
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.formats.torch import entries as torch_entries
from sojourn.formats.torch import pickle as torch_pickle
from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.values import DTYPES, Damaged, Made, Name, Storage, Tensor


def storage(data: bytes, **more: object) -> Storage:
    return Storage(len(data), lambda: memoryview(data), **more)  # type: ignore[arg-type]


def vector(data: bytes, dtype: str = "uint8") -> Tensor:
    return Tensor(dtype, (len(data) // DTYPES[dtype][0],), (1,), 0, storage(data))


def write(path: Path, tree: object, **facts: object) -> Path:
    fd = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    plan = torch_write.plan(tree, facts)
    plan.write_to(fd)
    os.close(fd)
    assert path.stat().st_size == plan.bytes
    return path


def plain(value: object) -> object:
    """A tree with tensors as comparable values."""
    if isinstance(value, Tensor):
        said = value.storage.array
        return ("tensor", value.dtype, value.shape, value.stride, value.offset, bytes(value.storage.view()), said)
    if isinstance(value, dict):
        return (type(value).__name__, [(key, plain(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [plain(item) for item in value])
    return (type(value).__name__, value)


def small_tree() -> dict:
    return {"w": vector(b"abcdefgh" * 3, "float32"), "n": {"step": 3, "lr": 0.1}, "b": vector(b"\1\0", "bool")}


VALUES = [
    None, True, False, 0, 255, 256, -1, 2**31 - 1, -(2**31), 2**31, 2**63, -(2**200), 0.1, float("inf"), "",
    "ünï\ud800", "a" * 300, b"", b"\0\xff" * 40, bytearray(b"xy"), 1 - 2j, (), (1,), (1, "a", None), [], [[], [1]], {},
    {"a": {1: 2.5, None: True}},
    {(1, "a"): 1}, OrderedDict(b=1, a=2), Counter("hello"), {"a"}, Name("torch.bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_gives_back_every_kind_of_value(tmp_path: Path, value: object) -> None:
    opened = torch_zip.read_zip(str(write(tmp_path / "a.pt", {"v": value}, step=7)))
    assert plain(opened.tree) == plain({"v": value})
    assert opened.facts == {"step": 7}


@pytest.mark.parametrize("dtype", DTYPES)
def test_gives_back_every_dtype_and_view(tmp_path: Path, dtype: str) -> None:
    width = DTYPES[dtype][0]
    data = storage(bytes(range(24)) * width)
    views = [
        Tensor(dtype, (4, 3), (3, 1), 2, data),
        Tensor(dtype, (3, 4), (1, 3), 0, data),
        Tensor(dtype, (), (), 5, data),
    ]
    tree = torch_zip.read_zip(str(write(tmp_path / "a.pt", views))).tree
    assert plain(tree) == plain(views)
    assert tree[0].storage is tree[1].storage is tree[2].storage


def test_containers_that_are_shared_stay_shared_and_cycles_close(tmp_path: Path) -> None:
    shared = {"k": [1, 2]}
    loop: list = [shared, shared]
    loop.append(loop)
    tree = torch_zip.read_zip(str(write(tmp_path / "a.pt", loop))).tree
    assert tree[0] is tree[1] and tree[2] is tree


def test_a_modules_metadata_survive(tmp_path: Path) -> None:
    state = OrderedDict(w=vector(b"abcd"))
    state._metadata = OrderedDict([("", {"version": 2})])  # type: ignore[attr-defined]
    tree = torch_zip.read_zip(str(write(tmp_path / "a.pt", state))).tree
    assert tree._metadata == OrderedDict([("", {"version": 2})])


def test_what_came_from_numpy_or_a_gpu_is_said_so(tmp_path: Path) -> None:
    said = {"dtype": "<M8[ns]", "shape": [1], "order": "C", "scalar": False}
    tree = [Tensor("uint8", (8,), (1,), 0, storage(b"12345678", array=said, location="cuda:1"))]
    read = torch_zip.read_zip(str(write(tmp_path / "a.pt", tree))).tree[0]
    assert read.storage.array == said and read.storage.location == "cuda:1"


@pytest.mark.parametrize(
    "value", [object(), lambda: 0, 1 << 3000, {object(): 1}, range(3), Path("x")], ids=lambda v: type(v).__name__
)
def test_names_the_place_of_what_cannot_be_kept(tmp_path: Path, value: object) -> None:
    with pytest.raises(torch_pickle.Unsaveable) as e:
        torch_write.plan({"optimizer": [{"odd": value}]}, {})
    assert e.value.fields["where"].startswith("optimizer.0.odd")


def test_another_zip_program_reads_it_and_finds_no_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pt", small_tree())
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        names = [info.filename for info in z.infolist()]
        assert z.read("archive/data/0") == b"abcdefgh" * 3
    assert names[0] == "archive/data.pkl" and names[-1] == "archive/.sojourn/sums.json"


def test_storages_are_aligned_and_the_same_state_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.pt", small_tree()), write(tmp_path / "b.pt", small_tree())
    assert first.read_bytes() == second.read_bytes()
    entries = torch_zip.walk(str(first)).entries
    assert [e.offset % 64 for e in entries if "/data/" in e.name] == [0, 0]


def test_every_flipped_byte_is_noticed_wherever_it_lies(tmp_path: Path) -> None:
    good = write(tmp_path / "a.pt", small_tree(), step=1).read_bytes()
    bad = tmp_path / "bad.pt"
    for at in range(len(good)):
        bad.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        with pytest.raises(Damaged):
            torch_zip.read_zip(str(bad))
        assert torch_zip.walk(str(bad)).problems, "byte %d" % at


def test_a_flipped_byte_of_a_large_file_is_noticed_too(tmp_path: Path) -> None:
    path = write(tmp_path / "f.pt", {"x": vector(bytes(65 << 20))})  # the system is asked to read it ahead
    assert len(torch_zip.read_zip(str(path)).tree["x"].storage.view()) == 65 << 20
    with open(path, "r+b") as f:
        f.seek(65 << 20)
        f.write(b"!")
    with pytest.raises(Damaged):
        torch_zip.read_zip(str(path))


def test_every_length_it_may_be_cut_to_or_grow_to_is_noticed(tmp_path: Path) -> None:
    good = write(tmp_path / "a.pt", small_tree()).read_bytes()
    bad = tmp_path / "bad.pt"
    for data in [good[:length] for length in range(len(good))] + [good + b"\0", b"\0" + good]:
        bad.write_bytes(data)
        with pytest.raises(Damaged) as e:
            torch_zip.read_zip(str(bad))
        if len(data) < len(good):
            assert e.value.problem == ("empty" if not data else "unparseable" if len(data) < 4 else "truncated"), len(
                data
            )


def test_pieces_swapped_between_two_files_are_noticed(tmp_path: Path) -> None:
    """CRCs alone would not: the piece of the other file is whole and its headers fit."""
    a = write(tmp_path / "a.pt", {"w": vector(b"a" * 64)}).read_bytes()
    b = write(tmp_path / "b.pt", {"w": vector(b"b" * 64)}).read_bytes()
    sums = a.index(b"archive/.sojourn") - 30
    end = a.index(b'{"arrays"') + (len(a) - a.index(b'{"arrays"'))
    mixed = tmp_path / "mixed.pt"
    mixed.write_bytes(b[:sums] + a[sums:end])
    assert torch_zip.walk(str(mixed)).problems


SOURCES = st.sampled_from(["whole", "pickle"])


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), what=SOURCES)
def test_never_fails_in_another_way_than_it_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, what: str
) -> None:
    """Bytes changed, cut out and doubled at random, in the file or in its pickle with all sums made right again."""
    dice = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "mutated.pt"
    write(path, small_tree())
    if what == "pickle":
        pickled = bytearray(torch_pickle.dumps(small_tree())[0])
        mutate(pickled, dice)
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("archive/data.pkl", bytes(pickled))
            z.writestr("archive/data/0", b"abcdefgh" * 3)
            z.writestr("archive/data/1", b"\1\0")
    else:
        data = bytearray(path.read_bytes())
        mutate(data, dice)
        path.write_bytes(bytes(data))
    torch_zip.walk(str(path))
    torch_zip.is_ours(str(path))
    try:
        torch_zip.read_zip(str(path))
    except Damaged:
        pass


def mutate(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(data) + 1)
        piece = bytes(dice.randrange(256) for _ in range(dice.randint(0, 5)))
        data[at : at + dice.randint(0, 5)] = piece


class Trap:
    """Unpickled by a loader that calls what it reads, this makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (os.mkdir, (self.path,))


def test_nothing_in_a_file_is_run_or_imported(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    path = tmp_path / "evil.pt"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps({"w": Trap(str(trap))}, protocol=2))
    before = set(sys.modules)
    seen = torch_zip.walk(str(path))
    assert seen.problems[0][0] == "unsafe" and "posix.mkdir" in seen.unsafe
    with pytest.raises(Damaged) as e:
        torch_zip.read_zip(str(path))
    assert e.value.problem == "unsafe" and not trap.exists() and set(sys.modules) == before


def test_a_claimed_length_does_not_make_it_take_memory(tmp_path: Path) -> None:
    path = tmp_path / "greedy.pt"
    for body in (b"X\xff\xff\xff\x7f" + b"a", b"N" + b"r\xff\xff\xff\x7f" + b".", b"c" + b"a" * 50):
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("archive/data.pkl", b"\x80\x02" + body)
        torch_zip.walk(str(path))


def test_other_files_are_not_ours_and_say_what_they_are(tmp_path: Path) -> None:
    for name, data, problem in (("e", b"", "empty"), ("t", b"hello world, no zip here......", "unparseable")):
        (tmp_path / name).write_bytes(data)
        assert not torch_zip.is_ours(str(tmp_path / name))
        assert [p for p, _ in torch_zip.walk(str(tmp_path / name)).problems] == [problem]
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as z:
        z.writestr("readme.txt", "hello")
    assert torch_zip.walk(str(tmp_path / "other.zip")).problems[0][0] == "unparseable"


def test_a_tensor_that_shows_more_than_its_storage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(torch_pickle.Unsaveable):
        torch_write.plan([Tensor("float32", (7,), (1,), 0, storage(b"abcdefgh" * 3))], {})


def test_a_state_that_changes_its_size_while_it_is_written_is_an_error(tmp_path: Path) -> None:
    plan = torch_write.plan([Tensor("uint8", (4,), (1,), 0, Storage(4, lambda: memoryview(b"abc")))], {})
    fd = os.open(str(tmp_path / "a"), os.O_WRONLY | os.O_CREAT)
    with pytest.raises(ValueError, match="changed its size"):
        plan.write_to(fd)
    os.close(fd)


def test_sizes_over_4_gib_are_laid_out_as_other_zip_programs_understand(tmp_path: Path) -> None:
    """A sparse file: the headers are written where they belong and the bytes between them are left to be holes."""
    huge = Storage(5 << 30, lambda: memoryview(b""))
    tree = {"big": Tensor("uint8", (5 << 30,), (1,), 0, huge), "after": vector(b"tail")}
    plan = torch_write.plan(tree, {})
    path = tmp_path / "huge.pt"
    with open(path, "wb") as f:
        for e in plan.entries:
            pad = e.offset - e.header - len(torch_write._local(e.name, e.bytes, 0, 0))
            f.seek(e.header)
            f.write(torch_write._local(e.name, e.bytes, 0, pad))
        last = plan.entries[-1]
        f.seek(last.offset + last.bytes)
        f.write(torch_write._directory(plan.entries, last.offset + last.bytes))
    assert path.stat().st_size == plan.bytes
    with zipfile.ZipFile(path) as z:
        assert {i.filename: i.file_size for i in z.infolist()} == {e.name: e.bytes for e in plan.entries}
        assert z.getinfo("archive/data/1").header_offset > 4 << 30
    with open(path, "rb") as f:
        import mmap

        data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        found = torch_entries.entries(data, str(path))
        assert [(e.name, e.offset, e.bytes) for e in found] == [(e.name, e.offset, e.bytes) for e in plan.entries]
        assert torch_write.frame_problems(data, found) == []


def test_made_values_come_back_by_name_only(tmp_path: Path) -> None:
    tree = torch_zip.read_zip(str(write(tmp_path / "a.pt", [Made("torch.device", ("cuda:0",))]))).tree
    assert (tree[0].name, tree[0].args) == ("torch.device", ("cuda:0",))


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("sizes", [[0, 10, 5000], [1 << 20, (1 << 20) + 1], [65 << 20, 3]])
def test_an_image_that_another_process_seals_is_the_very_file_that_is_written_at_once(
    tmp_path: Path, sizes: list
) -> None:
    def plan() -> torch_write.Plan:
        blocks = [bytes([7 + i]) * size for i, size in enumerate(sizes)]
        tree = {
            str(i): Tensor("uint8", (len(b),), (1,), 0, Storage(len(b), lambda b=b: memoryview(b)))
            for i, b in enumerate(blocks)
        }
        return torch_write.plan(tree, {"step": 3})

    whole, mine = tmp_path / "whole", plan()
    fd = os.open(str(whole), os.O_WRONLY | os.O_CREAT)
    mine.write_to(fd)
    os.close(fd)
    filled = plan()
    image, spans = memoryview(bytearray(b"\xaa" * filled.bytes)), []
    for at, size, view in filled.places():
        image[at : at + size] = view()
    seen = bytearray(image)  # what was written too early, and then again where it was told
    again = torch_write.again(filled.outline())

    def placed(start: int, stop: int) -> None:
        seen[start:stop] = image[start:stop]
        spans.append((start, stop))

    again.seal(image, placed)
    assert bytes(image) == bytes(seen) == whole.read_bytes()
    assert again.sums_sha256 == mine.sums_sha256 and spans == sorted(spans) and len(spans) == len(sizes) + 4
    assert torch_zip.walk(str(whole)).problems == ()
