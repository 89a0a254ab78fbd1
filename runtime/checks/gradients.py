"""Compares the host layers and their gradients with JAX's.

    cargo run --release -p tidegate-runtime --example export_gradients > gradients.json
    python -m venv venv && venv/bin/pip install jax
    venv/bin/python runtime/checks/gradients.py gradients.json

The example writes random inputs, an arbitrary gradient of the output, and what the layers make of
them in 32 bits. Here JAX computes the same in 64 bits: outputs by functions of its own, gradients
by differentiating those. Printed is the largest difference of any element, relative to the largest
element of the tensor; the exit code is 1 where one is above LIMIT.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.example_libraries import optimizers

jax.config.update("jax_enable_x64", True)

LIMIT = 2e-6


def sides(x, s):
    """Padding of each dimension in space; a last window may reach beyond the end."""
    pairs = []
    for extent, k, stride, pad in zip(x.shape[2:], s["kernel"], s["stride"], s["padding"]):
        room = extent + 2 * pad - k
        more = 0
        if s["ceil"]:
            steps = -(-room // stride)
            if steps * stride >= extent + pad:
                steps -= 1
            more = max(0, steps * stride - room)
        pairs.append((pad, pad + more))
    return pairs


def convolution(s, x, w, bias):
    y = lax.conv_general_dilated(
        x, w, s["stride"], sides(x, s), feature_group_count=s["groups"],
        dimension_numbers=("NCDHW", "OIDHW", "NCDHW"))
    return y + bias[:, None, None, None]


def pool(s, x, start, combine):
    return lax.reduce_window(
        x, start, combine, (1, 1, *s["kernel"]), (1, 1, *s["stride"]),
        [(0, 0), (0, 0), *sides(x, s)])


def average(s, x):
    return pool(s, x, 0.0, lax.add) / pool(s, jnp.ones_like(x), 0.0, lax.add)


def adaptive(s, x):
    for axis, parts in enumerate(s["space"], 2):
        extent = x.shape[axis]
        means = [
            jnp.mean(lax.slice_in_dim(x, i * extent // parts, -(-(i + 1) * extent // parts),
                                      axis=axis), axis=axis, keepdims=True)
            for i in range(parts)]
        x = jnp.concatenate(means, axis=axis)
    return x


def batch_norm(s, x, gamma, beta):
    mean, variance = jnp.mean(x, (0, 2, 3, 4)), jnp.var(x, (0, 2, 3, 4))
    of = lambda v: v[:, None, None, None]
    return (x - of(mean)) / jnp.sqrt(of(variance) + 1e-5) * of(gamma) + of(beta)


def layer_norm(s, x, gamma, beta):
    x = x - jnp.mean(x, -1, keepdims=True)
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gamma + beta


def rms_norm(s, x, gamma):
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gamma


ACTIVATIONS = {
    "relu": jax.nn.relu, "leakyrelu": jax.nn.leaky_relu, "elu": jax.nn.elu, "relu6": jax.nn.relu6,
    "gelu": lambda x: jax.nn.gelu(x, approximate=True), "silu": jax.nn.silu,
    "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh,
}


def attention(s, q, k, v):
    heads, key_heads = s["heads"]
    split = lambda x, n: x.reshape(x.shape[0], x.shape[1], n, -1)
    q, k, v = split(q, heads), split(k, key_heads), split(v, key_heads)
    mask = None
    if s["causal"]:
        queries, keys = q.shape[1], k.shape[1]
        mask = jnp.tril(jnp.ones((queries, keys), bool), keys - queries)[None, None]
    y = jax.nn.dot_product_attention(q, k, v, mask=mask)
    return y.reshape(y.shape[0], y.shape[1], -1)


def rotary(s, x):
    batch, tokens, features = x.shape
    width = s["width"]
    pairs = x.reshape(batch, tokens, features // width, width // 2, 2)
    angles = jnp.arange(tokens)[:, None] * 10000.0 ** (-jnp.arange(0, width, 2) / width)
    turned = lax.complex(pairs[..., 0], pairs[..., 1]) * jnp.exp(1j * angles)[None, :, None]
    return jnp.stack([turned.real, turned.imag], -1).reshape(x.shape)


def softmax_cross_entropy(s, x, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1)
    return -jnp.mean(chosen)


def sigmoid_cross_entropy(s, x, labels):
    return -jnp.mean(jnp.where(labels == 1, jax.nn.log_sigmoid(x), jax.nn.log_sigmoid(-x)))


def trained(optimizer, p, g):
    init, update, params = optimizer
    state = init(p)
    for step in range(len(g)):
        state = update(step, g[step], state)
    return params(state)


# Each layer: the operands that have a gradient, those that have none, and what it computes.
LAYERS = {
    "convolution": (["x", "w", "bias"], [], convolution),
    "max-pool": (["x"], [], lambda s, x: pool(s, x, -jnp.inf, lax.max)),
    "average-pool": (["x"], [], average),
    "adaptive-pool": (["x"], [], adaptive),
    "upsample": (["x"], [], lambda s, x: jax.image.resize(
        x, (*x.shape[:2], *s["space"]), "linear", antialias=False)),
    "batch-norm": (["x", "gamma", "beta"], [], batch_norm),
    "layer-norm": (["x", "gamma", "beta"], [], layer_norm),
    "rms-norm": (["x", "gamma"], [], rms_norm),
    "activation": (["x"], [], lambda s, x: ACTIVATIONS[s["function"]](x)),
    "linear": (["x", "w", "bias"], [], lambda s, x, w, bias: x @ w.T + bias),
    "attention": (["q", "k", "v"], [], attention),
    "embedding": (["table"], ["tokens"], lambda s, table, tokens: table[tokens]),
    "rotary": (["x"], [], rotary),
    "multiply": (["a", "b"], [], lambda s, a, b: a * b),
    "reorder": (["x"], [], lambda s, x: jnp.transpose(x, s["order"])),
    "softmax-cross-entropy": (["x"], ["labels"], softmax_cross_entropy),
    "sigmoid-cross-entropy": (["x"], ["labels"], sigmoid_cross_entropy),
    "momentum": ([], ["p", "g"], lambda s, p, g: trained(
        optimizers.momentum(s["rate"], s["mass"]), p, g)),
    "adam": ([], ["p", "g"], lambda s, p, g: trained(
        optimizers.adam(1e-3, 0.9, 0.999, 1e-8), p, g)),
}


def tensor(stored):
    data = np.array(stored["data"]).reshape(stored["shape"])
    return jnp.asarray(data, jnp.int32 if data.dtype.kind == "i" else jnp.float64)


def difference(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    return float(np.max(np.abs(found - expected)) / max(np.max(np.abs(expected)), 1e-30))


def main():
    worst = 0.0
    for case in json.load(open(sys.argv[1])):
        trained_in, fixed, compute = LAYERS[case["layer"]]
        tensors = {name: tensor(stored) for name, stored in case["tensors"].items()}
        others = [tensors[name] for name in fixed]
        run = lambda *operands: compute(case["settings"], *operands, *others)
        y, back = jax.vjp(run, *(tensors[name] for name in trained_in))
        gradients = back(tensors.get("dy", jnp.ones(())).reshape(y.shape)) if trained_in else []
        differences = {"y": difference(tensors["y"], y)}
        for name, gradient in zip(trained_in, gradients):
            differences[f"d{name}"] = difference(tensors[f"d{name}"], gradient)
        worst = max(worst, *differences.values())
        shown = ", ".join(f"{name} {value:.1e}" for name, value in differences.items())
        label = case["settings"].get("function", case["layer"])
        print(f"{label:<22} {shown}")
    print(f"largest relative difference: {worst:.1e}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
