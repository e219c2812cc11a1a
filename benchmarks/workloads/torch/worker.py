#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workloads in PyTorch eager, behind the protocol of benchmarks/README.md."""
import json
import math
import os
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "1")))
torch.set_flush_denormal(True)
MASK = (1 << 64) - 1


def hashed(seed, shape, scale=1.0):
    n = int(np.prod(shape)) if shape else 1
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) + np.uint64((seed << 32) & MASK) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    t = (z >> np.uint64(40)).astype(np.float64)
    return torch.from_numpy(((t * 2.0**-23 - 1) * scale).astype(np.float32).reshape(shape))


def glorot(seed, shape):
    inputs = math.prod(shape[:-1])
    outputs = math.prod(shape[:-2]) * shape[-1]
    return hashed(seed, shape, math.sqrt(6 / (inputs + outputs)))


def labels(n):
    return torch.tensor([7 * i % 10 for i in range(n)])


def rotation(n):
    q = np.eye(n)
    for seed in (11, 12):
        v = hashed(seed, (n, 1)).double().numpy()
        q = q @ (np.eye(n) - 2 * v @ v.T / (v.T @ v))
    return torch.from_numpy(q.astype(np.float32))


def digest(*arrays):
    out = []
    for array in arrays:
        a = array.detach().double().numpy().reshape(-1)
        out.append(float((a * np.cos(0.7 * np.arange(a.size))).sum() / math.sqrt(a.size)))
        out.append(float(np.abs(a).mean()))
    return out


class Add:
    units = 1

    def __init__(self):
        self.a, self.b = hashed(1, (2, 2)), hashed(2, (2, 2))

    def check(self):
        return digest(self.a + self.b)

    def run(self):
        return self.a + self.b


class TapeAdd:
    units = 100

    def __init__(self):
        self.x = hashed(1, (2, 2)).requires_grad_()
        self.b = hashed(2, (2, 2), .05).requires_grad_()

    def run(self):
        y = self.x
        for _ in range(100):
            y = y + self.b
        return torch.autograd.grad(y, (self.x, self.b), torch.ones(2, 2))

    def check(self):
        x, b = self.run()
        return [float(x[1, 1]), float(b[0, 0])]


class Tape100:
    units = 100

    def __init__(self):
        self.x = hashed(1, (2, 2)).requires_grad_()
        self.b = hashed(2, (2, 2), .05).requires_grad_()
        self.c = (1 + hashed(3, (2, 2), .05)).requires_grad_()

    def run(self):
        y = self.x
        for _ in range(50):
            y = y + self.b
            y = y * self.c
        return torch.autograd.grad(y.sum(), (self.x, self.b, self.c))

    def check(self):
        return digest(*self.run())


class MatmulMany:
    units = 1

    def __init__(self, n):
        self.x, self.w = hashed(5, (n, n)), rotation(n)

    def run(self):
        x = self.x
        for _ in range(100):
            x = x @ self.w
        return x

    def check(self):
        return digest(self.run())


class Training:
    """Steps of plain SGD; the check is the losses of the first three."""
    units = 1

    def run(self):
        loss = self.loss()
        grads = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for p, g in zip(self.parameters, grads):
                p -= self.rate * g
        return loss

    def check(self):
        return [float(self.run()) for _ in range(3)]


class Mlp(Training):
    rate = .05

    def __init__(self, batch):
        sizes = (784, 256, 256, 10)
        self.w = [glorot(i + 1, (sizes[i], sizes[i + 1])).requires_grad_() for i in range(3)]
        self.b = [torch.zeros(sizes[i + 1], requires_grad=True) for i in range(3)]
        self.parameters = self.w + self.b
        self.x, self.y = hashed(4, (batch, 784)), labels(batch)

    def loss(self):
        h = self.x
        for i in range(3):
            h = torch.addmm(self.b[i], h, self.w[i])
            if i < 2:
                h = F.relu(h)
        return F.cross_entropy(h, self.y)


