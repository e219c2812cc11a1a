# SPDX-License-Identifier: Apache-2.0
"""A small GPT that learns a text by its letters and continues it: ``python -m etude.examples.gpt
[STEPS]``."""

import sys

import etude as et
from etude import nn

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 8
LETTERS = sorted(set(TEXT))
BLOCK, DIM = 32, 64


class Block(et.Module):
    def __init__(self):
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention = nn.MultiHeadAttention(DIM, 4, causal=True)
        self.up, self.down = nn.Dense(DIM, 4 * DIM, activation=nn.gelu), nn.Dense(4 * DIM, DIM)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.up(self.norm2(x)))


class GPT(et.Module):
    def __init__(self, layers=2):
        self.tokens, self.places = nn.Embedding(len(LETTERS), DIM), nn.Embedding(BLOCK, DIM)
        self.blocks = [Block() for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(DIM), nn.Dense(DIM, len(LETTERS))

    def __call__(self, ids):  # [n, steps] -> [n, steps, letters]
        x = self.tokens(ids) + self.places(et.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@et.function(donate=("model", "optimizer"))
def step(model, optimizer, ids):
    def loss(m):
        logits = m(ids[:, :-1])
        flat = et.reshape(logits, (-1, logits.shape[-1]))
        return nn.softmax_cross_entropy(flat, et.reshape(ids[:, 1:], (-1,)))

    with et.PhaseScope("training"):
        value, slopes = et.value_and_gradient(loss)(model)
    optimizer.update(model, slopes)
    return value


def continued(model, text, count):
    """The text with `count` more letters, each the most likely one."""
    for _ in range(count):
        ids = et.asarray([[LETTERS.index(c) for c in text[-BLOCK:]]])
        text += LETTERS[int(et.argmax(model(ids)[0, -1]))]
    return text


def main(steps: int = 300) -> tuple[float, str]:
    et.set_seed(1)
    ids = et.asarray([LETTERS.index(c) for c in TEXT], dtype=et.int32)
    model, optimizer = GPT(), et.optim.AdamW(lr=3e-3)
    for i in range(steps):
        starts = et.random.randint((16, 1), 0, len(TEXT) - BLOCK - 1)
        value = step(model, optimizer, et.take(ids, starts + et.arange(BLOCK + 1)))
        if i % 50 == 0:
            print(f"step {i:4d}  loss {float(value):.3f}")
    text = continued(model, "the quick ", 40)
    print(f"loss {float(value):.3f}\n{text}")
    return float(value), text


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
