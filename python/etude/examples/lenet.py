# SPDX-License-Identifier: Apache-2.0
"""LeNet on Fashion-MNIST: ``python -m etude.examples.lenet [EPOCHS]``."""

import sys

import etude as et
from etude import nn

train, test = et.data.fashion_mnist()
et.set_seed(1)
model = nn.Sequential(
    nn.Conv2D(5, 1, 6, padding="same", activation=nn.relu), nn.MaxPool2D(2),
    nn.Conv2D(5, 6, 16, activation=nn.relu), nn.MaxPool2D(2), nn.Flatten(),
    nn.Dense(400, 120, activation=nn.relu), nn.Dense(120, 84, activation=nn.relu), nn.Dense(84, 10),
)  # fmt: skip
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
data = et.data.Loader(*train, batch=128, seed=1)
optimizer = et.optim.AdamW(lr=et.optim.cosine(3e-3, epochs * len(data)))
nn.fit(
    model, optimizer, data, nn.softmax_cross_entropy,
    epochs=epochs, mode="staged", callbacks=[nn.progress()],
)  # fmt: skip
print(f"accuracy {nn.evaluate(model, *test, nn.softmax_cross_entropy)['accuracy']:.3f}")
