"""What happens to files behind sojourn's back: on the box, at home, in the journal, by a hook."""

from __future__ import annotations

import random
import shlex
import shutil
from pathlib import Path

from tests.law import payload
from tests.law.client import Client
from tests.law.order import Order

JOURNAL = {"lost": 3, "bit": 3, "tail": 2, "line": 3, "index": 1}


def on_box(order: Order, dice: random.Random) -> None:
    """Change, delete or add one file of a run, or a checkpoint; most often one that is owed."""
    for line in _box_script(order, dice):
        order.tell(f"on the box: {line.replace(str(order.folder), '')}")
        _sh(line)


def at_home(order: Order, dice: random.Random) -> None:
    """Delete or overwrite one file that came home."""
    for line in _home_script(order, dice):
        order.tell(f"at home: {line.replace(str(order.folder), '')}")
        _sh(line)


def arm_hook(order: Order, dice: random.Random, client: Client) -> None:
    """What `before_down` will do, where a job has it: mostly nothing; at times it changes something, or says no."""
    script: list[str] = []
    if dice.random() < 0.6:
        script = (_box_script if dice.random() < 0.6 else _home_script)(order, dice)
    script += ["exit 1"] if dice.random() < 0.05 else []
    (client.project / "hook.sh").write_text("\n".join([*script, ""]))
    if script:
        order.tell(f"the hook, if there is one: {'; '.join(script).replace(str(order.folder), '')}")


def disarm_hook(client: Client) -> None:
    """It says yes from now on."""
    (client.project / "hook.sh").write_text("")


def journal(order: Order, dice: random.Random, client: Client) -> None:
    """Lose all records, or flip a bit, cut the tail, take a line out of the journal, or spoil the index."""
    path, index = client.state / "journal.jsonl", client.state / "index.sqlite"
    if not path.exists():
        return
    how = dice.choices(list(JOURNAL), list(JOURNAL.values()))[0]
    if how == "lost":
        shutil.rmtree(client.state)
    elif how == "index":
        index.write_bytes(bytes(dice.getrandbits(8) for _ in range(4096)))
    else:
        data = path.read_bytes()
        path.write_bytes(_damaged(dice, data, how))
        if dice.random() < 0.5:  # the index knows what the journal no longer does
            for one in client.state.glob("index.sqlite*"):
                one.unlink()
    order.tell(f"{client.name}'s journal: {how}")


def _damaged(dice: random.Random, data: bytes, how: str) -> bytes:
    if how == "bit":
        at = dice.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
    if how == "tail":
        return data[: dice.randrange(len(data))]
    lines = data.splitlines(keepends=True)
    del lines[dice.randrange(len(lines))]
    return b"".join(lines)


def _box_script(order: Order, dice: random.Random) -> list[str]:
    """Shell lines that change one thing under a run's root."""
    roots = order.machine.roots
    if not roots:
        return []
    root = dice.choice(roots)
    tries = sorted(path for path in (root / "attempts").glob("[0-9]*"))
    there = sorted(path for one in tries for path in one.rglob("*") if str(path.relative_to(one)) in payload.PATHS)
    saved = sorted((root / "checkpoints").glob("ckpt-*.pt"))
    kind = dice.choice(["edit", "edit", "delete", "add", "checkpoint"])
    if kind == "checkpoint" and saved:
        newest = saved[-1]
        step = int(newest.stem.rpartition("-s")[2]) + 1
        name = newest.name.replace(newest.stem.rpartition("-s")[2], f"{step:08d}")
        return [_copy(order.blobs.draw(dice, "pt").path, newest.with_name(name))]
    if kind == "delete" and there:
        return [f"rm -f {shlex.quote(str(dice.choice(there)))}"]
    if kind == "add" and tries:
        name = dice.choice(sorted(payload.PATHS))
        return [_copy(order.blobs.draw(dice, payload.PATHS[name]).path, dice.choice(tries) / name)]
    if there:
        path = dice.choice(there)
        return [_copy(order.blobs.draw(dice, payload.PATHS[_below(path)]).path, path)]
    return []


def _home_script(order: Order, dice: random.Random) -> list[str]:
    """Shell lines that delete or overwrite one copy at some client's home."""
    homes = [client.home for client in order.clients if client.home.is_dir()]
    files = sorted(path for home in homes for path in home.rglob("*") if path.is_file())
    owed = [path for path in files if "logs" not in path.parts and "evidence" not in path.parts]
    if not owed:
        return []
    path = shlex.quote(str(dice.choice(owed)))
    return [f"rm -f {path}" if dice.random() < 0.5 else f"echo spoilt > {path}"]


def _copy(source: Path, target: Path) -> str:
    """As an editor writes, in place; an editor that renames is another inode, and found as easily."""
    return f"mkdir -p {shlex.quote(str(target.parent))}; cat {shlex.quote(str(source))} > {shlex.quote(str(target))}"


def _below(path: Path) -> str:
    return next(one for one in payload.PATHS if str(path).endswith("/" + one))


def _sh(line: str) -> None:
    import subprocess

    subprocess.run(["sh", "-c", line], check=False, stderr=subprocess.DEVNULL)
