"""Traps around datasets and loaders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import (
    Code,
    Sight,
    Source,
    argument,
    bound,
    constant,
    dotted,
    inside,
    is_open,
    last,
    names_in,
)

_GENERATORS = ("default_rng", "RandomState", "Generator")
_MULTI = ("mp", "multiprocessing", "ctx", "context", "futures")
_LOOPS_ELSEWHERE = {"lightning", "pytorch_lightning", "accelerate", "ignite", "trainer", "mmengine", "composer"}
_TRANSFORMS = re.compile("transform|augment|crop|flip|rotat|noise|jitter|mix|erase|cutout|blur|rand", re.I)
_SEEDING = ("seed", "default_rng", "RandomState", "get_state", "set_state", "SeedSequence", "Generator")


def same_random(code: Code) -> Iterator[Sight]:
    """Numpy's generator copied into workers. A Generator made before the fork repeats with every torch (measured with
    2.13); numpy's global state with torch before 1.9 only, which seeds it since."""
    if not _has_workers(code):
        return
    for source, _, call in code.find("DataLoader"):
        seeder = argument(call, "worker_init_fn")
        for function in source.every(ast.FunctionDef):
            if isinstance(seeder, ast.Name) and function.name == seeder.id:
                for seed in inside(function, ast.Call):
                    if dotted(seed.func) in ("np.random.seed", "numpy.random.seed") and not names_in(seed.args):
                        yield source.sight("same-random-in-workers", seed)
    if code.uses("worker_init_fn"):
        return
    for source in code.sources:
        shared = {
            name: statement
            for name, value, statement in source.assigned
            if isinstance(value, ast.Call) and last(dotted(value.func)) in _GENERATORS
        }
        for method in (*_fetchers(source), *_transforms(source)):
            local = {name for statement in inside(method, ast.Assign) for name in bound(statement)}
            for call in inside(method, ast.Call):
                name = dotted(call.func)
                base = name.rpartition(".")[0]
                if base in shared and base not in local:
                    yield source.sight("same-random-in-workers", call)
                elif base in ("np.random", "numpy.random") and last(name) not in _SEEDING:
                    yield source.sight("same-random-in-workers", call, is_sure=False)


def same_order(code: Code) -> Iterator[Sight]:
    """DistributedSampler that never hears of the epoch. Lightning and accelerate tell it themselves."""
    if code.uses("set_epoch") or code.imports & _LOOPS_ELSEWHERE:
        return
    trains = code.uses("backward")  # where the loop is somebody else's, it may tell it
    for source, _, call in code.find("DistributedSampler"):
        if constant(argument(call, "shuffle", 3)) is not False:
            yield source.sight("same-order-every-epoch", call, is_sure=trains)


def stream_copied(code: Code) -> Iterator[Sight]:
    """IterableDataset that goes into a loader with workers and does not divide its stream."""
    if code.uses("get_worker_info", "split_dataset_by_node", "split_by_worker", "worker_init_fn"):
        return
    loaded = {
        name for source, _, call in code.find("DataLoader") if _starts_workers(call) for name in _fed(source, call)
    }
    for source in code.sources:
        for found in source.every(ast.ClassDef):
            if found.name in loaded and any(last(dotted(base)) == "IterableDataset" for base in found.bases):
                for method in found.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "__iter__":
                        yield Sight("stream-read-by-every-worker", source.path, method.lineno, f"{found.name}.__iter__")


def growing_cache(code: Code) -> Iterator[Sight]:
    """A dict filled by __getitem__, without a limit, in each worker for itself."""
    for source in code.sources:
        dicts = {name for name, value, _ in source.assigned if name.startswith("self.") and _is_empty_dict(value)}
        for method in _fetchers(source):
            for statement in inside(method, ast.Assign):
                if any(isinstance(t, ast.Subscript) and dotted(t.value) in dicts for t in statement.targets):
                    yield source.sight("cache-grows-in-workers", statement)


