# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms and factors of matrices in PyTorch."""
import torch
from data import hashed
from values import digest

MATRICES = {16: 256, 64: 32, 256: 4}


class Function:
    """A function of one tensor; the check sees what does not depend on the library."""
    units = 1

    def __init__(self, x, function, seen):
        self.x, self.function, self.seen = x, function, seen

    def run(self):
        return self.function(self.x)

    def check(self):
        return digest(*self.seen(self.run()))


def transform(shape, function):
    x = torch.complex(hashed(1, shape), hashed(2, shape))
    return Function(x, function, lambda y: (y.real, y.imag))


def general(n):
    return hashed(3, (MATRICES[n], n, n)) + 2 * torch.eye(n)


def positive(n):
    a = hashed(3, (MATRICES[n], n, n))
    return a @ a.mT / n + torch.eye(n)


def solve(n):
    b = hashed(4, (MATRICES[n], n, 8))
    return Function(positive(n), lambda x: torch.linalg.solve(x, b), lambda y: (y,))


FACTORS = {
    "cholesky": lambda n: Function(positive(n), torch.linalg.cholesky, lambda y: (y,)),
    "solve": solve,
    "qr": lambda n: Function(general(n), torch.linalg.qr, lambda y: (y.R.abs(),)),
    "svd": lambda n: Function(general(n), torch.linalg.svd, lambda y: (y.S,)),
    "eigh": lambda n: Function(positive(n), torch.linalg.eigh, lambda y: (y.eigenvalues,)),
}
WORKLOADS = {f"fft_2e{e}": (lambda e=e: transform((1 << e,), torch.fft.fft)) for e in (10, 15, 20)}
WORKLOADS |= {"fft2_512": lambda: transform((512, 512), torch.fft.fft2)}
WORKLOADS |= {f"{name}_{n}": (lambda make=make, n=n: make(n)) for n in MATRICES for name, make in FACTORS.items()}
