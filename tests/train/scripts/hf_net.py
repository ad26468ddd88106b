"""A small model under the real Trainer of Hugging Face, for the kill tests: built in code, with dropout, nothing is
downloaded.

    hf_net.py FOLDER OUT EPOCHS [KEY=VALUE ...]      keys: every_steps, pause_s, log, own (the Trainer saves too),
accumulate
hold (behind step 50 it waits for that file)
Several processes find each other by torchrun's environment, or by the file $STORE.
"""

import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", ACCELERATE_USE_CPU="true")
import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from sojourn.train import hf

folder, out, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if size > 1 and "STORE" in os.environ:
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="localhost", MASTER_PORT="0")
    torch.distributed.init_process_group("gloo", init_method=os.environ["STORE"], rank=rank, world_size=size)
more = dict(pair.split("=") for pair in sys.argv[4:])
torch.set_num_threads(1)
transformers.set_seed(0)


class Config(PretrainedConfig):
    model_type = "sojourn_tiny"


class Net(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(8, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(16, 2),
        )
        self.post_init()

    def forward(self, x, labels=None):
        y = self.body(x)
        return {"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}


class Watch(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        print("start", state.global_step, flush=True)

    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(float(more.get("pause_s", 0)))
        while "hold" in more and state.global_step > 50 and not os.path.exists(more["hold"]):
            time.sleep(0.01)
        if "log" in more and state.is_world_process_zero:
            with open(more["log"], "a") as log:
                log.write("%d\n" % state.global_step)


torch.manual_seed(0)
data = [{"x": torch.randn(8), "labels": torch.randn(2)} for _ in range(96)]
model = Net(Config())
args = TrainingArguments(
    output_dir=out + ".work", num_train_epochs=epochs, per_device_train_batch_size=8 // size, learning_rate=0.01,
    save_strategy="steps" if "own" in more else "no", save_steps=int(more.get("own", 500)), save_total_limit=1,
    report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no", dataloader_pin_memory=False, seed=0,
    gradient_accumulation_steps=int(more.get("accumulate", 1)), lr_scheduler_type="cosine", warmup_steps=3,
    ddp_backend="gloo" if size > 1 else None,
)  # fmt: skip
trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[Watch()])
pace = {"every_steps": int(more["every_steps"])} if "every_steps" in more else {}
hf.train(trainer, folder=folder, **pace)
if args.process_index == 0:
    with open(out, "wb") as f:
        for value in model.state_dict().values():
            f.write(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        f.write(repr((trainer.optimizer.state_dict(), trainer.lr_scheduler.state_dict(), torch.rand(3))).encode())
