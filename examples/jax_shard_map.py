#!/usr/bin/env python3
"""jax_shard_map.py - the loss of a batch that lies on four devices: gather, then take the mean.

The devices are simulated on the CPU; the gradient is that of one device with the whole batch.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

from ole.jax import ole_loss


def local(features, labels):
    """On each device: its rows in, the loss of all rows out, the same everywhere."""
    features = jax.lax.all_gather(features, "data", tiled=True)
    labels = jax.lax.all_gather(labels, "data", tiled=True)
    return jax.lax.pmean(ole_loss(features, labels, 0.25), "data")


rng = np.random.default_rng(0)
features = rng.normal(size=(64, 16)).astype(np.float32)
labels = np.arange(64) % 4

mesh = Mesh(np.array(jax.devices()), ("data",))
whole = jax.shard_map(local, mesh=mesh, in_specs=(P("data"), P("data")), out_specs=P())
value, gradient = jax.jit(jax.value_and_grad(whole))(features, labels)
alone, expected = jax.value_and_grad(ole_loss)(features, labels, 0.25)
print(f"{len(jax.devices())} devices: loss {value:.6f}, gradient off by {abs(gradient - expected).max():.0e}")
print(f"one device: loss {alone:.6f}")
