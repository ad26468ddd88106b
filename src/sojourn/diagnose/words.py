"""Text to search terms: English words without their endings, parts of program names, Chinese by character pairs. Pure.

The same function cuts the catalog (when its index is compiled) and a question, so that both meet. `Same` adds a term
for words that mean the same in either language; the lists are data/words.toml.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

MAX_TEXT = 64 << 10  # letters of a question that are read as words

_RUN = re.compile(r"[A-Za-z0-9_]+|[\u3400-\u9fff]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_COMMON = frozenset(
    "a about after all also an and any are as at be been before but by can could did do does doing for from get gets"
    " getting got had has have having how i if im in into is it its ive just like me my no not now of on or our out so"
    " some than that the their them then there these they this to too up us use used using very was we were what when"
    " where which while who why will with without would you your please help anyone know error issue problem question"
    " try tried trying want need thanks hi hello com http https www github still even only"
    " 请问 怎么 么办 如何 什么 为什 是什 问题 解决 出现 这个 一个 可以 大家 谢谢 有没 没有 不能 的时 时候 我的 了一"
    " 之后 以后 的是 一下 能否 是否 现在 但是 然后 就是 还是 已经 怎样 这样 为何 求助 各位 大佬 报错 错误"
    " 的 了 是 在 有 和 也 都 我 你 他 吗 呢 吧 啊".split()
)
# Words that do not part two others: "killed by the kernel" holds "killed kernel".
_EMPTY = frozenset("a an the of to in is it be been by for on at and or with my i was were are this that as".split())
_IRREGULAR = {
    "frozen": "freez", "froze": "freez", "hung": "hang", "lost": "lose", "ran": "run", "died": "die", "dead": "die",
    "dies": "die", "dying": "die", "gone": "go", "went": "go", "stuck": "stick", "broke": "break", "broken": "break",
    "wrote": "write", "written": "write", "slept": "sleep", "kept": "keep", "paid": "pay", "began": "begin",
    "slower": "slow", "slowly": "slow", "slowness": "slow", "memories": "memory", "indices": "index",
    "lying": "lie", "using": "use", "unresponsive": "hang",
    "utilization": "util", "utilized": "util", "initialise": "initializ", "normalise": "normaliz",
}  # fmt: skip


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A lower-case English word without the endings of plural, time, -ly, -ion. Light: it joins words of one root."""
    word = word.replace("isation", "ization")
    known = _IRREGULAR.get(word)
    if known:
        return known
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ly") and len(word) > 6:
        word = word[:-4] if word.endswith("ically") else word[:-2]
    for ending in ("ing", "ed"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 3 and re.search("[aeiouy]", root):
            double = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if double else root
            break
    if word.endswith(("tion", "sion")) and len(word) > 7:
        word = word[:-5] if word.endswith("ization") else word[:-3]
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def terms(text: str) -> list[str]:
    """The search terms of a text, in order, with repetitions. Common words are left out."""
    return [term for term, _ in spoken(text)]


def spoken(text: str) -> list[tuple[str, str]]:
    """`terms`, each with the word of the text that it stands for. Two English words in a row are a term as well."""
    out: list[tuple[str, str]] = []
    before = ""
    for run in _runs(text):
        if run[0] >= "\u3400":
            pairs = [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
            out += [(pair, pair) for pair in pairs if pair not in _COMMON]
            before = ""
            continue
        words = _latin(run)
        out += [(stem(word), word) for word in words]
        now = run.lower()
        if now not in _EMPTY:
            if before and not (before in _COMMON and now in _COMMON):
                out.append((f"{stem(before)} {stem(now)}", f"{before} {now}"))
            before = now
    return out


def told(words: Sequence[str]) -> list[str]:
    """Words for a reader: pairs of Chinese characters that overlap, in order, become one word again."""
    out: list[str] = []
    for word in unique(words):
        if out and word[0] >= "\u3400" and out[-1][-1] == word[0] and len(word) == 2:
            out[-1] += word[1]
        else:
            out.append(word)
    return out


class Same:
    """Words that mean the same. `groups`: a name, and its words in any language; several words make a phrase."""

    def __init__(self, groups: Mapping[str, Sequence[str]]) -> None:
        self._names: list[tuple[str, list[str], list[str]]] = []
        for name, words in groups.items():
            chinese = [word.lower() for word in words if max(word) >= "\u3400"]
            latin = [f" {_line(word)} " for word in words if max(word) < "\u3400"]
            self._names.append((name, chinese, latin))

    def found(self, text: str) -> list[str]:
        """Names of the groups that a text speaks of, sorted as the groups are."""
        plain, line = _normal(text).lower(), f" {_line(text)} "
        return [
            name
            for name, chinese, latin in self._names
            if any(word in plain for word in chinese) or any(word in line for word in latin)
        ]


def known(text: str, same: Same) -> list[str]:
    """`terms`, and "=name" for every group of `same` that the text speaks of."""
    return [*terms(text), *(f"={name}" for name in same.found(text))]


def unique(words: Iterable[str]) -> list[str]:
    """Each once, in the order of their first place."""
    return list(dict.fromkeys(words))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text[:MAX_TEXT])


def _runs(text: str) -> list[str]:
    return _RUN.findall(_normal(text).replace("\u2019", "").replace("'", ""))


def _line(text: str) -> str:
    """All words without endings, common ones too, separated by one blank."""
    return " ".join(stem(run.lower()) for run in _runs(text) if run[0] < "\u3400")


def _latin(run: str) -> list[str]:
    """A word or a program's name: the whole, and the parts of CUDA_OUT_OF_MEMORY and OutOfMemoryError."""
    whole = run.lower().strip("_")
    if whole.isdigit():
        return [whole] if 1 < len(whole) <= 5 else []
    parts = [part.lower() for part in _PART.findall(run)]
    named = [whole] if len(parts) < 2 else [whole, *(part for part in parts if len(part) > 1)]
    return [word for word in named if word not in _COMMON and 1 < len(word) < 60]
