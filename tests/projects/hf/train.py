"""Fine-tune a tiny GPT-2 from scratch, in the style of the examples of transformers."""
import os
import sys
import time
from dataclasses import dataclass, field

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


@dataclass
class ModelArguments:
    n_embd: int = field(default=32)
    pause: float = field(default=0.0)


class Slow(TrainerCallback):
    def __init__(self, pause):
        self.pause = pause

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(self.pause)


class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        ids = torch.arange(16) + index % 32
        return {"input_ids": ids, "labels": ids}


def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    last_checkpoint = None
    if os.path.isdir(training_args.output_dir):
        last_checkpoint = get_last_checkpoint(training_args.output_dir)
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=model_args.n_embd, n_layer=1, n_head=2)
    trainer = Trainer(
        model=GPT2LMHeadModel(config), args=training_args, train_dataset=Text(), callbacks=[Slow(model_args.pause)]
    )
    checkpoint = None
    if training_args.resume_from_checkpoint is not None:
        checkpoint = training_args.resume_from_checkpoint
    elif last_checkpoint is not None:
        checkpoint = last_checkpoint
    result = trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)


if __name__ == "__main__":
    sys.exit(main())
