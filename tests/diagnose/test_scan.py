"""A log is read once, as its bytes come, whatever its size."""

import itertools
import random
import tracemalloc

import pytest

from benchmarks import logs
from sojourn.diagnose import evidence, lines, logend, scan
from sojourn.diagnose.prefilter import Prefilter
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
STEP = b"2026-11-21 10:00:00 INFO step %d/1000000 loss=0.%05d lr=3e-4\n"


def verdict_of(log: bytes) -> str:
    found = reason(gotchas(), evidence.from_log(scan.scan_log(log, gotchas())))
    return found.verdict.id if found.verdict else "healthy" if found.is_healthy else "undetermined"


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_pieces_of_any_size_give_the_same_answer(size: int) -> None:
    log = b"".join(STEP % (n, n) for n in range(200)) + b"Traceback (most recent call last):\n  File x\n" + OOM
    read = scan.Scan(gotchas())
    for start in range(0, len(log), size):
        read.feed(log[start : start + size])
    seen = read.done()
    assert [(hit.gotcha, hit.number) for hit in seen.hits if hit.pattern.proves][0] == ("gpu-out-of-memory", 203)
    assert seen.raised[0].said == OOM.decode().strip()
    assert seen.lines == 203


@pytest.mark.campaign
def test_memory_stays_bounded_while_a_large_log_goes_by() -> None:
    read = scan.Scan(gotchas())
    tracemalloc.start()
    for block in range(16):
        read.feed(b"".join(STEP % (block * 20_000 + n, n) for n in range(20_000)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read.done().size_bytes > 16 << 20
    assert peak < 40 << 20


def test_a_line_without_end_is_not_kept_whole() -> None:
    read = scan.Scan(gotchas())
    for _ in range(64):
        read.feed(b"x" * (64 << 10))
    read.feed(OOM)
    seen = read.done()
    assert {hit.number for hit in seen.hits if hit.gotcha == "gpu-out-of-memory"} == {1} and seen.lines == 1


def test_progress_bars_are_lines_of_their_own() -> None:
    bar = "\r 45%|████▌     | 450/1000 [00:10<00:12, 45.2it/s, loss=0.42]".encode()
    assert verdict_of(bar * 500 + b"\r" + OOM) == "gpu-out-of-memory"
    assert verdict_of(bar * 500) == "healthy"


def test_the_rank_before_a_line_is_read() -> None:
    for line, rank in (
        ("[rank3]: RuntimeError: x", 3),
        ("[default12]:RuntimeError: x", 12),
        ("7: RuntimeError: x", 7),
        ("[1,2]<stderr>:RuntimeError: x", 2),
        ("RuntimeError: x", None),
        ("[2026-11-21] RuntimeError: x", None),
    ):
        found, text = lines.split_rank(line)
        assert (found, text.lstrip() if rank is not None else "RuntimeError: x") == (rank, "RuntimeError: x")


def test_the_words_of_a_program_are_found_behind_times_copiers_and_a_bar_without_a_line_end() -> None:
    for line in (
        "2026-11-21T10:00:00.123Z Killed",
        "2026-11-21T10:00:00.123456789Z stderr F Killed",
        "trainer-1  | Killed",
        "Nov 21 10:00:00 box7 run.sh[812]: Killed",
        "[pod/train-0/main] Killed",
        "Loading shards:  38%|███▊      | 3/8 [00:02<00:03,  1.28it/s]Killed",
        "Loading shards: 0%| | 0/2 [00:00<?, ?it/s]Killed",
    ):
        assert lines.bare(line)[1] == "Killed"
        assert verdict_of(f"loading\n{line}\n".encode()) == "memory-limit-kill"
    bar = " 45%|####  | 450/1000 [00:10<00:12, 45.2it/s, loss=0.42]"
    assert lines.bare(bar) == (None, bar)
    assert lines.bare(f"{bar}[rank3]: ValueError: x") == (3, "ValueError: x")


def test_the_first_rank_with_an_error_of_its_own_is_told_before_those_that_waited() -> None:
    log = (
        b"[rank5]: Traceback (most recent call last):\n[rank1]: step 10 loss=0.1\n[rank5]:   File train.py\n"
        b"[rank5]: "
        + OOM
        + b"[rank1]:[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout:"
        b" WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.\n"
    )
    case = evidence.from_log(scan.scan_log(log, gotchas()))
    found = reason(gotchas(), case)
    assert [f.id for f in found.findings if f.status == "confirmed"][:2] == ["gpu-out-of-memory", "collective-timeout"]
    assert found.verdict is not None
    assert "rank 5" in found.verdict.evidence[0].source
    assert case.value("mn.timeout_ms") == 600000


def test_a_run_that_goes_on_got_over_it() -> None:
    log = b"OutOfMemoryError: CUDA out of memory. Trying a smaller batch\n"
    log += b"".join(STEP % (n, n) for n in range(10))
    assert verdict_of(log) in ("healthy", "undetermined")


def test_the_name_of_a_metric_is_no_error() -> None:
    log = b"".join(b"epoch %d MeanAbsoluteError=0.1 killed=0 error_rate: 0.2 loss: 0.3\n" % n for n in range(50))
    assert verdict_of(log) == "healthy"


def test_a_finished_word_before_the_plans_end_is_not_trusted() -> None:
    log = b"".join(b"Epoch %d/30 loss: 0.3\n" % n for n in range(1, 8)) + b"Training complete\n"
    seen = scan.scan_log(log, gotchas())
    assert (seen.end.kind, seen.end.step, seen.end.total, seen.end.is_short) == ("done", 7, 30, True)
    assert verdict_of(log) == "ended-before-the-plan"
    whole = b"".join(b"Epoch %d/30 loss: 0.3\n" % n for n in range(1, 31)) + b"Training complete\n"
    assert verdict_of(whole) == "healthy"


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        ("", "empty"),
        ("hello\n", "quiet"),
        ("Epoch 3/5 loss=0.1\n", "progress"),
        ("Epoch 3/5 loss=0.1\nTraceback (most recent call last):\n", "error"),
        ("Epoch 3/5 loss=0.1\nKilled\n", "error"),
        ("KeyError: 'x'\nstep 1 loss=1\n", "error"),
        ("KeyError: 'x'\nstep 1 loss=1\nstep 2 loss=1\nstep 3 loss=1\n", "progress"),
        ("`Trainer.fit` stopped: `max_epochs=3` reached.\n", "done"),
        ("Training is over.\n", "done"),
        ("Training over 8 GPUs\n", "quiet"),
        ("Job has gone over its limit\n", "quiet"),
        ("job 7 has not been completed\n", "quiet"),
    ],
)
def test_how_a_log_ends(tail: str, kind: str) -> None:
    assert logend.find_end(tail, 0).kind == kind


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["{'loss': nan, 'learning_rate': 1e-5}"], "loss-not-finite"),
        (["Epoch 3 step 7 train_loss_step=nan.0"], "loss-not-finite"),
        (["step 9 loss tensor(inf, device='cuda:0')"], "loss-not-finite"),
        (["loss: nan - accuracy: 0.0981"], "loss-not-finite"),
        (["step 3 loss is NaN", "saved step 3"], "loss-not-finite"),
        (["step 7 loss 2.1 val_loss nan"], "healthy"),
        (["step 7 loss nan", "step 8 loss 2.1"], "healthy"),
        (["step 7 loss nan grad_norm inf", "step 8 loss 2.1", "step 9 loss nan"], "healthy"),
        (["step 7 lossless nanotube banana"], "healthy"),
    ],
)
def test_a_loss_that_stays_no_number_is_not_healthy(lines: list[str], verdict: str) -> None:
    assert verdict_of("\n".join(["step 1 loss 2.5", *lines * 3]).encode()) == verdict


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("seed", range(5))
def test_a_piece_that_is_sieved_tells_what_one_that_is_searched_tells(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    gates = sorted({pattern.gate for gotcha in gotchas() for pattern in gotcha.patterns})
    lines = ["Killed", "RuntimeError: CUDA out of memory.", "[Errno 28] No space left on device"]
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(300)]
    ends = ["\n", "\r\n", "\r"]
    text = "".join(
        " ".join(dice.choices(words, k=4) + dice.choice([[], dice.sample(gates, 1), dice.sample(lines, 1)]))
        + dice.choice(ends)
        for _ in range(4000)
    ).encode()
    told = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(scan, "LARGE", large)
        seen = scan.scan_log(text, gotchas())
        told.append(
            (sorted((h.gotcha, h.number, h.last, h.times) for h in seen.hits), seen.lines, seen.raised, seen.end)
        )
    assert told[0] == told[1] and told[0][0]


