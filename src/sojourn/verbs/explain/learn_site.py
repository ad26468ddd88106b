"""`learn --site`: how a box is set up, as a named site for the settings. Edits nothing, and holds no secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sojourn.core.values import Site
from sojourn.store.settings import read_settings
from sojourn.verbs.context import Context
from sojourn.verbs.explain.learn import Learned, NothingToLearn
from sojourn.verbs.explain.specimen import Hide, toml
from sojourn.wire import names, quote, units
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello


def site(ctx: Context, of: str, name: str) -> Learned:
    """A `[sites.NAME]` with what the box of `of` (`ssh:ALIAS`, `slurm:ALIAS`) is reached by and what was found there.

    Raises: Misuse (no name, or no box to remember), NothingToLearn (it has a name), UnknownSite, Unreachable.
    """
    if not names.is_name(name):
        near = names.as_name(name)
        raise Misuse(detail=f"--as {name!r} is not a valid name: use a-z, 0-9, '.', '_', '-'; try {near!r}")
    settings, known = read_settings(), ctx.site(of)
    if known.transport == "local":
        raise Misuse(detail=f"{known.name} is this machine, which needs no name")
    for taken in (name, known.name):
        if taken in settings.sites:
            raise NothingToLearn(
                why=f"{settings.path} already has a [sites.{taken}]", step=quote.join(["sojourn", "doctor", taken])
            )
    hello = cast("Hello", ctx.box(known).answer("hello", timeout_s=60.0).value)
    hide = Hide(ctx.environ)
    lines = [
        f"# {_seen(hello)}; asked {units.stamp(ctx.now_s())[:10]}",
        f"[sites.{name}]",
        *(f"{key} = {toml(hide.text(value))}" for key, value in _keys(known, hello)),
    ]
    how = f"append it to {settings.path}, then: sojourn doctor {name}"
    return Learned("settings", "\n".join(lines) + "\n", (how,))


def _keys(known: Site, hello: Hello) -> list[tuple[str, str]]:
    return [
        ("transport", known.transport),
        ("address", known.address),
        ("launcher", known.launcher),
        ("platform", known.platform),
        ("base", str(hello["base"])),
        ("python", str(hello["python"])),
    ]


def _seen(hello: Hello) -> str:
    cards = [str(card.get("name", "a GPU")) for card in hello.get("gpus") or ()]
    gpus = " and ".join(f"{cards.count(card)} x {card}" for card in dict.fromkeys(cards)) or "no GPU"
    return f"{hello['host']}: {gpus}, {hello['cpus']} cores, {_memory(hello)}"


def _memory(hello: Hello) -> str:
    size = hello["memory_bytes"]
    return "unknown memory" if size is None else units.say_bytes(size)
