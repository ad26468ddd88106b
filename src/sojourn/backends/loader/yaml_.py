"""Verifies YAML texts: parsed to the end by PyYAML's parser, tags named but never followed. PyYAML's full loader would
build, or call, a tag for a Python object: a call is `unsafe`.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from sojourn.backends.proof import pickle_calls
from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch.pickle_walk import Call
from sojourn.formats.torch.values import Name

_LIMIT_BYTES = 16 << 20
_PLAIN = "tag:yaml.org,2002:"
_OBJECT = _PLAIN + "python/"
_HARMLESS = ("none", "bool", "str", "unicode", "int", "long", "float", "complex", "bytes", "list", "tuple", "dict")
_NAMED = 5


class Backend(Loader):
    """Loads one .yaml or .yml file."""

    kind: ClassVar[str] = "yaml"
    suffixes: ClassVar[tuple[str, ...]] = (".yaml", ".yml")
    magic: ClassVar[tuple[bytes, ...]] = ()
    may_be_empty: ClassVar[bool] = True  # no options at all

    def owns(self, path: str, head: bytes) -> bool:
        """Nearly every text is YAML: only the name identifies it."""
        return False

    def load(self, path: str) -> Loaded:
        """Parse it. Raises: Unloadable, OSError."""
        import yaml

        size_bytes = os.path.getsize(path)
        if size_bytes > _LIMIT_BYTES:
            raise Unloadable("unsupported", f"{size_bytes} bytes of YAML, our limit is {_LIMIT_BYTES}")
        with open(path, "rb") as f:
            raw = f.read()
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            roots = list(yaml.compose_all(raw.decode("utf-8"), loader))
        except UnicodeDecodeError:
            raise Unloadable("unparseable", "it is not UTF-8") from None
        except RecursionError:
            raise Unloadable("unparseable", "nested too deeply to be read") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            is_cut = mark is not None and not raw[_begin_of_line(raw, mark.line + 1) :].strip()
            raise Unloadable("truncated" if is_cut else "unparseable", " ".join(str(error).split())[:200]) from None
        if any(isinstance(root, yaml.ScalarNode) for root in roots):
            problem = "unparseable" if raw.endswith(b"\n") else "truncated"
            raise Unloadable(problem, "neither a map nor a list, as YAML files of programs are")
        tags, calls, count = _tags(roots)
        facts = {"documents": len(roots), "nodes": count, "by": f"pyyaml {yaml.__version__}"}
        if calls:
            raise Unloadable("unsafe", f"loading its tags would call {', '.join(calls[:_NAMED])[:300]}")
        if not tags:
            return Loaded(("structure", "load", "content"), facts)
        remark = f"tags known, objects not built: {', '.join(tags[:_NAMED])[:300]}"
        return Loaded(("structure", "content"), {**facts, "tags": [tag[:200] for tag in tags[:256]]}, (remark,))


def _begin_of_line(raw: bytes, line: int) -> int:
    """The start of the line with that number, from 0; the end if there are fewer."""
    return sum(map(len, raw.splitlines(keepends=True)[:line]))


def _tags(roots: list[Any]) -> tuple[list[str], list[str], int]:
    """(tags that are not plain, which of them a load would call, how many nodes). A repeated node counts once."""
    import yaml

    tags: dict[str, None] = {}
    calls: dict[str, None] = {}
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            stack += node.value
        elif isinstance(node, yaml.MappingNode):
            stack += [part for pair in node.value for part in pair]
            calls.update(dict.fromkeys(_replaced(node)))
        tag = str(node.tag)
        if not tag.startswith(_PLAIN) or tag.startswith(_OBJECT):
            short = tag[len(_PLAIN) :] if tag.startswith(_PLAIN) else tag
            if not (short.startswith("python/") and short[7:] in _HARMLESS):
                tags[short] = None
                calls.update(dict.fromkeys(_calls(short, node)))
    return sorted(tags), sorted(calls), len(seen)


def _calls(tag: str, node: Any) -> list[str]:
    """The calls that building one tag's object would make, unless known to make data alone."""
    import yaml

    how, _, full = tag.partition(":")
    if not how.startswith("python/"):
        return []  # a program's own tag, known only to its own loader
    full = full if "." in full or how == "python/module" else f"builtins.{full}"
    what = Name(full)
    if how in ("python/name", "python/module"):
        return pickle_calls.unsafe([], [full] if how == "python/name" else [full + ".Module"])
    is_list = isinstance(node, yaml.SequenceNode)
    args: tuple[Any, ...] = ([],) if node.value and how == "python/object/apply" else ()
    if is_list:
        args = tuple([] if isinstance(part.value, list) else str(part.value) for part in node.value)
    made = Call("new" if how in ("python/object", "python/object/new") else "call", what, args)
    return pickle_calls.unsafe([made], [full])


def _replaced(node: Any) -> list[str]:
    """Methods that a load calls, in a map of attributes given as a Python object."""
    return [
        f"{key.value} as it is set on an object"
        for key, value in node.value
        if key.value in pickle_calls.METHODS and str(value.tag).startswith(_OBJECT)
    ]
