# SPDX-License-Identifier: Apache-2.0
"""The data of values.py as tensors of PyTorch."""
import torch
import values


def hashed(seed, shape, scale=1.0):
    return torch.from_numpy(values.hashed(seed, shape, scale))


def glorot(seed, shape):
    return torch.from_numpy(values.glorot(seed, shape))


def labels(n):
    return torch.from_numpy(values.labels(n))


def image(x):
    """A tensor [n, h, w, c] in the order that PyTorch counts axes in, and the memory as it was."""
    return x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
