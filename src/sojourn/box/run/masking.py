"""What evidence must not show: the run's secrets by value, and anything that looks like one by its name.

Logs are masked by value alone (wire.mask). Argv and environment may contain undeclared secrets, so there the name
decides: environment values are kept only if known to be harmless.
"""

from __future__ import annotations

import re

from sojourn.box.run import secrets
from sojourn.box.run.root import Root
from sojourn.wire.mask import Mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

HIDDEN = "***"
# In a word `--api-key=x`, `TOKEN=x`; or a word `--password` followed by the value.
_NAME = (
    r"[\w.-]*(?:secret|token(?!iz|is|s)|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credential|authorization|jwt)[\w.-]*"
)
_GIVEN = re.compile(
    r"(?i)(^|[\s;&|'\"(])(-{0,2}%s\s*[=:]\s*)(?:(?:bearer|basic|token)\s+)?(\"[^\"]*\"|'[^']*'|[^\s'\"]+)" % _NAME
)
_NEXT = re.compile(r"(?i)^-{1,2}%s$" % _NAME)
_APART = re.compile(r"(?i)(^|\s)(-{1,2}%s\s+)(\"[^\"]*\"|'[^']*'|[^\s'\"-][^\s'\"]*)" % _NAME)
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@]+@")
_HARMLESS = re.compile(
    r"^(?:PYTHONUNBUFFERED|PYTHONPATH|PATH|LD_LIBRARY_PATH|LD_PRELOAD|TMPDIR|HOME|LANG|LC_ALL|TERM|SHELL|CONDA_PREFIX"
    r"|VIRTUAL_ENV|[A-Z]+_NUM_THREADS|CUDA_\w+|NVIDIA_\w+|NCCL_\w+|GLOO_\w+|UCX_\w+|FI_\w+|OMPI_\w+|TORCH_\w+|PYTORCH_\w+"
    r"|TORCHELASTIC_\w+|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_WORLD_SIZE|RANK|LOCAL_RANK|GROUP_RANK|NODE_RANK"
    r"|SLURM_\w+|PBS_\w+|KUBERNETES_SERVICE_HOST|SOJOURN_\w+|HF_HOME|HF_HUB_\w+|HF_DATASETS_\w+|HF_ENDPOINT"
    r"|TRANSFORMERS_\w+|MODELSCOPE_CACHE|XDG_CACHE_HOME|PIP_INDEX_URL|PIP_CACHE_DIR|WANDB_MODE|WANDB_DIR|WANDB_SILENT"
    r"|MALLOC_\w+|KMP_\w+|(?:https?|no|all)_proxy|(?:HTTPS?|NO|ALL)_PROXY)$"
)

_LOOKS_SECRET = re.compile(r"(?i)%s|(?:^|_)key(?:_|$)" % _NAME)


class Words:
    """Masks the texts of one run."""

    def __init__(self, root: Root) -> None:
        self._mask = Mask(secrets.read_secrets(root))

    def text(self, text: str) -> str:
        """By value alone: the text of a log or a file."""
        return self._mask.over_text(text) if self._mask else text

    def everywhere(self, value: Any) -> Any:
        """`text` for every text in a JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.everywhere(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.everywhere(inner) for inner in value]
        return value

    def argv(self, argv: List[str]) -> str:
        """A command as one line, without anything that looks like a password or key."""
        return " ".join(self.words(argv))

    def words(self, argv: List[str]) -> List[str]:
        """A command, word by word, without anything that looks like a password or key."""
        found, hides_next = [], False
        for word in argv:
            shown = HIDDEN if hides_next and not word.startswith("-") else _shown(word)
            hides_next = bool(_NEXT.match(word))
            found.append(self.text(shown))
        return found

    def environ(self, entries: List[str]) -> List[str]:
        """NAME=value of harmless variables, NAME alone of all others; sorted."""
        found = []
        for entry in entries:
            name, _, value = entry.partition("=")
            is_shown = name == "SOJOURN_TOKEN" or (_HARMLESS.match(name) and not _LOOKS_SECRET.search(name))
            found.append("%s=%s" % (name, self.text(_shown(value))) if is_shown else name)
        return sorted(found)


def _shown(text: str) -> str:
    text = _USERINFO.sub(r"\1%s@" % HIDDEN, text)
    text = _GIVEN.sub(lambda hit: hit.group(1) + hit.group(2) + HIDDEN, text)
    return _APART.sub(lambda hit: hit.group(1) + hit.group(2) + HIDDEN, text)