def blue_first(code: Code) -> Iterator[Sight]:
    """cv2.imread whose colours nobody swaps."""
    if "torch" not in code.imports:
        return
    for source, name, call in code.find("imread"):
        flags = argument(call, "flags", 1)
        if not name.startswith("cv2.") or (flags is not None and last(dotted(flags)) == "IMREAD_GRAYSCALE"):
            continue
        text = ast.unparse(source.tree)
        if not code.uses("COLOR_BGR2RGB", "COLOR_BGR2GRAY", "BGR2RGB", "bgr_to_rgb") and "::-1]" not in text:
            yield source.sight("bgr-images", call, is_sure=False)


def normalize_first(code: Code) -> Iterator[Sight]:
    """Normalize before ToTensor in one Compose."""
    for source, _, call in code.find("Compose"):
        steps = call.args[0] if call.args else None
        if isinstance(steps, (ast.List, ast.Tuple)):
            order = [last(dotted(step.func)) if isinstance(step, ast.Call) else "" for step in steps.elts]
            tensors = [order.index(name) for name in ("ToTensor", "ToImage", "PILToTensor") if name in order]
            is_first = tensors and "Normalize" in order and order.index("Normalize") < min(tensors)
            if is_first and "ToPILImage" not in order:  # which takes a tensor
                yield source.sight("normalize-before-tensor", steps.elts[order.index("Normalize")])


def no_workers(code: Code) -> Iterator[Sight]:
    """A training loader without workers."""
    for source, call in _training_loaders(code):
        workers = argument(call, "num_workers", 5)
        if workers is None or constant(workers) == 0:
            yield source.sight("no-loader-workers", call, is_sure=False)


def short_lived_workers(code: Code) -> Iterator[Sight]:
    """Workers that end with each epoch."""
    for source, call in _training_loaders(code):
        workers = constant(argument(call, "num_workers", 5))
        if isinstance(workers, int) and workers > 0 and argument(call, "persistent_workers") is None:
            yield source.sight("workers-start-every-epoch", call)


def half_pinned(code: Code) -> Iterator[Sight]:
    """pin_memory without non_blocking, or the other way round."""
    if code.uses("Trainer", "Accelerator", "LightningModule", "prefetcher", "collate_to_device"):
        return
    for source, call in _training_loaders(code):
        if constant(argument(call, "pin_memory", 7)) is True and not code.uses("non_blocking"):
            yield source.sight("blocking-copies", call)
    for source, _, call in code.find("to", "cuda"):
        is_async = constant(argument(call, "non_blocking")) is True
        if is_async and code.uses("DataLoader") and not code.uses("pin_memory"):
            yield source.sight("blocking-copies", call)


def no_guard(code: Code) -> Iterator[Sight]:
    """Workers or processes started when the file is imported: at module level, or by a function called there."""
    is_spawned = code.uses("spawn", "forkserver")
    for source in code.sources:
        if any("__name__" in names_in(node.test) for node in source.tree.body if isinstance(node, ast.If)):
            continue
        loaders = {name for name, value, _ in source.assigned if isinstance(value, ast.Call) and _starts_workers(value)}
        functions = {node.name: node for node in source.tree.body if isinstance(node, ast.FunctionDef)}
        for node in source.every(ast.For, ast.Call):
            if not _is_top(source, node):
                continue
            starts = _starts(node, loaders)
            if isinstance(node, ast.Call):
                reached = _reached(functions, dotted(node.func))
                starts |= any(_starts(n, loaders) for function in reached for n in inside(function, ast.For, ast.Call))
                # Built in one function and iterated in another.
                starts |= any(_starts_workers(n) for function in reached for n in inside(function, ast.Call))
            if starts:
                what = node.iter if isinstance(node, ast.For) else node
                yield source.sight("no-main-guard", what, is_sure=is_spawned)
                break


def _reached(functions: dict[str, ast.FunctionDef], name: str) -> list[ast.FunctionDef]:
    """The function of this name, and those of the same file that it calls, and so on."""
    found: dict[str, ast.FunctionDef] = {}
    left = [name]
    while left:
        one = left.pop()
        if one in functions and one not in found:
            found[one] = functions[one]
            left += [dotted(call.func) for call in inside(functions[one], ast.Call)]
    return list(found.values())


