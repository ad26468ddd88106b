"""How a log ends: with progress, with a word of completion, with an error. A finished word is never trusted alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sojourn.diagnose.lines import bare

# Lines that only a training loop writes: step or epoch with a number, a progress bar, a dict of metrics.
_OF = r"\s*(?:[:=#]\s*)?[\[(]?\s*(\d[\d,]*)(?:\s*(?:/|of)\s*(\d[\d,]*))?"
_STEP = re.compile(r"(?i)\b(?:global[_ ]?)?(?:steps?|iter(?:ation)?s?|it|batch|update)\b" + _OF)
_EPOCH = re.compile(r"(?i)\bepochs?\b" + _OF)
_BAR = re.compile(r"\b\d{1,3}%\|.*\|\s*(\d+)/(\d+) \[")
_METRICS = re.compile(
    r"(?i)\b(?:train[_/ ]?)?(?:loss|lr|learning_rate|acc(?:uracy)?|ppl|grad_norm|samples/s|tokens/s)\b"
    r"['\"]?\s*[:=]\s*-?\d"
)
_LOSS = re.compile(
    r"(?i)\b(?!\w*scale)\w*loss\w*['\"]?\s*(?:[:=]|\bis\b)?\s*(?:tensor\()?[\[(]?\s*(?:([-+]?(?:nan|inf(?:inity)?)\b)|[-+]?\.?\d)"
)
_NORM = re.compile(
    r"(?i)\bgrad(?:ient)?s?[_ ]?norm\w*['\"]?\s*[:=]\s*['\"]?(?:tensor\()?(?:([-+]?(?:nan|inf(?:inity)?)\b)|[-+]?\.?\d)"
)
_NO_LOSS = re.compile(r"(?i)\bloss['\"]?\s*[:=]\s*['\"]?(?:nan\b|0\.0*(?![\d.]|e-))")
# What a program was started with: its options tell a plan, no progress.
_OPTION = re.compile(
    r"(?:\bpython[\d.]*\b.{0,80}?\s\S+\.py|\btorchrun|\baccelerate launch)\s.*"
    r"|(?<![\w.-])--?(?!(?i:inf|nan)\b)[A-Za-z][\w.-]*(?:\s*=\s*|\s+)\S+"
)
_LASTING = 3  # losses in a row; a scaler of half precision skips one or two
_DONE = re.compile(
    r"(?i)\b(?:training|train|run|job|fit|finetuning|fine-tuning|experiment|all epochs)\b[^.:]{0,30}"
    r"\b(?<!not )(?<!not been )(?<!never )(?:completed?|finished|done|ended|over(?! +\w))\b(?!.*\b(?:fail|error|abort))"
    r"|`Trainer\.fit` stopped: `max_(?:epochs|steps)=\d+` reached|\bfinished training\b"
    r"|^\s*(?:all )?done[.! ]*$|'train_runtime':|训练(?:完成|结束)"
)
_BAD = re.compile(
    r"^\s*(?:[\w.]+(?:Error|Exception|Interrupt))\b(?::|\s*$|\s+Traceback \()|^Traceback "
    r"|^\s*(?:\S+: line \d+:\s+\d+ |zsh: |\[\d+\][-+]?\s+(?:\d+ +)?)?"
    r"(?:Killed|Terminated|Aborted|Bus error|Segmentation fault|Hangup)\b"
    r"|\b(?:FATAL|fatal error|core dumped|srun: error|slurmstepd: error|CANCELLED AT|ChildFailedError|error: )"
    r"|\bNVRM: (?:Xid \(|.*(?:fallen off the bus|RmInitAdapter failed))"
    r"|^Fatal Python error: |^F\d{4} \d\d:|\bF (?:tensorflow|external)/|^Exception has occurred: "
    r"|^fatal: |(?:exits? with|with) return code = -?[1-9]|\bKilling subprocess \d"
    r"|\bkernel\b.{0,80}appears to have died|^Kernel (?:died|Restarting)\b"
    r"|returned non-zero exit status|\bexit(?:ed)?(?: with)?(?: exit)? (?:code|status):? -?[1-9]"
)
# The line that names an exception, whoever raised it; a worker may be named before it.
_RAISED = re.compile(
    r"^\s*(?:\[[^\]]{1,60}\]:? |\([^)]{1,60}\) )?"
    r"((?:(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Expired)\b(?:\(\w+\))?"
    r"|(?:[A-Za-z_]\w*\.)+(?:_?exceptions?|errors?|exc)\.[A-Z]\w+|StopIteration|[a-z_]\w*(?:\.\w+)+\.OutOf[A-Z]\w+|bdb\.BdbQuit|_?queue\.(?:Empty|Full))"
    r"(?:: .*|:?\s*))$"
)
# A batch system's report of a job: LSF's comes after the output or before it, PBS prints its own after it.
_WELL = re.compile(r"^(?:Successfully completed\.|Exit_status ?= ?0)\s*$")
_BADLY = re.compile(
    r"^(?:Exited with (?:exit code|signal) -?[1-9]|Exit_status ?= ?-?[1-9]"
    r"|State: (?:FAILED|TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|CANCELLED|PREEMPTED)\b)"
)
_REPORT = "Sender: LSF System <"
_ABOVE, _FOLLOWS = "The output (if any) is above this job summary.", "The output (if any) follows:"
_OF_REPORT = re.compile(r"^(?:-{20,}|PS:|Read file <.*> for (?:stderr|stdout) output of this job\.)\s*$")
# What many a program says and goes on.
_SAID_BAD = re.compile(r"^\S*ERROR\b|[\[ ](?:ERROR|CRITICAL)[\]:]")


@dataclass(frozen=True)
class End:
    """`kind`: progress, done, error, quiet (neither), empty. `after`: progress lines after the last bad one.

    `step`/`total`: of the last progress line; `unit`: step or epoch; `bad`: line number of the last bad line, 0 = none;
    `raised`: the last line that names an exception, "" where progress or a word of completion came after it.
    """

    kind: str = "empty"
    step: int | None = None
    total: int | None = None
    unit: str = ""
    after: int = 0
    bad: int = 0
    raised: str = ""
    progress: tuple[int, ...] = ()  # line numbers of the last progress lines
    losses: int = 0  # lines that tell a loss
    lost: int = 0  # the last of them that tell none but NaN and infinite ones
    is_nan: bool = False  # the last line that tells a loss tells none but NaN, and is not the only loss told
    norms: int = 0  # the same of norms of the gradient
    norms_lost: int = 0
    is_nothing_learnt: bool = False  # the last norm is no number, and the loss beside it is none or exactly 0
    before: int = 0  # number of the last line of jobs that wrote into this file before the last one

    def progress_after(self, number: int) -> int:
        """How many progress lines came after a line (as far as the tail shows)."""
        return sum(1 for line in self.progress if line > number)

    @property
    def is_finite(self) -> bool | None:
        """Whether the loss is a number at the end; None where it is not told, or not often enough."""
        if self.lost >= _LASTING or (self.is_nan and self.lost == self.losses):
            return False
        return True if self.losses and not self.lost else None

    @property
    def is_norm_finite(self) -> bool | None:
        """The same of the gradient's norm: a step that half precision skips tells one that is no number."""
        if self.norms_lost >= _LASTING or self.norms_lost == self.norms > 1 or self.is_nothing_learnt:
            return False
        return True if self.norms and not self.norms_lost else None

    @property
    def is_short(self) -> bool:
        """The last number it told is below the number planned."""
        return self.step is not None and self.total is not None and self.step < self.total - 1


