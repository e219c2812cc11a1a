#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes etude/nn/layers/layer_values.inc: what NumPy gives for the calls of layer_values_test.cc.

Rotary positions, rows of tables, connectionist temporal classification, morphological layers and the adaptive
softmax, with derivatives, and the distance of Frechet, written out by their definitions on operands that both make by one formula. Run
./dev format afterwards. With --check it compares instead.
"""
import itertools

import numpy as np
import scipy.linalg

import generated_file

PATH = "etude/nn/layers/layer_values.inc"


def at(shape, seed):
    """Element k of the operand `seed`: the same in layer_values_test.cc."""
    k = np.arange(int(np.prod(shape)))
    return (((k * 37 + seed * 29 + k * k % 11 * 5) % 97) / 48.5 - 1).reshape(shape)


def rotary(x, positions, base):
    """Each pair (i, size / 2 + i) as a complex number, turned."""
    half = x.shape[-1] // 2
    angles = np.outer(positions, base ** (-2 * np.arange(half) / x.shape[-1]))
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], -1)


POSITIONS = np.array([0, 3, 7, 1, 2])
IDS = np.array([[5, 0, 2], [2, 2, 4]])


def lookup_gradient(cotangent):
    out = np.zeros((6, 3))
    np.add.at(out, IDS, cotangent)
    return out


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def ctc(logits, labels, blank):
    """-log of the sum over all paths that spell the labels, and its gradient: by listing the paths."""
    p, classes = np.exp(log_softmax(logits)), logits.shape[1]
    total, parts = 0.0, np.zeros_like(p)
    for path in itertools.product(range(classes), repeat=len(logits)):
        spelled = [k for k, _ in itertools.groupby(path) if k != blank]
        if spelled != list(labels):
            continue
        chance = np.prod(p[np.arange(len(path)), path])
        total += chance
        parts[np.arange(len(path)), path] += chance
    # d log p(path) / d logit = counts of the path - p at each step, weighted by the path's share.
    return -np.log(total), p - parts / total


CTC_LOGITS = at((3, 5, 4), 3) * 2
CTC = [ctc(CTC_LOGITS[0], (1, 2, 1), 0), ctc(CTC_LOGITS[1, :4], (3, 3), 0), ctc(CTC_LOGITS[2, :2], (), 0)]


def ctc_gradient():
    out = np.zeros_like(CTC_LOGITS)
    for i, (_, slope) in enumerate(CTC):
        out[i, :len(slope)] = slope
    return out


def dilation(x, filter, strides=(1, 1), rates=(1, 1), same=False):
    """The largest sum of each window, pixels beside the image left out; and the place that it is at."""
    n, h, w, channels = x.shape
    reach = [(filter.shape[i] - 1) * rates[i] + 1 for i in (0, 1)]
    sizes = [-(-s // d) if same else (s - r) // d + 1 for s, r, d in zip((h, w), reach, strides)]
    before = [max((o - 1) * d + r - s, 0) // 2 if same else 0
              for o, d, r, s in zip(sizes, strides, reach, (h, w))]
    out = np.full((n, *sizes, channels), -np.inf)
    to_x, to_filter = np.zeros_like(x), np.zeros_like(filter)
    for b, i, j, c in np.ndindex(out.shape):
        best = None
        for u, v in np.ndindex(filter.shape[:2]):
            y, z = i * strides[0] + u * rates[0] - before[0], j * strides[1] + v * rates[1] - before[1]
            if 0 <= y < h and 0 <= z < w and x[b, y, z, c] + filter[u, v, c] > out[b, i, j, c]:
                out[b, i, j, c], best = x[b, y, z, c] + filter[u, v, c], (y, z, u, v)
        y, z, u, v = best
        to_x[b, y, z, c] += 1
        to_filter[u, v, c] += 1
    return out, to_x, to_filter


def erosion(x, filter, **options):
    out, to_x, to_filter = dilation(-x, filter[::-1, ::-1], **options)
    return -out, to_x, -to_filter[::-1, ::-1]


def adaptive(x, head, clusters, first):
    top = log_softmax(x @ head)
    parts = [top[:, :first]]
    for i, (down, up) in enumerate(clusters):
        parts.append(top[:, [first + i]] + log_softmax(x @ down @ up))
    return np.concatenate(parts, 1)


def frechet(x, y):
    away = x.mean(0) - y.mean(0)
    a, b = np.cov(x.T), np.cov(y.T)
    return away @ away + np.trace(a + b - 2 * scipy.linalg.sqrtm(a @ b).real)


IMAGE, FILTER = at((2, 6, 5, 2), 1), at((2, 3, 2), 2) * 0.777  # so that no two sums are equal
WIDE = dict(strides=(2, 1), rates=(2, 1))
LOGS = adaptive(at((4, 8), 1), at((8, 5), 2), [(at((8, 4), 3), at((4, 3), 4)), (at((8, 2), 5), at((2, 4), 6))], 3)
LABELS = np.array([1, 9, 4, 0])

ROWS = {
    "rotary": rotary(at((2, 5, 6), 1), POSITIONS, 100),
    "rotary gradient": rotary(at((2, 5, 6), 2), -POSITIONS, 100),
    "lookup": at((6, 3), 1)[IDS],
    "lookup gradient": lookup_gradient(at((2, 3, 3), 2)),
    "ctc": np.array([loss for loss, _ in CTC]),
    "ctc gradient": ctc_gradient(),
    "dilation": dilation(IMAGE, FILTER)[0],
    "dilation to x": dilation(IMAGE, FILTER)[1],
    "dilation to filter": dilation(IMAGE, FILTER)[2],
    "dilation wide": dilation(IMAGE, FILTER, **WIDE)[0],
    "dilation same": dilation(IMAGE, FILTER, same=True)[0],
    "erosion": erosion(IMAGE, FILTER)[0],
    "erosion to x": erosion(IMAGE, FILTER)[1],
    "erosion to filter": erosion(IMAGE, FILTER)[2],
    "erosion wide same": erosion(IMAGE, FILTER, **WIDE, same=True)[0],
    "adaptive": LOGS,
    "adaptive loss": -LOGS[np.arange(4), LABELS].mean(),
    "frechet": np.array([frechet(at((9, 3), 1) + 0.3 * at((9, 3), 4)**2, at((7, 3), 2) + 0.5 * at((7, 3), 5)**2)]),
}


def text(value):
    """Ten digits: the last ones of sums differ between machines. What rounds to 0 is one."""
    return f"{value:.10g}" if abs(value) > 1e-13 else "0."


def main():
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             "// Generated by tools/generate/gen_layer_values.py; do not edit.",
             "// What NumPy gives for the calls of layer_values_test.cc.",
             "const LayerRow kLayerRows[] = {"]
    for name, values in ROWS.items():
        numbers = ", ".join(text(v) for v in np.asarray(values, float).ravel())
        lines.append(f'    {{"{name}", {{{numbers}}}}},')
    generated_file.finish(PATH, "\n".join(lines + ["};", ""]), "tools/generate/gen_layer_values.py")


if __name__ == "__main__":
    main()
