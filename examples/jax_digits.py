#!/usr/bin/env python3
"""jax_digits.py - digits in JAX, with softmax alone and with OLE: one added line changes the geometry.

Needs jax, scikit-learn (for the images) and this package. Runs in seconds on a CPU.
"""
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

from ole.jax import ole_loss

SIZES, CLASSES = (64, 128, 32), 10
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32)
order = np.random.default_rng(0).permutation(len(images))
train, test = order[:1200], order[1200:]


def initial(key):
    sizes = (*SIZES, CLASSES)
    return [(jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, jnp.zeros(b))
            for k, a, b in zip(jax.random.split(key, len(SIZES)), sizes, sizes[1:])]


def apply(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    return x, x @ params[-1][0] + params[-1][1]


def objective(params, x, y, weight):
    features, logits = apply(params, x)
    loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()
    loss += ole_loss(features, y, weight)  # the added line
    return loss


@jax.jit
def step(params, velocity, x, y, weight):
    gradient = jax.grad(objective)(params, x, y, weight)
    velocity = jax.tree.map(lambda v, g: 0.9 * v - 0.05 * g, velocity, gradient)
    return jax.tree.map(jnp.add, params, velocity), velocity


def run(weight):
    """The share of right answers, and the median angle between features of different classes."""
    rng, params = np.random.default_rng(1), initial(jax.random.key(1))
    velocity = jax.tree.map(jnp.zeros_like, params)
    for _ in range(60):
        for batch in rng.permutation(train).reshape(-1, 100):
            params, velocity = step(params, velocity, images[batch], labels[batch], weight)
    features, logits = map(np.asarray, apply(params, images[test]))
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    apart = labels[test][:, None] != labels[test]
    angle = np.degrees(np.arccos(np.clip(unit @ unit.T, -1, 1)))[apart]
    return (logits.argmax(1) == labels[test]).mean(), np.median(angle)


for name, weight in (("softmax", 0.0), ("softmax + OLE", 0.5)):
    right, angle = run(weight)
    print(f"{name:14} accuracy {100 * right:.1f} %, classes {angle:.0f} degrees apart")
