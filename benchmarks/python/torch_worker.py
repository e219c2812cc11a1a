# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of Python in PyTorch; of functions also under torch.compile."""
import torch
import statements
from statements import Call

from serve import serve

torch.set_num_threads(statements.THREADS)
torch.set_flush_denormal(True)


def tape_100():
    x, b, c = (torch.from_numpy(a).requires_grad_() for a in statements.tape_data())

    def run():
        y = x
        for _ in range(50):
            y = y + b
            y = y * c
        return torch.autograd.grad(y.sum(), (x, b, c))
    return Call(run)


def matmul_many(n, compiled=False):
    f = torch.compile(statements.chain) if compiled else statements.chain
    return Call(f, *(torch.from_numpy(a) for a in statements.matmul_data(n)))


ROWS = statements.statements(torch.from_numpy, torch.tensor) | {"tape_100": tape_100}
ROWS |= {f"matmul_many_{n}x{n}": (lambda n=n: matmul_many(n)) for n in (2, 16)}
COMPILED = {f"matmul_many_{n}x{n}_function": (lambda n=n: matmul_many(n, True)) for n in (2, 16)}
serve("torch", torch.__version__, {"python": ROWS, "compile": COMPILED})
