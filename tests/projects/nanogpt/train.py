"""
A character-level GPT of one block, trained on a text it makes itself, in the style of nanoGPT's train.py.
To resume: $ python train.py --init_from=resume
"""

import os
import time

import torch
import torch.nn as nn
from torch.nn import functional as F

# -----------------------------------------------------------------------------
out_dir = "out"
eval_interval = 20
log_interval = 1
always_save_checkpoint = True
init_from = "scratch"  # 'scratch' or 'resume'
batch_size = 8
block_size = 32
n_embd = 192
learning_rate = 1e-3
max_iters = 2000
pause = 0.0
# -----------------------------------------------------------------------------
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec(open("configurator.py").read())  # overrides from command line or config file
config = {k: globals()[k] for k in config_keys}

os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
text = "to be, or not to be, that is the question: " * 200
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(len(chars), n_embd)
        self.block = nn.TransformerEncoderLayer(n_embd, 4, 4 * n_embd, dropout=0.0, batch_first=True)
        self.head = nn.Linear(n_embd, len(chars))

    def forward(self, idx, targets):
        mask = nn.Transformer.generate_square_subsequent_mask(idx.size(1))
        logits = self.head(self.block(self.wte(idx), src_mask=mask, is_causal=True))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


iter_num = 0
best_val_loss = 1e9
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
if init_from == "resume":
    print(f"Resuming training from {out_dir}")
    ckpt_path = os.path.join(out_dir, "ckpt.pt")
    checkpoint = torch.load(ckpt_path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num = checkpoint["iter_num"]
    best_val_loss = checkpoint["best_val_loss"]
    checkpoint = None  # free up memory

X, Y = get_batch()
t0 = time.time()
while True:
    if iter_num % eval_interval == 0:
        with torch.no_grad():
            val = model(*get_batch()).item()
        print(f"step {iter_num}: train loss {val:.4f}, val loss {val:.4f}")
        if val < best_val_loss or always_save_checkpoint:
            best_val_loss = min(val, best_val_loss)
            if iter_num > 0:
                checkpoint = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "iter_num": iter_num,
                    "best_val_loss": best_val_loss,
                    "config": config,
                }
                print(f"saving checkpoint to {out_dir}")
                torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    loss = model(X, Y)
    X, Y = get_batch()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    time.sleep(pause)
    t1 = time.time()
    dt = t1 - t0
    t0 = t1
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {dt*1000:.2f}ms, mfu {-100.00:.2f}%")
    iter_num += 1
    if iter_num > max_iters:
        break
