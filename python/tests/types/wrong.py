# SPDX-License-Identifier: Apache-2.0
"""Mistakes. Type checkers refuse each line that ends with `# wrong`, and no other."""
import etude as et
from etude import nn, optim

x = et.ones((2, 2))
et.matmull(x, x)  # wrong
et.matmul(x)  # wrong
et.matmul(x, x, x)  # wrong
et.matmul(x, y=x)  # wrong
et.matmul(x, x, transpose=True)  # wrong
et.matmul(x, None)  # wrong
et.sum(x, axis="rows")  # wrong
et.sum(x, 0)  # wrong
et.sum(x, axis=0, keepdim=True)  # wrong
et.zeros()  # wrong
et.zeros("2")  # wrong
et.zeros((2, 2.5))  # wrong
et.ones((2,), dtype=3)  # wrong
et.reshape(x, 2.0)  # wrong
et.concat(x, 1)  # wrong
et.einsum(x, x)  # wrong
et.split(x)  # wrong
et.linalg.inv()  # wrong
et.linalg.inverse(x)  # wrong
et.fft.fft(x, axes=1)  # wrong
et.random.normal(shape=None)  # wrong
number: int = et.sum(x)  # wrong
text: str = x.shape  # wrong
size: str = x.size  # wrong
parts: et.Tensor = et.split(x, 2)  # wrong
indices: et.Tensor = et.top_k(x, 1)  # wrong
et.top_k(x, 1).places  # wrong
x.shape = (4,)  # wrong
x.reshaped((4,))  # wrong
x.astype()  # wrong
x.to(1.5)  # wrong
x + None  # wrong
x @ None  # wrong
x < None  # wrong
x[0] = None  # wrong
len(x) + "1"  # wrong
et.gradient()  # wrong
et.gradient(lambda a: a, argnum=0)  # wrong
et.gradient(lambda a: a, argnums="a")  # wrong
et.value_and_gradient(3)  # wrong
et.vmap(lambda a: a, axes=0)  # wrong
et.jvp(lambda a: a, x)  # wrong
et.GradientTape(persist=True)  # wrong
et.GradientTape().watched()  # wrong
et.while_loop(lambda i: i < 3, lambda i: i + 1)  # wrong
et.function(lambda a: a, shapes=True)  # wrong
et.function(lambda a: a).trace_counts()  # wrong
et.Variable([1.0], names="w")  # wrong
et.Variable([1.0]).assign()  # wrong
nn.Dense(2)  # wrong
nn.Dense(2, "3")  # wrong
nn.Dense(2, 3, activations=None)  # wrong
nn.Densely(2, 3)  # wrong
nn.relu()  # wrong
nn.mean_squared_error(x)  # wrong
nn.mean_squared_error(x, x, reductions="sum")  # wrong
optim.Adam(learning_rate=1e-3)  # wrong
optim.Adam(beta1="0.9")  # wrong
nn.fit(nn.Dense(2, 2), optim.SGD(), (x, x))  # wrong
nn.fit(nn.Dense(2, 2), "sgd", (x, x), nn.mean_squared_error)  # wrong
nn.fit(nn.Dense(2, 2), optim.SGD(), (x, x), nn.mean_squared_error, epoch=1)  # wrong
et.data.Loader(x, x, batch="3")  # wrong
et.io.save(x)  # wrong
et.Device(3)  # wrong
et.SeedScope("seed")  # wrong
et.InvalidArgumentError.text  # wrong
et.saved.save("folder")  # wrong
et.saved.save("folder", {"f": 1}, signature=["f"])  # wrong
et.saved.load(3)  # wrong
et.saved.load("folder", 10)  # wrong
et.saved.load("folder").function(1)  # wrong
et.saved.load("folder").variable("v").shapes  # wrong
et.saved.update(0.1, [], [])  # wrong
et.onnx.save("f.onnx")  # wrong
et.onnx.save("f.onnx", 1, opset="17")  # wrong
et.onnx.save("f.onnx", 1, version=17)  # wrong
et.stablehlo.save("f.mlir")  # wrong
et.stablehlo.save("f.mlir", 1, sizes=["n"])  # wrong
et.stablehlo.save("f.mlir", 1, opset=17)  # wrong
et.onnx.load(3)  # wrong
et.onnx.load("f.onnx", "predict")  # wrong
et.onnx.load("f.onnx", sizes=[8])  # wrong
et.onnx.load("f.onnx", sizes={"n": None})  # wrong
et.onnx.load("f.onnx", shapes={"x": 3})  # wrong
et.onnx.load("f.onnx", constants={"x": None})  # wrong
et.onnx.load("f.onnx").run  # wrong
et.set_thread_count("2")  # wrong
et.set_lazy_options(rolls=True)  # wrong
et.memory_stats().bytes  # wrong
