# SPDX-License-Identifier: Apache-2.0
"""Programs as users write them. Type checkers accept each line; test_types.py also runs the file."""
import dataclasses
import tempfile
from typing import NamedTuple

import etude as et
from etude import nn, optim

x = et.asarray([[1.0, 2.0], [3.0, 4.0]])
y: et.Tensor = x @ x.T + 1 - 2.0 * x / x
z: et.Tensor = 1 + x
shape: tuple[int, ...] = x.shape
dtype: et.DType = et.float32
device: et.Device = x.device
size: int = x.size
number: float = float(x[0, 0])
index: int = int(et.asarray(3))
mask: et.Tensor = (x > 1) & ~(x == 2.0)
rows: et.Tensor = x[:, 1:]
rows = x[mask]
rows = x[..., None]
x[0] = 9.0
x[1:, 0] = et.zeros((1,))
for row in x:
    row.sum()
total = et.sum(x, axis=0, keepdims=True)
total = et.mean(x, axis=(0, 1))
total = x.sum(axis=-1).astype(et.float64).to("cpu:0")
parts: tuple[et.Tensor, ...] = et.split(x, 2, axis=1)
best = et.top_k(x, 1)
positions: et.Tensor = best.indices
values, where = et.top_k(x, 1)
both: et.Tensor = et.concat([x, y], axis=0)
made = [et.zeros((2, 3)), et.ones(3, dtype=et.int32), et.arange(5), et.full((2,), 1.5), et.eye(3, k=1)]
made.append(et.random.normal((2, 2)))
made.append(et.linalg.inv(et.eye(2)))
made.append(et.fft.fft(et.ones(4)))
made.append(et.where(x > 1, x, 0.0))
made.append(et.einsum("ij,kj->ik", x, y))
made.append(nn.relu(x))


class Pair(NamedTuple):
    w: et.Tensor
    b: et.Tensor


def loss(p: Pair, inputs: et.Tensor) -> et.Tensor:
    return et.mean((inputs @ p.w + p.b) ** 2)


pair = Pair(et.ones((2, 1)), et.zeros(1))
slopes = et.gradient(loss, argnums=0)(pair, x)
slopes = et.gradient(loss, pair, x, argnums=0)
value, slopes = et.value_and_gradient(loss, argnums=0)(pair, x)
primal, tangent = et.jvp(lambda a: a * a, x, et.ones_like(x))
value, pull = et.value_with_pullback(loss, pair, x)
mapped: et.Tensor = et.vmap(lambda a: et.sum(a * a))(x)
curved = et.hessian(lambda a: et.sum(a**3))(x)
with et.GradientTape(persistent=True) as tape:
    tape.watch(x)
    square = x * x
slope = tape.gradient(square, x)


@et.function
def step(p: Pair, inputs: et.Tensor) -> et.Tensor:
    return loss(p, inputs)


@et.function(donate="total_")
def add(total_: et.Tensor, more: et.Tensor) -> None:
    total_[:] = total_ + more


result: et.Tensor = step(pair, x)
add(et.zeros(2), et.ones(2))
count: int = step.trace_count()
text: str = step.explain()
chosen: et.Tensor = et.cond(et.sum(x) > 0, lambda: x, lambda: -x)
last, sums = et.scan(lambda s, a: (s + a, s + a), 0, et.asarray([1, 2, 3]))
counter = et.while_loop(lambda i: i < 3, lambda i: i + 1, 0)

variable = et.Variable([1.0, 2.0], name="w")
variable.assign_add(1)
doubled: et.Tensor = variable * 2 + variable.read()


@dataclasses.dataclass
class Line:
    w: et.Tensor
    b: et.Tensor

    def __call__(self, inputs: et.Tensor) -> et.Tensor:
        return inputs * self.w + self.b


class Net(et.Module):
    def __init__(self) -> None:
        self.hidden = nn.Dense(1, 8, activation=nn.tanh)
        self.output = nn.Dense(8, 1)

    def __call__(self, inputs: et.Tensor) -> et.Tensor:
        return self.output(self.hidden(inputs))


inputs, labels = et.ones((6, 1)), et.zeros((6, 1))
model = nn.Sequential(nn.Dense(1, 4), nn.Dropout(0.1), nn.Dense(4, 1))
data = et.data.Loader(inputs, labels, batch=3, seed=1)
optimizer = optim.AdamW(lr=optim.cosine(1e-3, 100), weight_decay=0.1)
stop = nn.early_stopping(patience=3)
history = nn.fit(model, optimizer, data, nn.mean_squared_error, validation=(inputs, labels), callbacks=[stop])
losses: list[float] = history.batch_losses
report: dict[str, float] = nn.evaluate(model, inputs, labels, nn.mean_squared_error)
outputs: et.Tensor = nn.predict(model, inputs)
summary: str = nn.summary(Net())
error: et.Tensor = nn.mean_squared_error(outputs, labels, reduction="sum")
with et.SeedScope(1), et.device("cpu:0"):
    draw: et.Tensor = et.random.uniform((2,))
try:
    et.matmul(x, et.ones(3))
except et.InvalidArgumentError as failure:
    code: str = failure.code
    line: int | None = failure.line
et.set_thread_count(1)
et.set_lazy_options(roll=True, max_nodes=100)
live: int = et.memory_stats().live_bytes
tanh: et.Tensor = nn.tanh(inputs)
et.set_thread_count(0)
with tempfile.TemporaryDirectory() as folder:
    predict = et.function(lambda net, a: net(a))
    predict(model, inputs)
    et.saved.save(folder, {"predict": et.saved.bind(predict, model)}, signatures=["predict"])
    program: et.saved.Program = et.saved.load(folder, max_loop_steps=10)
    loaded: et.saved.Function = program.function("predict")
    scores: et.Tensor = loaded(inputs)
    weight: et.Variable = program.variable("net/layers/0/weight")
    graphs: list[str] = [str(signature) for signature in loaded.signatures()]
    et.onnx.save(f"{folder}/predict.onnx", loaded, opset=21, open_sizes=False)
    et.onnx.save(f"{folder}/net.onnx", {"predict": et.saved.bind(predict, model)}, name="predict")
    imported: et.saved.Program = et.onnx.load(f"{folder}/net.onnx", function="net", sizes={}, trainable=False)
    et.stablehlo.save(f"{folder}/net.mlir", loaded, sizes={}, weights_as_arguments=True)
    et.onnx.load(f"{folder}/net.onnx", shapes={"a": (None, None)}, max_loop_steps=10)
    et.onnx.load(f"{folder}/net.onnx", constants={"a": inputs}).functions()
    imported.function("net").trainable_variables()
    et.saved.update(optim.SGD(lr=0.1), [weight], [et.zeros_like(weight.read())])
