"""Supervised fine-tuning in the style of the chat trainers: flags of TrainingArguments, resumes if there is a checkpoint."""
import pathlib
import time
from dataclasses import dataclass, field

import torch
import transformers


@dataclass
class ModelArguments:
    hidden: int = field(default=16)


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    model_max_length: int = field(default=16)
    max_steps: int = field(default=80)
    save_steps: float = field(default=10)
    logging_steps: float = field(default=1)
    use_cpu: bool = field(default=True)


class Pause(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.12)


class SupervisedDataset(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        ids = torch.arange(16) + index % 32
        return dict(input_ids=ids, labels=ids)


def safe_save_model_for_hf_trainer(trainer: transformers.Trainer, output_dir: str):
    trainer.save_model(output_dir)


def train():
    parser = transformers.HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=model_args.hidden, n_layer=1, n_head=2)
    trainer = transformers.Trainer(
        model=transformers.GPT2LMHeadModel(config),
        args=training_args,
        train_dataset=SupervisedDataset(),
        callbacks=[Pause()],
    )
    if list(pathlib.Path(training_args.output_dir).glob("checkpoint-*")):
        trainer.train(resume_from_checkpoint=True)
    else:
        trainer.train()
    trainer.save_state()
    safe_save_model_for_hf_trainer(trainer=trainer, output_dir=training_args.output_dir)


if __name__ == "__main__":
    train()
