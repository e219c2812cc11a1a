#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workloads in PyTorch, eagerly and under torch.compile, behind the protocol of benchmarks/README.md."""
import math
import os
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import files  # noqa: E402
import layers  # noqa: E402
import numerics  # noqa: E402
import sequences  # noqa: E402
import values  # noqa: E402
from data import glorot, hashed, labels  # noqa: E402
from serve import serve  # noqa: E402
from values import digest, strided  # noqa: E402

torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "1")))
torch.set_flush_denormal(True)


class Add:
    units = 1

    def __init__(self):
        self.a, self.b = hashed(1, (2, 2)), hashed(2, (2, 2))

    def check(self):
        return digest(self.run())

    def run(self):
        return self.a + self.b


class AddChain:
    units = 1000

    def __init__(self):
        self.a, self.b = hashed(1, (2, 2)), hashed(2, (2, 2), 1e-3)

    def run(self):
        y = self.a
        for _ in range(1000):
            y = y + self.b
        return y

    def check(self):
        return digest(self.run())


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

    def __init__(self, scalar=False):
        data = hashed(1, (2, 2)), hashed(2, (2, 2), .05), 1 + hashed(3, (2, 2), .05)
        if scalar:
            data = [t[0, 0].clone() for t in data]
        self.scalar = scalar
        self.x, self.b, self.c = (t.requires_grad_() for t in data)

    def run(self):
        y = self.x
        for _ in range(50):
            y = y + self.b
            y = y * self.c
        return torch.autograd.grad(y.sum(), (self.x, self.b, self.c))

    def check(self):
        return [float(g) for g in self.run()] if self.scalar else digest(*self.run())


class Scan:
    units = 10000

    def run(self):
        x = torch.tensor(.5)
        for _ in range(self.units):
            x = x + 1e-3 * (2 - x * x)
        return x

    def check(self):
        return [float(self.run())]


class MatmulMany:
    units = 1

    def __init__(self, n):
        self.x, self.w = hashed(5, (n, n)), torch.from_numpy(values.rotation(n))

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


class Epoch(Lenet):
    """Batches taken from all images in memory, and Adam: a tenth of an epoch is timed."""
    images, batch, timed = 60000, 128, 47
    units = timed * batch / images

    def __init__(self):
        super().__init__(self.batch)
        x = hashed(6, (self.images, 28, 28, 1)).permute(0, 3, 1, 2)
        self.inputs, self.labels = x.contiguous(memory_format=torch.channels_last), labels(self.images)
        self.adam, self.at = torch.optim.Adam(self.parameters, lr=1e-3), 0

    def step(self):
        self.at = 0 if self.at + self.batch > self.images else self.at
        rows = slice(self.at, self.at + self.batch)
        self.x, self.y, self.at = self.inputs[rows], self.labels[rows], rows.stop
        self.adam.zero_grad()
        loss = self.loss()
        loss.backward()
        self.adam.step()
        return loss

    def run(self):
        for _ in range(self.timed):
            self.step()

    def check(self):
        return [float(self.step()) for _ in range(3)]


class L2hmc(Training):
    """Ten leapfrog steps of n chains, steered by two networks of 14 arrays."""
    rate = 1e-5

    def __init__(self, n):
        self.nets = [[torch.from_numpy(a) for a in values.l2hmc_net(net)] for net in (0, 1)]
        self.eps = torch.tensor(.1)
        self.parameters = [p.requires_grad_() for net in self.nets for p in net] + [self.eps.requires_grad_()]
        self.precision = torch.tensor([[2, .6], [.6, 1]])
        self.x, self.v = hashed(250, (n, 2), 2), hashed(251, (n, 2), 1.5)
        self.masks = torch.tensor([1., 0.]), torch.tensor([0., 1.])
        self.times = torch.from_numpy(values.l2hmc_times()).unbind()

    @staticmethod
    def steer(net, a, b, t):
        wa, wb, wt, b1, w2, b2, ws, bs, wf, bf, wq, bq, cs, cf = net
        h = F.relu(a @ wa + b @ wb + t @ wt + b1)
        h = F.relu(torch.addmm(b2, h, w2))
        return (torch.tanh(torch.addmm(bs, h, ws)) * torch.exp(cs), torch.addmm(bq, h, wq),
                torch.tanh(torch.addmm(bf, h, wf)) * torch.exp(cf))

    def momentum(self, x, v, logdet, t):
        g = x @ self.precision
        s, q, f = self.steer(self.nets[1], x, g, t)
        half = .5 * self.eps
        v = v * torch.exp(half * s) - half * (torch.exp(self.eps * q) * g - f)
        return v, logdet + half * s.sum(-1)

    def position(self, x, v, logdet, t, k, u):
        s, q, f = self.steer(self.nets[0], v, k * x, t)
        x = k * x + u * (x * torch.exp(self.eps * s) + self.eps * (torch.exp(self.eps * q) * v + f))
        return x, logdet + self.eps * (u * s).sum(-1)

    def energy(self, x, v):
        return .5 * ((x @ self.precision) * x).sum(-1) + .5 * (v * v).sum(-1)

    def loss(self):
        x, v, logdet = self.x, self.v, torch.tensor(0.)
        for i, t in enumerate(self.times):
            k, u = self.masks[i % 2], self.masks[1 - i % 2]
            v, logdet = self.momentum(x, v, logdet, t)
            x, logdet = self.position(x, v, logdet, t, k, u)
            x, logdet = self.position(x, v, logdet, t, u, k)
            v, logdet = self.momentum(x, v, logdet, t)
        change = self.energy(self.x, self.v) - self.energy(x, v) + logdet
        accept = torch.exp(torch.clamp(change, max=0))
        far = ((self.x - x) ** 2).sum(-1) * accept + 1e-4
        return (.1 / far - far / .1).mean()


