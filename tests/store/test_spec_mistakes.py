"""A mistake in a job file is said with its place and the nearest valid thing; nothing gives a traceback."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.store.job.read import read_job
from sojourn.store.job.values import JobFile
from sojourn.wire.errors import Misuse
from tests.store.jobs import refused


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run: x\noutptus: [a]\n", "2:1: no key is called 'outptus'; the nearest is 'outputs'"),
        ("run: x\nfrobnicate: 1\n", "2:1: no key is called 'frobnicate'; there are name, workdir, site"),
        ("run: x\nresources:\n  gpus: 1\n", "3:3: no key is called 'gpus' in `resources`; "),
        ("run: x\nresources:\n  acelerators: A100\n", "3:3: no key is called 'acelerators' in `resources`; the ne"),
        ("run: x\nretry: {attempt: 1}\n", "2:9: no key is called 'attempt' in `retry`; the nearest is 'attempts'"),
        ("run: x\nhooks: {after_up: x}\n", "2:9: no key is called 'after_up' in `hooks`; there are before_down"),
        ("run: x\nrun: y\n", "2:1: 'run' appears twice, first on line 1"),
        ("run: x\nenvs:\n  A: 1\n  A: 2\n", "4:3: 'A' appears twice, first on line 3"),
        ("name: a\n", "1:1: `run` is missing"),
        ("- run: x\n", "1:1: a job file is a mapping"),
        ("just words\n", "1:1: a job file is a mapping"),
        ("", "1:1: the file is empty; `sojourn init` writes one that runs"),
        ("# only this\n", "1:1: the file is empty"),
        ("run: x\n---\nrun: y\n", "2:1: a second document begins; a job file holds one job"),
        ("run: x\n\tname: a\n", "2:1: a tab; indent YAML with spaces"),
        ("run: [x\n", "2:1: "),
        ("run: 'x\n", "2:1: found unexpected end of stream"),
        ("run: x\nname: a: b\n", "2:8: mapping values are not allowed here"),
        ("run: x\nname: *nope\n", "2:7: found undefined alias 'nope'"),
        ("run: !!python/object:os.system x\n", "1:6: a job file cannot use the tag tag:yaml.org,2002:python"),
        ("run: !secret x\n", "1:6: a job file cannot use the tag !secret"),
        ("? [a]\n: x\n", "1:3: a key must be a plain word"),
        ("run: x\n<<: 3\n", "2:5: `<<` takes a mapping"),
        ("run: ''\n", "1:6: `run` is empty"),
        ("run: [python, train.py]\n", "1:6: `run` takes one value, not a list"),
        ("run: {a: b}\n", "1:6: `run` takes one value, not a mapping"),
        ("run: x\nname: My Run\n", "2:7: 'My Run' is not a name for a run: 1 to 63 of a-z"),
        ("run: x\nname: My Run\n", "the nearest is 'my-run'"),
        ("run: x\nname: -a\n", "2:7: '-a' is not a name for a run"),
        ("run: x\nnum_nodes: two\n", "2:12: `num_nodes`: 'two' is not a whole number of at least 1"),
        ("run: x\nnum_nodes: 0\n", "2:12: `num_nodes`: '0' is not a whole number"),
        ("run: x\nnum_nodes: 1_000\n", "2:12: `num_nodes`: '1_000' is not a whole number"),
        ("run: x\nstall_after: soon\n", "2:14: `stall_after`: not a duration: 'soon' (write 90s, 20m"),
        ("run: x\nmax_duration: 12:30\n", "2:15: `max_duration`: not a duration: '12:30'"),
        ("run: x\nmax_duration: -1h\n", "2:15: `max_duration`: not a duration"),
        ("run: x\nbudget: 20\n", "2:9: `budget`: not an amount of money: '20' (write 20 USD)"),
        ("run: x\noutputs: [/etc/passwd]\n", "2:11: `outputs`: '/etc/passwd' must be relative"),
        ("run: x\noutputs: [../x]\n", "2:11: `outputs`: '../x' must be relative"),
        ("run: x\noutputs: ['']\n", "2:11: `outputs`: '' must be relative"),
        ("run: x\nscratch: {a: b}\n", "2:10: `scratch` takes a list"),
        ("run: x\nretry: {on: [oom]}\n", "2:14: `retry.on`: 'oom' is unknown; there are preempted, node-failure"),
        ("run: x\nretry: {on: [prempted]}\n", "2:14: `retry.on`: 'prempted' is unknown; the nearest is 'pree"),
        ("run: x\nretry: 3\n", "2:8: `retry` takes a mapping of attempts, on"),
        ("run: x\nrules: [{name: a, pattern: '(', action: retry}]\n", "2:28: `rules.pattern`: not a regular exp"),
        ("run: x\nrules: [{name: a, pattern: b, action: explode}]\n", "2:39: `rules.action`: 'explode' is unknown"),
        ("run: x\nrules: [{name: a}]\n", "2:9: a rule needs `pattern`, `action`"),
        ("run: x\nrules: never\n", "2:8: `rules` takes a list of mappings"),
        ("run: x\nresources: {cpus: many}\n", "2:19: `resources.cpus`: 'many' is not an amount (write 4 or 4+)"),
        ("run: x\nresources: {cpus: 4++}\n", "2:19: `resources.cpus`"),
        ("run: x\nresources: {memory: 24 apples}\n", "2:21: `resources.memory`: '24 apples' is not a size"),
        ("run: x\nresources: {accelerators: 'A100:0'}\n", "2:27: `resources.accelerators`: 'A100:0' is not an acc"),
        ("run: x\nworkdir: nowhere\n", "2:10: `workdir`: there is no folder "),
        ("run: x\nworkdir: {url: 'https://x', ref: y}\n", "2:10: `workdir` takes a folder of this machine"),
        ("run: x\nfile_mounts: {data: ./nowhere}\n", "2:21: `file_mounts`: there is no "),
        ("run: x\nfile_mounts: {../x: data}\n", "2:15: `file_mounts`: '../x' is not a target"),
        ("run: x\nfile_mounts: {d: data, d/e: data}\n", "2:24: `file_mounts`: d/e is inside another target"),
        ("run: x\nfile_mounts: {/d: 's3://bucket'}\n", "2:19: `file_mounts`: /d takes a path of this machine"),
        ("run: x\nfile_mounts: {/d: {source: 's3://b', mode: MOUNT}}\n", "2:19: `file_mounts`: /d takes a path"),
        ("run: x\nsite: a\ncandidates: [b]\n", "3:13: `site` and `candidates` exclude each other"),
        ("run: x\nenvs: [A]\n", "2:7: `envs` takes a mapping"),
        ("run: x\nenvs: {A-B: 1}\n", "2:8: `envs`: 'A-B' is not a valid environment variable name"),
        ("run: x\nenvs: {SOJOURN_RUN_ID: 1}\n", "2:8: `envs`: names that begin with SOJOURN_ are reserved"),
        ("run: x\nenvs: {A: [1]}\n", "2:11: `envs.A` takes one value, not a list"),
        ("run: x\nenvs: {A: }\n", "2:8: `envs.A` has no value here: give one with --env A=..."),
        ("run: x\nsecrets: [A, A]\n", "2:14: `secrets`: A is already declared"),
        ("run: x\nenvs: {A: 1}\nsecrets: [A]\n", "3:11: `secrets`: A is already declared"),
        ("run: x\nsecrets: [A B]\n", "2:11: `secrets`: 'A B' is not a valid environment variable name"),
        ("run: x\nsweep: {}\n", "2:8: `sweep` takes exactly one of matrix, cells, queue"),
        ("run: x\nsweep: {matrix: {a: [1]}, queue: q}\n", "2:8: `sweep` takes exactly one of "),
        ("run: x\nsweep: {random: {a: [1]}}\n", "2:17: `sweep.random` needs a `count`"),
        ("run: x\nsweep: {matrix: {a: [1]}, seed: 1}\n", "2:33: `sweep.seed` belongs to `random`"),
        ("run: x\nsweep: {count: 2, random: {a: 'loguniform(0, 1)'}}\n", "both ends of loguniform are above 0"),
        ("run: x\nsweep: {count: 2, random: {a: 'normal(0, 1)'}}\n", "is no range (write uniform(0, 1)"),
        ("run: x\nsweep: {count: 2, random: {a: 1}}\n", "takes a range such as loguniform(1e-5, 1e-2), or a list"),
        ("run: x\nsweep: {matrix: {a: []}}\n", "2:21: `sweep.matrix.a` takes different values, at least one"),
        ("run: x\nsweep: {matrix: {a: [1, 1]}}\n", "2:21: `sweep.matrix.a` takes different values"),
        ("run: x\nsweep: {cells: [{name: a}, {name: a}]}\n", "2:28: a cell needs a `name` of its own"),
        ("run: x\nsweep: {queue: nowhere.txt}\n", "2:16: `sweep.queue`: there is no file "),
        ("run: x\nsweep: {budget: 5}\n", "2:17: `sweep.budget`: not an amount"),
        ('run: "a\\0b"\n', "1:6: `run`: there is a zero byte in it"),
        ("run: ${DTA}\nenvs: {DATA: /x}\n", "1:6: `run`: ${DTA} is declared nowhere; the nearest is ${DATA}"),
        ("run: x\noutputs: ['${OUT}/best.pt']\n", "2:11: nothing called ${OUT} is declared, and no shell expands this"),
        ("run: x\nenvs: {B: '${A}', A: 1}\n", "2:11: nothing called ${A} is declared"),
        ("run: x\nenvs: {PATH: '${PATH}:/x'}\n", "2:14: nothing called ${PATH} is declared"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_place_and_the_nearest_valid_thing(folder: Path, text: str, problem: str) -> None:
    found = refused(folder, text)
    assert any(problem in one for one in found), found


def test_all_mistakes_of_a_file_are_said_at_once(folder: Path) -> None:
    found = refused(folder, "nmae: a\nnum_nodes: x\nrun: ''\nbudget: 3\n")
    assert [one.split(": ")[0] for one in found] == ["1:1", "2:12", "3:6", "4:9"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"run: x\nname: \xff\n", "2:7: the byte 0xff is not UTF-8"),
        ("run: größe\nname: ".encode() + b"\xe9\n", "2:7: the byte 0xe9 is not UTF-8"),
        ("run: x\n".encode("utf-16"), "1:1: this is UTF-16; save it as UTF-8"),
        (b"run: x\nname: a\x00b\n", "2:8: the character U+0000 is not allowed here"),
        (b"run: x\x1b[0m\n", "1:7: the character U+001B is not allowed here"),
        (b"run: x\n" + b"# padding\n" * 30_000, "1:1: larger than 256 KiB: this is not a job file"),
        (b"[" * 5000, "nested deeper than 30 levels"),
        (b"run: " + b"{a: " * 40 + b"1" + b"}" * 40 + b"\n", "nested deeper than 30 levels"),
        (b"run: &a [*a]\n", "nested deeper than 30 levels"),
    ],
)
def test_bytes_that_are_no_job_file_are_one_line(folder: Path, data: bytes, problem: str) -> None:
    assert any(problem in one for one in refused(folder, data))


def test_a_bomb_of_aliases_is_refused_at_once(folder: Path) -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{i}: &a{i} [{', '.join(f'*a{i - 1}' for _ in range(9))}]" for i in range(1, 12)]
    assert any("over 20000 values (aliases counted)" in one for one in refused(folder, "\n".join(layers)))


KEYS = st.sampled_from(
    "name workdir site candidates resources num_nodes envs secrets file_mounts setup smoke run outputs scratch retry"
    " stall_after max_duration budget rules hooks notify after sweep service accelerators matrix cells queue on".split()
)
WORDS = st.text(max_size=12) | st.sampled_from(
    ["${A}", "null", "yes", "1", "20m", "a: b", "- x", "&a", "*a", "A100:1", "!!int x"]
)
VALUES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | WORDS, inner, max_size=3), max_leaves=8
)


def flow(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"? {flow(key)} : {flow(item)}" for key, item in value.items()) + "}"
    return str(value)


def job_or_misuse(folder: Path, data: bytes) -> None:
    path = folder / "sojourn.yaml"
    path.write_bytes(data)
    try:
        assert isinstance(read_job(str(path)), JobFile)
    except Misuse as error:
        assert "\n" not in error.message


@given(st.text(max_size=80) | st.binary(max_size=80))
@example("? \n")
@example("run: x\n? {}\n: 1")
@example("%YAML 9.9\n---\nrun: x")
@example("run: !!binary x")
@example("run: !!set {a}")
@example("run: x\nname: !!null a")
@example("\x85")
def test_no_text_gives_a_traceback(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    job_or_misuse(
        tmp_path_factory.mktemp("f"), text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    )


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.booleans())
def test_no_mapping_gives_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object], raw: bool
) -> None:
    import yaml

    text = flow(value) if raw else yaml.safe_dump(value, allow_unicode=True)
    job_or_misuse(tmp_path_factory.mktemp("f"), text.encode("utf-8", "surrogatepass"))