def test_every_gate_is_found_by_the_sieve_wherever_it_stands() -> None:
    gates = sorted({pattern.gate.encode() for gotcha in gotchas() for pattern in gotcha.patterns if pattern.gate})
    sifted = Prefilter(gates)
    kinds = b"\n".join(b"xq" + gate + b"zj" for gate in gates) + b"\nnothing\n"
    wanted, none = sifted.tables()
    near = {index for _, index, _ in sifted.near(kinds, wanted).lines()}
    assert near >= set(range(len(gates))) and len(gates) not in near
    assert not list(sifted.near(kinds, none).lines())


def test_what_it_got_over_long_before_is_not_what_ended_it() -> None:
    lost = b"requests.exceptions.ReadTimeout: Max retries exceeded with url: /api (read timed out)\n"
    often = b"".join(lost + b"".join(STEP % (n * 40 + k, k) for k in range(12)) for n in range(10))
    assert verdict_of(often + b"Segmentation fault (core dumped)\n") == "segfault"
    once = lost + b"".join(STEP % (n, n) for n in range(40))
    assert verdict_of(once + b"Segmentation fault (core dumped)\n") == "segfault"


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["samples of a language model", "paths with hashes", "one line without end"])
def test_what_ends_a_large_log_is_found_behind_lines_none_of_which_is_like_another(kind: str) -> None:
    lines = logs.KINDS[kind](random.Random(1))
    noise = b"".join(itertools.islice(lines, 30_000))[: 5 << 20]
    for last in (OOM, b"OSError: [Errno 28] No space left on device\n", b"Killed\n"):
        read = scan.Scan(gotchas())
        for start in range(0, len(noise), 1 << 20):
            read.feed(noise[start : start + (1 << 20)])
        read.feed(b"\n" + last)
        alone = {hit.gotcha for hit in scan.scan_log(last, gotchas()).hits}
        assert alone <= {hit.gotcha for hit in read.done().hits}, last


