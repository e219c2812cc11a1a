# SPDX-License-Identifier: Apache-2.0
"""A convolutional network in both forms, as a list of layers and as a class:
``python -m etude.examples.cnn [list|class] [EPOCHS]``."""

import sys

import etude as et
from etude import nn


def as_list() -> nn.Sequential:
    pool = nn.MaxPool2D(2, padding="same")
    return nn.Sequential(
        nn.Conv2D(5, 1, 32, padding="same", activation=nn.relu),
        pool,
        nn.Conv2D(5, 32, 64, padding="same", activation=nn.relu),
        pool,
        nn.Flatten(),
        nn.Dense(7 * 7 * 64, 1024, activation=nn.relu),
        nn.Dropout(0.3),
        nn.Dense(1024, 10),
    )


class ConvNet(et.Module):
    def __init__(self):
        self.conv1 = nn.Conv2D(5, 1, 32, padding="same", activation=nn.relu)
        self.conv2 = nn.Conv2D(5, 32, 64, padding="same", activation=nn.relu)
        self.pool = nn.MaxPool2D(2, padding="same")
        self.flatten = nn.Flatten()
        self.d1 = nn.Dense(7 * 7 * 64, 1024, activation=nn.relu)
        self.dropout = nn.Dropout(0.3)
        self.d2 = nn.Dense(1024, 10)

    def __call__(self, x):
        x = self.pool(self.conv1(x))
        x = self.pool(self.conv2(x))
        return self.d2(self.dropout(self.d1(self.flatten(x))))


def main(form: str = "class", epochs: int = 1, images: int = 60000) -> float:
    et.set_seed(1)
    (x, y), (test_x, test_y) = et.data.fashion_mnist()
    model = ConvNet() if form == "class" else as_list()
    data = et.data.Loader(x[:images], y[:images], batch=128, seed=1)
    nn.fit(
        model,
        et.optim.Adam(),
        data,
        nn.softmax_cross_entropy,
        epochs=epochs,
        mode="staged",
        callbacks=[nn.progress()],
    )
    result = nn.evaluate(model, test_x, test_y, nn.softmax_cross_entropy)
    print(f"accuracy {result['accuracy']:.3f}")
    return result["accuracy"]


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
