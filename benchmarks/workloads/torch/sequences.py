# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, attention, a large table, and a model of many small parameters, in PyTorch."""
import torch
import torch.nn.functional as F
from data import glorot, hashed
from values import digest


def gates(weight, order):
    """Blocks of the last axis in another order, as PyTorch keeps them: outputs first."""
    blocks = weight.chunk(len(order), -1)
    return torch.cat([blocks[i] for i in order], -1).t().contiguous()


class Recurrent:
    """Training steps of one layer: T 50, batch 32, 128 numbers; plain SGD."""
    units, rate = 1, 4e-3

    def __init__(self, kind, weight, recurrent, order):
        self.layer = kind(128, 128, batch_first=True)
        with torch.no_grad():
            self.layer.weight_ih_l0.copy_(gates(weight, order))
            self.layer.weight_hh_l0.copy_(gates(recurrent, order))
            self.layer.bias_ih_l0.zero_()
            self.layer.bias_hh_l0.zero_()
        self.parameters = list(self.layer.parameters())
        self.x = hashed(4, (32, 50, 128))

    def run(self):
        y, _ = self.layer(self.x)
        loss = (y * y).sum() / 32
        grads = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for p, g in zip(self.parameters, grads):
                p -= self.rate * g
        return loss

    def check(self):
        return [float(self.run()) for _ in range(3)]


def lstm():
    weight = glorot(1, (256, 512))
    it = Recurrent(torch.nn.LSTM, weight[:128], weight[128:], (0, 2, 1, 3))
    # One bias, as ours: the other one stays.
    it.layer.bias_hh_l0.requires_grad_(False)
    it.parameters = [p for p in it.parameters if p.requires_grad]
    return it


def gru():
    return Recurrent(torch.nn.GRU, glorot(1, (128, 384)), glorot(2, (128, 384)), (1, 0, 2))


class Attention:
    units = 1

    def __init__(self, steps):
        shape = (1, 8, steps, 64)
        self.qkv = [hashed(i + 1, shape, scale).requires_grad_() for i, scale in enumerate((2, 2, 1))]
        self.cotangent = hashed(9, shape)

    def run(self):
        return torch.autograd.grad(F.scaled_dot_product_attention(*self.qkv), self.qkv, self.cotangent)

    def check(self):
        return digest(*self.run())


class EmbeddingAdam:
    """Rows that were not read move by what Adam remembers of them, in both."""
    units = 1

    def __init__(self):
        self.table = hashed(1, (50000, 128), .05).requires_grad_()
        self.ids = torch.tensor([i * 48271 % 50000 for i in range(1024)])
        self.wanted, self.adam = hashed(2, (1024, 128)), torch.optim.Adam([self.table], lr=1e-2)

    def run(self):
        self.adam.zero_grad()
        loss = ((F.embedding(self.ids, self.table) - self.wanted) ** 2).mean()
        loss.backward()
        self.adam.step()
        return loss

    def check(self):
        return [float(self.run()) for _ in range(3)]


class ManyTensors:
    units = 1

    def __init__(self):
        self.parameters = [hashed(2 * i, (1000,)).requires_grad_() for i in range(500)]
        for i, p in enumerate(self.parameters):
            p.grad = hashed(2 * i + 1, (1000,))
        self.adam = torch.optim.Adam(self.parameters, lr=1e-3, foreach=True)

    def run(self):
        self.adam.step()

    def check(self):
        for _ in range(3):
            self.run()
        return digest(self.parameters[0].detach(), self.parameters[-1].detach())


WORKLOADS = {"lstm_fb": lstm, "gru_fb": gru, "attention_512": lambda: Attention(512),
             "attention_2048": lambda: Attention(2048), "embedding_adam": EmbeddingAdam, "adam_500": ManyTensors}
