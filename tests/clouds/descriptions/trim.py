"""Make the descriptions here from those that the vendors publish: only the calls that are used, no prose.

python tests/clouds/descriptions/trim.py FOLDER      (with the files named in README.md)
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = {
    "runpod": (
        "runpod-rest-v2.openapi.json",
        r"/v2/(pods(/\{id\}(/action)?)?|catalog/gpus|network-volumes(/\{id\})?|account/ssh-keys)",
    ),
    "lambda": (
        "lambda-cloud-1.8.3.openapi.json",
        r"/api/v1/(instances(/\{id\})?|instance-types|instance-operations/(launch|terminate)|ssh-keys|file-systems|filesystems/\{id\})",
    ),
    "vastai": (
        "vast-ai.openapi.json",
        r"/api/v0/(bundles|asks/\{id\}|instances/\{id\}(/ssh)?|users/current|volumes|ssh)|/api/v1/instances",
    ),
    "digitalocean": (
        "digitalocean-droplets-subset.openapi.json",
        r"/v2/(account(/keys)?|customers/my/balance|droplets(/\{droplet_id\}(/destroy_with_associated_resources)?)?|sizes"
        r"|volumes(/\{volume_id\})?|snapshots(/\{snapshot_id\})?|reserved_ips(/\{reserved_ip\})?)",
    ),
}
PROSE = ("description", "example", "examples", "summary", "externalDocs", "tags", "x-codeSamples", "deprecated")


def without_prose(value, is_names=False):
    """`value` without what only people read; under `properties` every key is a name."""
    if isinstance(value, list):
        return [without_prose(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, one in value.items():
        if not is_names and (key in PROSE or key.startswith("x-")):
            continue
        if not is_names and key in ("enum", "const", "default", "required"):
            out[key] = one
        else:
            out[key] = without_prose(one, key in ("properties", "schemas", "paths", "headers", "patternProperties"))
    if not is_names and out.pop("nullable", False):  # OpenAPI 3.0
        return {"anyOf": [out, {"type": "null"}]}
    return out


def refs(value):
    """Pointers that `value` holds."""
    return set(re.findall(r'"#/components/([^"]+)"', json.dumps(value)))


def trimmed(name, folder):
    """The description `name`."""
    file, pattern = KEPT[name]
    whole = json.loads((folder / file).read_text())
    paths = {path: one for path, one in whole["paths"].items() if re.fullmatch(pattern, path)}
    document = {"openapi": whole["openapi"], "info": {"version": whole["info"]["version"]}}
    document["paths"] = without_prose(paths, True)
    parts, todo = {}, refs(document["paths"])
    while todo:
        kind, _, one = (pointer := todo.pop()).partition("/")
        if one not in parts.setdefault(kind, {}):
            parts[kind][one] = without_prose(whole["components"][kind][one])
            todo |= refs(parts[kind][one])
    document["components"] = {kind: dict(sorted(found.items())) for kind, found in sorted(parts.items())}
    if name == "vastai":
        corrected(document)
    return document


def corrected(document):
    """Where the vendor's own service and clients do otherwise than its description; README.md names the sources."""
    ask = document["paths"]["/api/v0/asks/{id}"]["put"]["requestBody"]["content"]["application/json"]["schema"]
    ask["properties"]["env"] = {"type": ["object", "string"]}
    for status in ("400", "404", "410"):
        answer = document["paths"]["/api/v0/asks/{id}"]["put"]["responses"][status]["content"]["application/json"]
        answer["schema"]["properties"]["new_contract"] = {"type": "integer"}
    instance = document["components"]["schemas"]["Instance"]["properties"]
    instance["ports"] = {"type": ["object", "null"]}
    shown = document["paths"]["/api/v0/instances/{id}"]["get"]
    shown["parameters"].append({"name": "owner", "in": "query", "schema": {"type": "string"}})
    body = shown["responses"]["200"]["content"]["application/json"]["schema"]["properties"]
    body["instances"] = {"anyOf": [body["instances"], {"type": "null"}]}


def main():
    """Write all of them."""
    for name in KEPT:
        text = json.dumps(trimmed(name, Path(sys.argv[1])), separators=(",", ":"), sort_keys=False)
        (HERE / f"{name}.json").write_text(text + "\n")
        sys.stderr.write(f"{name}: {len(text)} bytes\n")


if __name__ == "__main__":
    main()
