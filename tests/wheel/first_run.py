# SPDX-License-Identifier: Apache-2.0
"""The program of a new user: first_run.py CHECKPOINT MODEL. Ctrl-C saves the run; the next start resumes it."""
import os
import sys

import etude as et
from etude import nn

checkpoint, file = sys.argv[1:]
(inputs, labels), _ = et.data.fashion_mnist()
et.set_seed(7)
model = nn.Sequential(
    nn.Conv2D(5, 1, 6, padding="same", activation=nn.relu), nn.AvgPool2D(2),
    nn.Conv2D(5, 6, 16, activation=nn.relu), nn.AvgPool2D(2), nn.Flatten(),
    nn.Dense(400, 120, activation=nn.relu), nn.Dense(120, 84, activation=nn.relu), nn.Dense(84, 10),
)  # fmt: skip
data = et.data.Loader(inputs[:2000], labels[:2000], batch=100, seed=1)
optimizer = et.optim.Adam(lr=1e-3)
if os.path.exists(checkpoint):
    et.io.load_checkpoint(checkpoint, model, optimizer, data)


def count(event, state):
    if event == "batch_end":
        print("batch", state["epoch"], state["step"], flush=True)


try:
    nn.fit(model, optimizer, data, nn.softmax_cross_entropy, epochs=2, callbacks=[count])
except KeyboardInterrupt:
    et.io.save_checkpoint(checkpoint, model, optimizer, data)
    print("saved at", data.position, flush=True)
    sys.exit(130)
et.io.save(model, file)