def find_end(tail: str, first: int) -> End:
    """The end of a log. `first`: number of the lines before the tail."""
    kind, step, total, unit, bad, enough = "", None, None, "", 0, 3
    raised = ignored = ""
    progress: list[int] = []
    losses = lost = norms = norms_lost = 0
    is_nan = is_nothing_learnt = False
    epoch: tuple[int, int | None] | None = None
    above = report = before = (
        0  # line numbers: of the last report that follows its output, of the last one's first line
    )
    for number, line in enumerate(tail.split("\n"), start=first + 1):
        line = _OPTION.sub(" ", line) if "-" in line or ".py" in line else line
        if not line.strip():
            continue
        own = bare(line)[1]
        if own.startswith(_REPORT):
            report = number
        elif own.startswith(_ABOVE):
            above = number
        elif own.startswith(_FOLLOWS) and report:
            before, above = report - 1, 0
        elif above > before and not _OF_REPORT.match(own):  # another job writes into the same file
            before, kind, step, total, unit, epoch = above, "", None, None, "", None
            losses = lost = norms = norms_lost = 0
        if own.startswith("Exception ignored in"):
            ignored = "said"
            continue
        if ignored and own.startswith(("Traceback ",) if ignored == "said" else (" ", "\t")):
            ignored = "told"  # Python goes on after this one
            continue
        is_passed, ignored = ignored == "told" and not own.startswith("KeyboardInterrupt"), ""
        if is_passed:
            continue
        if told := _LOSS.findall(line):
            losses, lost = losses + 1, lost + 1 if all(told) else 0
            is_nan = losses + len(told) > 2 and all("nan" in one.lower() for one in told)
        if normed := _NORM.search(line):
            norms, norms_lost = norms + 1, norms_lost + 1 if normed.group(1) else 0
            is_nothing_learnt = bool(norms_lost and _NO_LOSS.search(line))
        named = _RAISED.match(own)
        if named:
            raised = named.group(1).strip()[:500]
        is_bad = named is not None or _BAD.search(own) is not None or _BAD.search(line) is not None
        is_bad = is_bad or _BADLY.match(own) is not None
        if is_bad or _SAID_BAD.search(line):
            kind, bad, enough = "error", number, 3 if is_bad else 1
            continue
        if _DONE.search(line) or _WELL.match(own):
            kind = "done"
            continue
        found = _BAR.search(line) or _STEP.search(line) or _EPOCH.search(line)
        if found or _METRICS.search(line):
            # one or two lines after an error are what other ranks, or a buffer, still had to say
            progress.append(number)
            if kind != "error" or sum(1 for at in progress if at > bad) >= enough:
                kind = "progress"
            if ep := _EPOCH.search(line):
                epoch = (_whole(ep.group(1)), _whole(ep.group(2)) if ep.group(2) else None)
            if found and found.re is not _EPOCH and found.group(2):
                step, total, unit = _whole(found.group(1)), _whole(found.group(2)), "step"
    if epoch is not None and epoch[1] is not None:  # a bar within an epoch says nothing about the plan
        step, total, unit = epoch[0], epoch[1], "epoch"
    if not kind:
        kind = "quiet" if tail.strip() else "empty"
    return End(
        kind,
        step,
        total,
        unit,
        sum(1 for at in progress if at > bad),
        bad,
        raised if kind == "error" else "",
        tuple(progress[-200:]),
        losses,
        lost,
        is_nan,
        norms,
        norms_lost,
        is_nothing_learnt,
        before,
    )


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
