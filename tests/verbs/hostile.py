"""A keeper that answers with a manifest as a test made it, of files that really lie in the run's root."""

import hashlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sojourn.backends.keeper.client import Answer
from sojourn.core.fold import Status, to_plain
from sojourn.core.values import State
from sojourn.wire import manifest
from tests.verbs.conftest import World


class Saying:
    """Its `document` is the manifest, whatever is asked; `asked` keeps the questions."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.asked: list[dict[str, Any]] = []

    def ask(self, op: str, **fields: Any) -> Answer:
        self.asked.append({"op": op, **fields})
        return Answer({"manifest": self.document, "sealed": True})


def planted(world: World, where: str, data: bytes, run: str = "digits", **keys: Any) -> dict[str, Any]:
    """A file below the run's root, and its row: an output of the name behind attempts/N/, unless `keys` say else."""
    path = world.root(run) / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    parts = where.split("/")
    name = "/".join(parts[2:]) if parts[0] == "attempts" else where
    row = {"path": name, "from": where, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {**row, "role": "output", **keys}


def says(
    world: World,
    files: list[dict[str, Any]],
    *,
    outputs: list[str],
    state: State = State.FAILED,
    attempt: int = 3,
    run: str = "digits",
    missing: tuple[str, ...] = (),
    digest: str = "",
    **more: Any,
) -> Saying:
    """Records of a run that has ended, on a box whose keeper says that these are its files."""
    spec = {"identity": "i", "code": "c", "outputs": outputs, "keeper": "k"}
    document: dict[str, Any] = manifest.document(run, attempt, "2026-11-21T10:00:00.000Z", files, missing)
    document |= more
    document["digest"] = digest or manifest.digest_of(document)
    if world.ctx.store.index.run(run) is None:
        store = world.ctx.store
        store.append("planned", run=run, site=asdict(world.site), spec=spec)
        store.append("launching", run=run, attempt=attempt, token="t", lease=world.site.name)
        fold = to_plain(Status(state=state, attempt=attempt, manifest="m", seq=9))
        said = {"fold": fold, "keeper": "gone", "payload": "gone"}
        store.append("heard", run=run, offset=9, status=said, root=str(world.root(run)))
    keeper = Saying(document)
    world.ctx.boxes["local"] = replace(world.ctx.box(world.site), keeper=keeper)  # type: ignore[arg-type]
    return keeper


def everything(folder: Path) -> dict[str, bytes]:
    """All files below `folder` but those of sojourn's own records."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found