class Lenet(Training):
    rate = .05

    def __init__(self, batch):
        channels_last = dict(memory_format=torch.channels_last)
        self.f = [glorot(1, (5, 5, 1, 6)), glorot(2, (5, 5, 6, 16))]
        self.f = [f.permute(3, 2, 0, 1).contiguous(**channels_last).requires_grad_() for f in self.f]
        shapes = ((400, 120), (120, 84), (84, 10))
        self.w = [glorot(i + 3, s).requires_grad_() for i, s in enumerate(shapes)]
        sizes = (6, 16, 120, 84, 10)
        self.b = [torch.zeros(n, requires_grad=True) for n in sizes]
        self.parameters = self.f + self.w + self.b
        x = hashed(6, (batch, 28, 28, 1))
        self.x = x.permute(0, 3, 1, 2).contiguous(**channels_last)
        self.y = labels(batch)

    def loss(self):
        h = F.avg_pool2d(F.relu(F.conv2d(self.x, self.f[0], self.b[0], padding=2)), 2)
        h = F.avg_pool2d(F.relu(F.conv2d(h, self.f[1], self.b[1])), 2)
        h = h.permute(0, 2, 3, 1).reshape(h.shape[0], 400)
        for i in range(3):
            h = torch.addmm(self.b[2 + i], h, self.w[i])
            if i < 2:
                h = F.relu(h)
        return F.cross_entropy(h, self.y)


class Gemm:
    units = 1

    def __init__(self, n):
        self.a, self.b = hashed(1, (n, n)), hashed(2, (n, n))
        self.out = torch.empty(n, n)

    def run(self):
        return torch.mm(self.a, self.b, out=self.out)

    def check(self):
        return digest(self.run())


WORKLOADS = {"add_2x2": Add, "tape_add_2x2": TapeAdd, "tape100_2x2": Tape100}
WORKLOADS |= {f"matmul_many_{n}x{n}": (lambda n=n: MatmulMany(n)) for n in (2, 16)}
WORKLOADS |= {f"mlp_b{b}": (lambda b=b: Mlp(b)) for b in (32, 128)}
WORKLOADS |= {f"lenet_b{b}": (lambda b=b: Lenet(b)) for b in (64, 128)}
WORKLOADS |= {f"gemm_{n}": (lambda n=n: Gemm(n)) for n in (32, 64, 128, 256, 512, 1024)}


class Ready:
    def __init__(self, make):
        self.checksum = make().check()
        self.instance = make()
        self.instance.run()
        self.inner = 1
        while self.sample() * self.inner * self.instance.units < 3e-3:
            self.inner *= 2

    def sample(self):
        run, start = self.instance.run, time.perf_counter()
        for _ in range(self.inner):
            run()
        return (time.perf_counter() - start) / (self.inner * self.instance.units)

    def timed(self, budget):
        samples, start = [], time.perf_counter()
        while len(samples) < 3 or time.perf_counter() - start < budget:
            samples.append(self.sample())
        median, p10, p90 = np.quantile(samples, (.5, .1, .9))
        return {"median": median, "p10": p10, "p90": p90, "n": len(samples), "inner": self.inner,
                "checksum": self.checksum}


def rss():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


def answer(line, ready, start_kb):
    name, *options = line.split()
    options = dict(option.split("=") for option in options)
    if name == ":hello":
        names = {w: ["eager"] for w in WORKLOADS}
        return {"peer": "pytorch", "version": torch.__version__, "rss_kb": rss(), "workloads": names}
    if name == ":rss":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"rss_kb": rss(), "peak_kb": peak, "start_kb": start_kb}
    if name == ":drop":
        ready.clear()
        return {"ok": True}
    if name not in WORKLOADS or options.get("mode") != "eager":
        return {"skip": f"no workload {name} in mode {options.get('mode')}"}
    if name not in ready:
        ready[name] = Ready(WORKLOADS[name])
    if "setup" in options:
        return {"checksum": ready[name].checksum, "first_call": None}
    return ready[name].timed(float(options.get("ms", 100)) / 1e3)


def main():
    ready, start_kb = {}, rss()
    for line in sys.stdin:
        if line.strip() == ":quit":
            print(json.dumps({"ok": True}), flush=True)
            return
        try:
            reply = answer(line, ready, start_kb)
        except Exception as error:  # a failing workload is an answer, not an end
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