def _starts(node: ast.AST, loaders: set[str]) -> bool:
    """Whether this starts processes: a loop over a loader with workers, or a process or pool."""
    if isinstance(node, ast.For):
        return bool(names_in(node.iter) & loaders)
    if not isinstance(node, ast.Call):
        return False
    base, _, word = dotted(node.func).rpartition(".")
    if word == "spawn":
        return base.endswith(("mp", "multiprocessing"))
    return word in ("Process", "Pool", "ProcessPoolExecutor") and (not base or base.endswith(_MULTI))


def _fetchers(source: Source) -> Iterator[ast.FunctionDef]:
    """__getitem__ and __iter__ of classes that look like a dataset."""
    for found in source.every(ast.ClassDef):
        bases = {last(dotted(base)) for base in found.bases}
        methods = {method.name: method for method in found.body if isinstance(method, ast.FunctionDef)}
        if any("Dataset" in base for base in bases) or {"__getitem__", "__len__"} <= set(methods):
            for name in ("__getitem__", "__iter__", "__getitems__"):
                if name in methods:
                    yield methods[name]


def _transforms(source: Source) -> Iterator[ast.FunctionDef]:
    """__call__ of classes whose name says that a dataset applies them to a sample."""
    for found in source.every(ast.ClassDef):
        bases = [last(dotted(base)) for base in found.bases]
        is_other = any(base.endswith(("Module", "Dataset")) for base in bases)
        if not is_other and any(_TRANSFORMS.search(name) for name in (found.name, *bases)):
            yield from (m for m in found.body if isinstance(m, ast.FunctionDef) and m.name == "__call__")


def _training_loaders(code: Code) -> Iterator[tuple[Source, ast.Call]]:
    """DataLoader calls of a project that trains that are for training: shuffled, sampled, or called so."""
    if not code.uses("backward", "fit"):
        return
    for source, _, call in code.find("DataLoader"):
        statement = next((node for node in source.above(call) if isinstance(node, (ast.Assign, ast.Return))), None)
        target = " ".join(bound(statement)) if isinstance(statement, ast.Assign) else ""
        named = f"{target} {' '.join(names_in(call.args[:1]))}".lower()
        is_shuffled = constant(argument(call, "shuffle", 2)) is True or argument(call, "sampler", 3) is not None
        is_training = is_shuffled or argument(call, "batch_sampler", 4) is not None or "train" in named
        if is_training and not is_open(call) and not any(word in named for word in ("val", "test", "eval")):
            yield source, call


def _fed(source: Source, call: ast.Call) -> set[str]:
    """Names of what a loader is given: called in its place, or bound to the name that stands there."""
    given = argument(call, "dataset", 0)
    made = [given, *(value for name, value, _ in source.assigned if given is not None and name == dotted(given))]
    return {last(dotted(one.func)) for value in made if value is not None for one in inside(value, ast.Call)}


def _is_empty_dict(value: ast.expr) -> bool:
    is_call = isinstance(value, ast.Call) and last(dotted(value.func)) in ("dict", "defaultdict", "OrderedDict")
    return is_call or (isinstance(value, ast.Dict) and not value.keys)


def _has_workers(code: Code) -> bool:
    return any(_starts_workers(call) for _, _, call in code.find("DataLoader"))


def _starts_workers(call: ast.Call) -> bool:
    if last(dotted(call.func)) != "DataLoader":
        return False
    workers = argument(call, "num_workers", 5)
    return is_open(call) or (workers is not None and constant(workers) != 0)


def _is_top(source: Source, node: ast.AST) -> bool:
    return not any(
        isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)) for up in source.above(node)
    )


RULES = (
    same_random,
    same_order,
    stream_copied,
    growing_cache,
    blue_first,
    normalize_first,
    no_workers,
    short_lived_workers,
    half_pinned,
    no_guard,
)