def test_a_line_of_a_kind_seen_a_hundred_times_is_looked_at_when_it_is_the_last() -> None:
    quiet = b"worker pid=%d, exitcode: 0, seconds: 12\n"
    log = b"".join(quiet % n for n in range(100_000)) + b"worker pid=7, exitcode: -9, seconds: 12\n"
    assert "rank-killed" in {hit.gotcha for hit in scan.scan_log(log, gotchas()).hits}


FRAMES = 'Traceback (most recent call last):\n  File "train.pyx", line 7, in main\n{}: CUDA out of memory. Tried\n'


@pytest.mark.parametrize(
    ("name", "before"),
    [("torch.OutOfMemoryError", ""), ("torch.OutOfMemoryError", "    "), ("ValueError", "  [child] ")],
)
def test_a_traceback_that_was_indented_keeps_its_exception(name: str, before: str) -> None:
    log = "".join(f"{before}{line}\n" for line in FRAMES.format(name).splitlines())
    seen = scan.scan_log(log.encode(), gotchas())
    assert [raised.said for raised in seen.raised] == [f"{name}: CUDA out of memory. Tried"]
    assert verdict_of(log.encode()) == "gpu-out-of-memory"


def test_a_loggers_words_before_each_line_of_a_traceback_may_differ_in_numbers() -> None:
    lines_of_it = FRAMES.format("torch.OutOfMemoryError").splitlines()
    log = "".join(f"worker ERROR 11:22:{second:02d}.5: {line}\n" for second, line in enumerate(lines_of_it))
    seen = scan.scan_log(log.encode(), gotchas())
    assert seen.raised[0].said == "torch.OutOfMemoryError: CUDA out of memory. Tried"


@pytest.mark.parametrize("before", ["", "    ", "worker ERROR 11:22:33: ", "2026-11-21 10:00:00 "])
def test_a_line_of_the_programs_text_is_no_error_that_came(before: str) -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g("CUDA out of memory")\nKeyError: 1\n'
    log = "".join(f"{before}{line}\n" for line in text.splitlines())
    assert "gpu-out-of-memory" not in {hit.gotcha for hit in scan.scan_log(log.encode(), gotchas()).hits}


