# SPDX-License-Identifier: Apache-2.0
"""LeNet on Fashion-MNIST: ``python -m etude.examples.lenet [EPOCHS]``."""

import sys

import etude as et
from etude import nn

train, test = et.data.fashion_mnist()
model = nn.Sequential(
    nn.Conv2D(5, 1, 6, padding="same", activation=nn.relu), nn.AvgPool2D(2),
    nn.Conv2D(5, 6, 16, activation=nn.relu), nn.AvgPool2D(2), nn.Flatten(),
    nn.Dense(400, 120, activation=nn.relu), nn.Dense(120, 84, activation=nn.relu), nn.Dense(84, 10),
)  # fmt: skip
data = et.data.Loader(*train, batch=128, seed=1)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
nn.fit(
    model,
    et.optim.Adam(lr=1e-3),
    data,
    nn.softmax_cross_entropy,
    epochs=epochs,
    callbacks=[nn.progress()],
)
print(f"accuracy {nn.evaluate(model, *test, nn.softmax_cross_entropy)['accuracy']:.3f}")
