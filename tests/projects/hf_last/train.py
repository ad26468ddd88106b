import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
import os, time
class Data(torch.utils.data.Dataset):
    def __init__(self, n): self.x = torch.randint(0, 100, (n, 32), generator=torch.Generator().manual_seed(0))
    def __len__(self): return len(self.x)
    def __getitem__(self, i): time.sleep(0.0005); return {"input_ids": self.x[i], "labels": self.x[i]}
def main():
    args = TrainingArguments(output_dir="out", num_train_epochs=4, per_device_train_batch_size=16, save_steps=40, save_total_limit=2, logging_steps=10, report_to=[], seed=1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=64, n_layer=2, n_head=2))
    trainer = Trainer(model=model, args=args, train_dataset=Data(4000))
    last = get_last_checkpoint("out") if os.path.isdir("out") else None
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model("out/final")
if __name__ == "__main__": main()
