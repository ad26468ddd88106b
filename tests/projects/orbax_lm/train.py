"""A JAX training whose state orbax keeps; its folder stands in config.yaml."""
import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
import yaml

with open("config.yaml") as f:
    config = yaml.safe_load(f)


def main():
    manager = ocp.CheckpointManager(config["workdir"], options=ocp.CheckpointManagerOptions(max_to_keep=2))
    params, start = jnp.zeros(8), 0
    if manager.latest_step() is not None:
        start = manager.latest_step()
        params = manager.restore(start, args=ocp.args.StandardRestore(params))
    grad = jax.grad(lambda p: ((p - 1) ** 2).sum())
    for step in range(start + 1, config["steps"] + 1):
        params = params - 0.1 * grad(params)
        if step % 10 == 0:
            manager.save(step, args=ocp.args.StandardSave(params))
    manager.wait_until_finished()


if __name__ == "__main__":
    main()
