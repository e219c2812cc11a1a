#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fits of spline-bench in PyTorch eager: spline_torch.py PATH/spline-bench [RUNS]

Takes the data, and the times of the ways in C++, from `spline-bench --data`, fits the same B-spline
of 16 control points in float by the same descent on one thread, and prints how many times as long
it takes: with the loss as in C++, and with the segments and weights of the points computed before.
"""
import json
import statistics
import subprocess
import sys
import time

import torch

CONTROLS, ROUGH, AWAY = 16, 1e-3, 1e-3
FLAT, SETTLED, MOST, HALVINGS = 1e-5, 1e-7, 2000, 30


def places(x):
    at = x * (CONTROLS - 3)
    segment = at.long().clamp(max=CONTROLS - 4)
    t = at - segment
    u = 1 - t
    weights = (u * u * u, t * t * (3 * t - 6) + 4, u * u * (3 * u - 6) + 4, t * t * t)
    return segment, weights


class Loss:
    def __init__(self, data, pooled, is_prepared):
        self.x, self.y = (torch.tensor(data[name], dtype=torch.float32) for name in "xy")
        self.pooled = pooled
        self.prepared = None
        if is_prepared:
            segment, weights = places(self.x)
            self.prepared = segment[:, None] + torch.arange(4), torch.stack(weights, 1) / 6

    def curve(self, p):
        if self.prepared:
            reads, weights = self.prepared
            return (p[reads] * weights).sum(1)
        i, (a, b, c, d) = places(self.x)
        return (a * p[i] + b * p[i + 1] + c * p[i + 2] + d * p[i + 3]) / 6

    def __call__(self, p):
        bends = p[2:] - 2 * p[1:-1] + p[:-2]
        value = torch.mean((self.curve(p) - self.y) ** 2) + ROUGH * torch.sum(bends * bends)
        return value if self.pooled is None else value + AWAY * torch.sum((p - self.pooled) ** 2)


def step(loss, p, value, slope):
    """The first of the halved steps that pays, else p."""
    square, length = float(slope @ slope), 1.0
    for halvings in range(HALVINGS + 1):
        trial = p - length * slope
        trial_value = float(loss(trial))
        if trial_value <= value - 1e-4 * length * square:
            return trial, trial_value, halvings + 1
        length /= 2
    return p, value, HALVINGS + 1


def fit(loss, p):
    """The control points, and how many iterations, losses and gradients they took."""
    losses, small_changes = 1, 0
    with torch.no_grad():
        value = float(loss(p))
    for iteration in range(MOST):
        at = p.clone().requires_grad_()
        slope, = torch.autograd.grad(loss(at), at)
        with torch.no_grad():
            if float(slope.abs().max()) <= FLAT:
                return p, (iteration, losses, iteration + 1)
            p, next_value, tries = step(loss, p, value, slope)
        losses += tries
        small_changes = small_changes + 1 if abs(value - next_value) <= SETTLED * value else 0
        value = next_value
        if small_changes == 2:
            return p, (iteration, losses, iteration + 1)
    return p, (MOST, losses, MOST)


def report(stage, row, loss, start, runs):
    """Prints a row, and gives the fit."""
    samples = []
    for _ in range(runs):
        begin = time.perf_counter()
        p, (iterations, losses, gradients) = fit(loss, start)
        samples.append(time.perf_counter() - begin)
    seconds = statistics.median(samples)
    each = seconds / iterations
    ratios = "  ".join(f"{way['way']} {each / (way['seconds'] / way['iterations']):.3g}" for way in row["ways"])
    kind = "prepared" if loss.prepared else "as in C++"
    print(f"{stage:<7} {kind:<10} {iterations}/{losses}/{gradients:<6} {seconds * 1e3:9.1f} ms "
          f"{each * 1e6:8.1f} us/iter; times as long per iteration as: {ratios}")
    return p


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    torch.set_num_threads(1)
    runs = int(sys.argv[2]) if len(sys.argv) == 3 else 3
    answer = subprocess.run([sys.argv[1], "--data", "--seconds", "10"], check=True, capture_output=True)
    data, pooled_row, local_row = (json.loads(line) for line in answer.stdout.splitlines())
    print(f"PyTorch {torch.__version__}, eager, one thread, medians of {runs} runs; iter/loss/grad")
    pooled = None
    for is_prepared in (False, True):
        zeros = torch.zeros(CONTROLS)
        p = report("pooled", pooled_row, Loss(data["pooled"], None, is_prepared), zeros, runs)
        pooled = p if pooled is None else pooled
        report("local", local_row, Loss(data["local"], pooled, is_prepared), pooled, runs)


if __name__ == "__main__":
    main()
