# SPDX-License-Identifier: Apache-2.0
"""The data that all systems use, as NumPy arrays, and the check values they agree on (values.h in C++)."""
import math

import numpy as np

MASK = (1 << 64) - 1


def hashed(seed, shape, scale=1.0):
    """Element i: splitmix64 of (seed << 32) + i, 24 bits of it, in [-scale, scale)."""
    n = int(np.prod(shape)) if shape else 1
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) + np.uint64((seed << 32) & MASK) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    t = (z >> np.uint64(40)).astype(np.float64)
    return ((t * 2.0**-23 - 1) * scale).astype(np.float32).reshape(shape)


def glorot(seed, shape):
    inputs = math.prod(shape[:-1])
    outputs = math.prod(shape[:-2]) * shape[-1]
    return hashed(seed, shape, math.sqrt(6 / (inputs + outputs)))


def labels(n):
    return np.array([7 * i % 10 for i in range(n)])


def rotation(n):
    """An orthogonal n x n matrix: two Householder reflections, in double, rounded at the end."""
    q = np.eye(n)
    for seed in (11, 12):
        v = hashed(seed, (n, 1)).astype(np.float64)
        q = q @ (np.eye(n) - 2 * v @ v.T / (v.T @ v))
    return q.astype(np.float32)


def l2hmc_net(net):
    """The 14 arrays of one network of the sampler: net 0 moves positions, net 1 momenta."""
    s, zeros = 200 + 20 * net, lambda n: np.zeros(n, np.float32)
    return [hashed(s, (2, 10), .5), hashed(s + 1, (2, 10), .5), hashed(s + 2, (2, 10), .5), zeros(10),
            hashed(s + 3, (10, 10), .5), zeros(10), hashed(s + 4, (10, 2), .5), zeros(2),
            hashed(s + 5, (10, 2), .5), zeros(2), hashed(s + 6, (10, 2), .5), zeros(2), zeros(2), zeros(2)]


def l2hmc_times():
    """What the networks know of the ten leapfrog steps' times."""
    angles = 2 * np.pi * np.arange(10) / 10
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def resnet56_shapes():
    """(size, inputs, outputs) of each convolution: the stem, then of each block two and its projection."""
    yield 3, 3, 16
    for width_in, width in ((16, 16), (16, 32), (32, 64)):
        for block in range(9):
            yield 3, width if block else width_in, width
            yield 3, width, width
            if block == 0 and width != width_in:
                yield 1, width_in, width


def resnet56_layers():
    """Of each convolution its filter, and the scale and offset of its norm."""
    for k, (size, inputs, outputs) in enumerate(resnet56_shapes(), 101):
        w = hashed(k, (size, size, inputs, outputs), math.sqrt(6 / (size * size * inputs)))
        yield w, np.ones(outputs, np.float32), np.zeros(outputs, np.float32)


def digest(*arrays):
    """Per array: the sum of a[i] cos(0.7 i) / sqrt(size), and the mean of |a[i]|."""
    out = []
    for array in arrays:
        a = np.asarray(array, dtype=np.float64).reshape(-1)
        out.append(float((a * np.cos(0.7 * np.arange(a.size))).sum() / math.sqrt(a.size)))
        out.append(float(np.abs(a).mean()))
    return out


def strided(y):
    """What is seen of an element-wise result: the mean of every so many, the first and the last."""
    seen = np.asarray(y[::max(1, len(y) // 997)], dtype=np.float64)
    return [float(seen.mean()), float(y[0]), float(y[-1])]


# Digests, or the losses of the first three steps; several frameworks agree on them.
EXPECTED = {
    "add_2x2": (.3667149, .8493364),
    "add_chain_2x2": (.3667208, .84934),
    "add_in_scope_2x2": (.3667208, .84934),
    "tape_add_2x2": (1, 100),
    "tape100_2x2": (.5482334, .4172545, 31.07351, 31.02837, 13.34077, 17.69263),
    "tape100_scalar": (.3856547, 31.93231, 38.93129),
    "matmul_many_2x2": (-.2164536, .4956818),
    "matmul_many_16x16": (-.3436749, .501836),
    "call_1": (1.359849, 1.077256),
    "call_8": (1.745935, 1.717928),
    "call_many_graphs": (.6448672, .4638059, 6448.027, 4637.595),
    "call_100": (1.359849, 1.077256, 0.2915962, 1.218503),
    "call_100_parts": (1.359849, 1.077256, 0.2915962, 1.218503),
    "scan": (1.414193,),
    "l2hmc_10": (-21.04338, -23.47849, -26.04367),
    "l2hmc_200": (-18.49098, -19.70679, -20.97344),
    "rnn_fb": (.3065847, .3062464, .3059086),
    "mlp_b32": (2.347079, 2.079925, 1.848816),
    "mlp_b128": (2.404194, 2.329789, 2.260331),
    "lenet_b64": (2.298409, 2.297743, 2.297112),
    "lenet_b128": (2.301838, 2.301542, 2.301272),
    "resnet56_b32": (3.233409, 2.686391, 2.363857),
    "resnet56_b128": (3.351328, 3.137967, 2.975112),
    "transformer": (.5719873, .5717317, .5714766),
    "ew_1e3": (.07647619, .2512368, .02794795),
    "ew_1e6": (.0930106, .2512368, .002117397),
    "gemm_32": (.6684639, 1.50154),
    "gemm_64": (.9174315, 2.14994),
    "gemm_256": (-4.038396, 4.250901),
    "conv3x3_fwd": (.9638546, .6308758),
    "conv3x3_fb": (-.8440094, 2.483494, -1469.462, 824.2506),
    "lstm_fb": (51.12349, 50.15818, 49.21868),
    "gru_fb": (299.8787, 279.5302, 261.0835),
    "attention_512": (-.04400985, .02880728, -.01498746, .02909784, .03274145, .04542269),
    "attention_2048": (-.01711175, .01526882, .0009551058, .01545196, .01378115, .02354978),
    "embedding_adam": (.3336786, .3237926, .3141094),
    "adam_500": (-.06715813, .494662, -.2932614, .5004452),
    "depthwise_fb": (-.03638025, .2427163, 12.19373, 40.45814),
    "separable_fb": (-.190222, .157834, 4.084151, 27.66316, 2.954776, 22.26892),
    "transposed_fb": (-.1783965, .4531142, -.9310929, 21.10359),
    "stem_fb": (-33.1339, 41.18),
    "group_norm_fb": (.9075684, .86247, 101.4911, 80.21831, -41.10517, 68.29905),
    "layer_norm_fb": (.8533238, .863433, 13.91162, 14.5163, 15.64464, 14.29099),
    "csv_1e6": (1000000, 499999.5, 499.9375, .02818419),
}
TOLERANCE = 2e-3  # relative


def verify(name, found):
    """Raises where check values differ from those above; workloads without any pass."""
    tolerance = 5e-3 if name.startswith("resnet56") else TOLERANCE
    for i, want in enumerate(EXPECTED.get(name, ())):
        if not abs(found[i] - want) <= tolerance * max(abs(want), 1e-3):
            raise ValueError(f"{name}: check value {i} is {found[i]:.7g}, but must be {want:.7g}")