class Rnn(Training):
    rate = 1e-2

    def __init__(self):
        self.wx, self.wh, self.b = glorot(1, (64, 64)), glorot(2, (64, 64)), hashed(3, (64,), .1)
        self.parameters = [p.requires_grad_() for p in (self.wx, self.wh, self.b)]
        self.xs = hashed(4, (50, 16, 64)).unbind()

    def loss(self):
        h = torch.zeros(16, 64)
        for x in self.xs:
            h = torch.tanh(torch.addmm(self.b, x, self.wx) + h @ self.wh)
        return (h * h).mean()


class ResNet56(Training):
    rate = 1e-3

    def __init__(self, batch):
        self.parameters, self.number = [], 1
        self.stem = self.layer(3, 3, 16, 1)
        self.blocks, width_in = [], 16
        for width in (16, 32, 64):
            for _ in range(9):
                stride = 2 if width != width_in else 1
                first, second = self.layer(3, width_in, width, stride), self.layer(3, width, width, 1)
                projection = self.layer(1, width_in, width, stride) if stride == 2 else None
                self.blocks.append((first, second, projection))
                width_in = width
        self.w, self.b = glorot(99, (64, 10)).requires_grad_(), torch.zeros(10, requires_grad=True)
        self.parameters += [self.w, self.b]
        x = hashed(98, (batch, 32, 32, 3)).permute(0, 3, 1, 2)
        self.x, self.y = x.contiguous(memory_format=torch.channels_last), labels(batch)

    def layer(self, size, inputs, outputs, stride):
        w = hashed(100 + self.number, (size, size, inputs, outputs), math.sqrt(6 / (size * size * inputs)))
        self.number += 1
        w = w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last).requires_grad_()
        scale, offset = torch.ones(outputs, requires_grad=True), torch.zeros(outputs, requires_grad=True)
        self.parameters += [w, scale, offset]
        return w, scale, offset, torch.zeros(outputs), torch.ones(outputs), stride, size // 2

    @staticmethod
    def conv_norm(x, layer):
        w, scale, offset, mean, variance, stride, padding = layer
        x = F.conv2d(x, w, stride=stride, padding=padding)
        return F.batch_norm(x, mean, variance, scale, offset, training=True, momentum=.1, eps=1e-5)

    def loss(self):
        x = F.relu(self.conv_norm(self.x, self.stem), inplace=True)
        for first, second, projection in self.blocks:
            y = self.conv_norm(F.relu(self.conv_norm(x, first), inplace=True), second)
            y += x if projection is None else self.conv_norm(x, projection)
            x = F.relu(y, inplace=True)
        return F.cross_entropy(torch.addmm(self.b, x.mean((2, 3)), self.w), self.y)


