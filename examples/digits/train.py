"""Handwritten digits with a small network in plain numpy: real data, real training, resumable at any step.

The 1,797 digits of 8 x 8 pixels that scikit-learn carries are split once: 1,200 to learn from, 297 to choose the best
epoch by, 300 that are looked at only at the very end. Every epoch sees each training digit in all nine places that one
pixel of shift can bring it to.
"""

import argparse
import json
import os

import numpy as np
from sklearn.datasets import load_digits

from sojourn.train import Batches, Checkpointer

SIZES = (64, 512, 256, 10)


def read_data():
    """(images, labels) to learn from, to choose by, to test on: rows of 64 pixels between 0 and 1."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = (digits.data[order] / 16).astype(np.float32), digits.target[order]
    return (x[:1200], y[:1200]), (x[1200:1497], y[1200:1497]), (x[1497:], y[1497:])


def shifted(x, y):
    """Every image moved by up to one pixel in both directions: nine times as many."""
    padded = np.pad(x.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = [padded[:, i : i + 8, j : j + 8].reshape(len(x), 64) for i in range(3) for j in range(3)]
    return np.concatenate(moved), np.tile(y, 9)


def new_weights(rng):
    """He's initial values: {"w0", "b0", ...}."""
    weights = {}
    for i, (rows, columns) in enumerate(zip(SIZES, SIZES[1:])):
        weights["w%d" % i] = (rng.normal(size=(rows, columns)) * np.sqrt(2 / rows)).astype(np.float32)
        weights["b%d" % i] = np.zeros(columns, np.float32)
    return weights


def forward(weights, x):
    """Activations of every layer; the last are the logits."""
    out = [x]
    for i in range(3):
        z = out[-1] @ weights["w%d" % i] + weights["b%d" % i]
        out.append(np.maximum(z, 0) if i < 2 else z)
    return out


def learn(weights, velocity, x, y, rate):
    """One step of gradient descent with momentum; the mean cross-entropy before it."""
    layers = forward(weights, x)
    logits = layers[-1] - layers[-1].max(1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    rows = np.arange(len(y))
    loss = -np.log(p[rows, y] + 1e-12).mean()
    p[rows, y] -= 1
    slope = p / np.float32(len(y))
    for i in (2, 1, 0):
        slopes = {"w%d" % i: layers[i].T @ slope, "b%d" % i: slope.sum(0)}
        slope = (slope @ weights["w%d" % i].T) * (layers[i] > 0)
        for name, value in slopes.items():
            velocity[name] *= np.float32(0.9)
            velocity[name] -= np.float32(rate) * (value + np.float32(1e-4) * weights[name])
            weights[name] += velocity[name]
    return loss


def accuracy(weights, x, y):
    """The share that is recognised."""
    return float((forward(weights, x)[-1].argmax(1) == y).mean())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.02)
    args = parser.parse_args()

    train, choose, test = read_data()
    rng = np.random.default_rng(1)
    weights = new_weights(rng)
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    data = Batches(*shifted(*train), size=32, rng=rng)

    # All that it takes to survive: say what the training changes, and read epochs and batches through it.
    ckpt = Checkpointer(
        weights=weights, velocity=velocity, rng=rng, loader=data, keep=2, best=("accuracy", "max"), every_s=2
    )
    for epoch in ckpt.epochs(args.epochs):
        rate = args.rate * (1 + np.cos(np.pi * epoch / args.epochs)) / 2
        for x, y in ckpt.batches():
            x = x * rng.uniform(0.7, 1.3, size=(len(x), 1)).astype(np.float32)  # fainter and bolder pens
            loss = learn(weights, velocity, x, y, rate)
            ckpt.step(loss=loss)
        score = accuracy(weights, *choose)
        print("epoch %2d  loss %.4f  accuracy %.4f" % (epoch + 1, loss, score), flush=True)
        ckpt.end_epoch(accuracy=score)

    best = ckpt.best_state()["weights"]  # of the best epoch, read from checkpoints/best.pt
    metrics = {"test_accuracy": accuracy(best, *test), "epochs": ckpt.epoch, "steps": ckpt.step_count}
    print("test accuracy %.4f" % metrics["test_accuracy"], flush=True)

    np.savez("final.npz", **weights)
    np.savez("predictions.npz", digit=test[1], predicted=forward(best, test[0])[-1].argmax(1))
    with open("metrics.json.new", "w") as f:
        json.dump(metrics, f)
    os.replace("metrics.json.new", "metrics.json")


if __name__ == "__main__":
    main()
