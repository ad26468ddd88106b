"""What a payload told of itself last is in the events when it has ended, whoever watched it."""

from __future__ import annotations

from pathlib import Path

from sojourn.box.run.root import Root
from tests.box.rig import Rig, found, heard, until

TELL = (
    'mkdir -p x; tell() { echo "{\\"step\\":$1,\\"total\\":600,\\"metrics\\":{\\"loss\\":$2}}" > x/p; '
    'mv x/p "$SOJOURN_PROGRESS"; }; '
)
SAVED = '"checkpoint":{"path":"checkpoints/600.pt","step":600,"bytes":7}'


def told(root: Root) -> list[tuple[int, float]]:
    beats = [beat["progress"] for beat in found(root, "beat") if "progress" in beat]
    return [(one["step"], one["metrics"]["loss"]) for one in beats]


def test_progress_told_just_before_the_exit_comes_before_the_end(rig: Rig) -> None:
    heard_595 = 'until grep -q \'"step":595\' "$SOJOURN_RUN_DIR/events.jsonl"; do sleep 0.05; done; '
    root = rig.place(TELL + "tell 595 0.5; " + heard_595 + "tell 600 0.25", beat_s=0.2)
    end = rig.finish(root)
    last = [beat for beat in found(root, "beat") if "progress" in beat][-1]
    assert told(root)[-1] == (600, 0.25) and last["seq"] < end["seq"]


def test_progress_told_while_no_keeper_lived_is_read_by_the_one_that_records_the_end(rig: Rig) -> None:
    gate = 'until [ -e "$SOJOURN_RUN_DIR/gate" ]; do sleep 0.05; done; '
    last = f"""echo '{{"step":600,"total":600,"metrics":{{"loss":0.25}},{SAVED}}}' > x/p; mv x/p "$SOJOURN_PROGRESS" """
    root = rig.place(TELL + "tell 595 0.5; " + gate + last)
    keeper = rig.supervise(root)
    until(lambda: (595, 0.5) in told(root))
    keeper.kill()
    keeper.wait()
    Path(root.path, "gate").touch()
    until(Path(root.exit(1)).read_text)
    end = rig.finish(root)
    assert end["state"] == "succeeded" and told(root)[-1] == (600, 0.25)
    assert [(one["step"], one["seq"] < end["seq"]) for one in found(root, "checkpoint")] == [(600, True)]
    heard(root, "sealed")


def test_every_checkpoint_between_two_looks_is_an_event(rig: Rig) -> None:
    """The keeper looks once a beat; a training may save more often."""
    row = '{"path":"checkpoints/%d.pt","step":%d,"bytes":9}'
    saved = [row % (n, n) for n in range(1, 5)]
    script = 'f="$SOJOURN_PROGRESS"; tell() { echo "$1" >"$f.new"; mv "$f.new" "$f"; }; '
    for count in (1, 2, 4):
        script += 'tell \'{"step":%d,"checkpoint":%s,"saved":[%s]}\'; sleep 0.3; ' % (
            count,
            saved[count - 1],
            ",".join(saved[:count]),
        )
    root = rig.place(script)
    rig.finish(root)
    assert [event["step"] for event in found(root, "checkpoint")] == [1, 2, 3, 4]
    assert all("saved" not in (beat.get("progress") or {}) for beat in found(root, "beat"))