class Transformer(Training):
    rate = 1e-2

    def __init__(self):
        d = 256
        self.qkv, self.wo = glorot(1, (d, 3 * d)), glorot(2, (d, d))
        self.w1, self.w2 = glorot(3, (d, 4 * d)), glorot(4, (4 * d, d))
        self.biases = [torch.zeros(n) for n in (3 * d, d, 4 * d, d)]
        self.norms = [torch.ones(d), torch.zeros(d), torch.ones(d), torch.zeros(d)]
        self.parameters = [self.qkv, self.wo, self.w1, self.w2, *self.biases, *self.norms]
        for p in self.parameters:
            p.requires_grad_()
        self.x = hashed(5, (8, 128, d))

    def loss(self):
        x, (bqkv, bo, c1, c2), (s1, o1, s2, o2) = self.x, self.biases, self.norms
        parts = (F.layer_norm(x, (256,), s1, o1, 1e-5) @ self.qkv + bqkv).split(256, -1)
        q, k, v = (p.reshape(8, 128, 8, 32).transpose(1, 2) for p in parts)
        heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(8, 128, 256)
        y = x + (heads @ self.wo + bo)
        h = F.gelu(F.layer_norm(y, (256,), s2, o2, 1e-5) @ self.w1 + c1, approximate="tanh")
        y = y + (h @ self.w2 + c2)
        return (y * y).mean()


class Elementwise:
    units = 1

    def __init__(self, n):
        self.x = hashed(1, (n,), 2)

    def run(self):
        x = self.x
        return torch.tanh(.75 * x + .25) * torch.exp(-(x * x))

    def check(self):
        return strided(self.run())


class Conv3x3:
    units = 1

    def __init__(self, gradients):
        last = dict(memory_format=torch.channels_last)
        self.x = hashed(1, (8, 56, 56, 64)).permute(0, 3, 1, 2).contiguous(**last).requires_grad_(gradients)
        w = hashed(2, (3, 3, 64, 64), .1).permute(3, 2, 0, 1)
        self.w = w.contiguous(**last).requires_grad_(gradients)
        self.gradients = gradients

    def run(self):
        y = F.conv2d(self.x, self.w, padding=1)
        return torch.autograd.grad((y * y).sum(), (self.x, self.w)) if self.gradients else (y,)

    def check(self):
        orders = ((0, 2, 3, 1), (2, 3, 1, 0))
        return digest(*(t.permute(order).contiguous() for t, order in zip(self.run(), orders)))


class Gemm:
    units = 1

    def __init__(self, n):
        self.a, self.b = hashed(1, (n, n)), hashed(2, (n, n))
        self.out = torch.empty(n, n)

    def run(self):
        return torch.mm(self.a, self.b, out=self.out)

    def check(self):
        return digest(self.run())


WORKLOADS = {"add_2x2": Add, "add_chain_2x2": AddChain, "tape_add_2x2": TapeAdd, "tape100_2x2": Tape100,
             "tape100_scalar": lambda: Tape100(scalar=True), "scan": Scan, "rnn_fb": Rnn, "transformer": Transformer,
             "epoch": Epoch, "conv3x3_fwd": lambda: Conv3x3(False), "conv3x3_fb": lambda: Conv3x3(True)}
WORKLOADS |= {f"l2hmc_{n}": (lambda n=n: L2hmc(n)) for n in (10, 200)}
WORKLOADS |= {f"resnet56_b{b}": (lambda b=b: ResNet56(b)) for b in (32, 128)}
WORKLOADS |= {f"ew_{name}": (lambda n=n: Elementwise(n)) for name, n in
              (("1e3", 1000), ("1e6", 1000000), ("3e7", 30000000))}
WORKLOADS |= {f"matmul_many_{n}x{n}": (lambda n=n: MatmulMany(n)) for n in (2, 16)}
WORKLOADS |= {f"mlp_b{b}": (lambda b=b: Mlp(b)) for b in (32, 128)}
WORKLOADS |= {f"lenet_b{b}": (lambda b=b: Lenet(b)) for b in (64, 128)}
WORKLOADS |= {f"gemm_{n}": (lambda n=n: Gemm(n)) for n in (32, 64, 128, 256, 512, 1024)}

WORKLOADS |= sequences.WORKLOADS | layers.WORKLOADS | numerics.WORKLOADS | files.WORKLOADS

# Not there: what asks for a tape in the middle of a call, and `scan`, whose 10,000 steps a trace would unroll.
COMPILED = ("matmul_many_", "l2hmc_", "rnn_fb", "mlp_", "lenet_", "resnet56_b32", "transformer", "ew_")


def compiled(make):
    """The same workload with its call compiled, or the loss of a training step, forward and backward."""
    def build():
        it = make()
        part = "loss" if isinstance(it, Training) else "run"
        setattr(it, part, torch.compile(getattr(it, part)))
        return it
    return build


STAGED = {name: compiled(make) for name, make in WORKLOADS.items() if name.startswith(COMPILED)}

if __name__ == "__main__":
    serve("pytorch", torch.__version__, {"eager": WORKLOADS, "staged": STAGED})
