"""A regression in the style of the small JAX scripts; numpy where there is no JAX."""
import os
import pickle
import time

try:
    import jax.numpy as jnp
except ImportError:
    import numpy as jnp

CKPT = "ckpt/params.pkl"


def save(params, step):
    os.makedirs(os.path.dirname(CKPT), exist_ok=True)
    with open(CKPT + ".tmp", "wb") as f:
        pickle.dump({"params": params, "step": step}, f)
    os.replace(CKPT + ".tmp", CKPT)


def restore():
    if not os.path.exists(CKPT):
        return jnp.zeros(8), 0
    with open(CKPT, "rb") as f:
        state = pickle.load(f)
    return state["params"], state["step"]


def main():
    params, start = restore()
    for step in range(start + 1, 81):
        params = params - 0.1 * 2 * (params - 1)
        time.sleep(0.1)
        print(f"step {step}/80 loss {float(((params - 1) ** 2).mean()):.5f}", flush=True)
        if step % 5 == 0:
            save(params, step)


if __name__ == "__main__":
    main()
