"""The words that resume a trainer which is used by its own command."""

import pytest

from sojourn.verbs.project.source.paths import Names
from sojourn.verbs.project.source.resuming import resuming

FROM = '"$SOJOURN_RESUME_FROM"'


@pytest.mark.parametrize(
    "run, words",
    [
        ("tune run lora_finetune --config c.yaml --output_dir out", "resume_from_checkpoint=True"),
        ("llamafactory-cli train c.yaml --output_dir out", f"resume_from_checkpoint={FROM}"),
        ("axolotl train c.yml --output_dir out", f"--resume-from-checkpoint {FROM}"),
        ("yolo train data=d.yaml --save_dir out", f"resume=True model={FROM}"),
        ("torchrun pretrain_gpt.py --save ckpts/gpt --train-iters 9", "--load ckpts/gpt"),
    ],
)
def test_a_trainer_without_a_script_of_ones_own_is_resumed_by_its_own_words(run: str, words: str) -> None:
    assert resuming(run, Names(()), ()).command == f"{run} {words}"
