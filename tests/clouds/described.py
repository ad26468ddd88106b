"""A published description of an API: does a request, or an answer, hold to it?"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FOLDER = Path(__file__).resolve().parent / "descriptions"


class Described:
    """The description in FOLDER/NAME.json."""

    def __init__(self, name: str) -> None:
        self.document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
        self._registry: Registry[Any] = Registry().with_resource("urn:api", DRAFT202012.create_resource(self.document))
        self._paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "/?"), path) for path in self.document["paths"]]

    def faults_of_request(self, method: str, path: str, query: str, body: Any) -> list[str]:
        """What breaks the description in a request, one line each; `body` None for none."""
        found = self._operation(method, path)
        if found is None:
            return [f"{method} {path}: there is no such call"]
        where, operation, shared = found
        out = []
        told = dict(parse_qsl(query, keep_blank_values=True))
        parameters = {one["name"]: one for one in map(self._whole, shared + operation.get("parameters", []))}
        for name in told:
            if parameters.get(name, {}).get("in") != "query":
                out.append(f"{method} {path}: no parameter is called {name}")
        for name, one in parameters.items():
            if one["in"] == "query" and one.get("required") and name not in told:
                out.append(f"{method} {path}: {name} is missing")
            values = one["schema"].get("enum") if "schema" in one else None
            if values and name in told and told[name] not in values:
                out.append(f"{method} {path}: {name}={told[name]}")
        wanted = self._whole(operation.get("requestBody", {}))
        if body is None:
            return out + ([f"{method} {path}: its body is missing"] if wanted.get("required") else [])
        if not wanted:
            return [*out, f"{method} {path}: takes no body"]
        pointer = f"{where}/requestBody/content/application~1json/schema"
        return out + [f"{method} {path}: {fault}" for fault in self._faults(pointer, wanted, body)]

    def faults_of_answer(self, method: str, path: str, status: int, body: Any) -> list[str]:
        """What breaks the description in an answer."""
        found = self._operation(method, path)
        if found is None:
            return []
        where, operation, _ = found
        responses = operation["responses"]
        key = str(status) if str(status) in responses else "default"
        if key not in responses:
            return [f"{method} {path}: HTTP {status} is not described"]
        content = self._whole(responses[key]).get("content", {})
        kind = next(iter(content), "")
        if not kind or "schema" not in content[kind]:
            return []
        pointer = f"{where}/responses/{key}/content/{kind.replace('/', '~1')}/schema"
        return [f"{method} {path} {status}: {fault}" for fault in self._faults(pointer, responses[key], body)]

    def _operation(self, method: str, path: str) -> tuple[str, dict[str, Any], list[Any]] | None:
        fits = [name for pattern, name in self._paths if pattern.fullmatch(path)]
        for name in sorted(fits, key=lambda one: one.count("{")):
            item = self.document["paths"][name]
            if method.lower() in item:
                pointer = f"#/paths/{name.replace('~', '~0').replace('/', '~1')}/{method.lower()}"
                return pointer, item[method.lower()], item.get("parameters", [])
        return None

    def _whole(self, value: Any) -> Any:
        """`value`, or what it points to."""
        while isinstance(value, dict) and "$ref" in value:
            found: Any = self.document
            for part in value["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            value = found
        return value

    def _faults(self, pointer: str, holder: Any, value: Any) -> list[str]:
        if "$ref" in holder:  # the schema lies where the whole answer, or the whole request, is shared
            pointer = holder["$ref"] + "/content/" + pointer.split("/content/")[1]
        validator = _validator(self, pointer)
        return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(value)]


@functools.cache
def _validator(described: Described, pointer: str) -> Draft202012Validator:
    return Draft202012Validator(
        {"$ref": "urn:api" + pointer.replace("{", "%7B").replace("}", "%7D")}, registry=described._registry
    )