@pytest.mark.parametrize(
    "line",
    [
        "+ python train.py --epochs 2 --steps 100 --lr=0.1",
        "$ python3 -u train.py epochs=2 lr=0.1",
        "launching: torchrun --nproc_per_node=8 train.py epoch=3",
        'Command: ["--epochs 2", "--num-epochs=3"]',
    ],
)
def test_the_options_of_a_command_are_no_progress(line: str) -> None:
    log = f"{line}\n" * 5
    assert logend.find_end(log, 0).kind == "quiet"
    assert logend.find_end("ModuleNotFoundError: No module named 'x'\n" + log, 0).kind == "error"


@pytest.mark.parametrize(
    "line", ["Train-Epoch: 3/10", "epoch 3 - loss: 0.3", "train.py:12 epoch 3", "- epoch 3", "loss: -inf at epoch 3"]
)
def test_a_dash_or_a_file_before_an_epoch_leaves_it_progress(line: str) -> None:
    assert logend.find_end(f"{line}\n", 0).kind == "progress"


def test_lines_that_end_with_a_carriage_return_and_a_newline_are_lines_like_others() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g("CUDA out of memory")\nKeyError: 1\n'
    log = (STEP * 3000 % tuple(range(6000))).decode() + text
    plain, paired = (scan.scan_log(some.encode(), gotchas()) for some in (log, log.replace("\n", "\r\n")))
    assert (paired.hits, paired.raised, paired.lines) == (plain.hits, plain.raised, plain.lines)
    read = scan.Scan(gotchas())
    for part in log.encode().splitlines():
        read.feed(part + b"\r")
        read.feed(b"\n")
    assert read.done().lines == plain.lines


NORM = "{'loss': 0.7, 'grad_norm': %s, 'learning_rate': 1e-05, 'epoch': 0.%d}"


@pytest.mark.parametrize(
    ("norms", "verdict"),
    [
        (["nan", "1.2", "0.9"], "healthy"),
        (["0.9", "1.2", "inf"], "healthy"),
        (["0.9", "nan", "nan", "0.8"], "healthy"),
        (["0.9", "nan", "nan", "nan"], "gradients-not-finite"),
        (["nan", "nan"], "gradients-not-finite"),
    ],
)
def test_a_norm_that_is_no_number_is_a_failure_where_it_stays(norms: list[str], verdict: str) -> None:
    assert verdict_of("\n".join(NORM % (norm, at) for at, norm in enumerate(norms)).encode()) == verdict


def test_a_norm_that_is_no_number_beside_a_loss_of_nothing_is_a_failure_at_once() -> None:
    assert verdict_of((NORM % ("0.9", 1) + "\n" + NORM.replace("0.7", "0.0") % ("nan", 2)).encode()) == (
        "gradients-not-finite"
    )


@pytest.mark.parametrize(
    "line",
    [
        "StopIteration",
        "bdb.BdbQuit",
        "_queue.Empty",
        "optuna.exceptions.TrialPruned: at epoch 3",
        "torch._dynamo.exc.Unsupported: call_method",
        "ray.exceptions.RayTaskError(KeyError): ray::f()",
        "subprocess.TimeoutExpired: Command 'git' timed out after 9 seconds",
        "pkg.mod.SomethingException: no such thing",
    ],
)
def test_a_line_that_names_an_exception_alone_is_an_error(line: str) -> None:
    assert verdict_of(f"loading data\n{line}\n".encode()) == "program-error"


IGNORED = (
    "Exception ignored in: <function Loader.__del__ at 0x7f00>\nTraceback (most recent call last):\n"
    '  File "a.py", line 3, in __del__\n    self.shutdown()\nAssertionError: can only test a child process\n'
)


def test_an_exception_that_python_ignores_is_no_error() -> None:
    steps = (STEP * 3 % tuple(range(6))).decode()
    for log in (IGNORED, steps + IGNORED, IGNORED.replace("\n", "\r\n") + steps, IGNORED + IGNORED):
        seen = scan.scan_log(log.encode(), gotchas())
        assert not seen.raised
        assert verdict_of(log.encode()) in ("healthy", "undetermined")
        assert seen.end.kind != "error"


def test_what_comes_beside_an_ignored_exception_is_an_error() -> None:
    own = IGNORED.partition("\n")[2]
    assert verdict_of((IGNORED + own).encode()) == verdict_of((own + IGNORED).encode()) == "program-error"
    assert verdict_of(
        IGNORED.replace("AssertionError: can only test a child process", "KeyboardInterrupt").encode()
    ) == ("ended-by-int")
