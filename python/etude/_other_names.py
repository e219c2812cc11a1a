# SPDX-License-Identifier: Apache-2.0
"""Names that programs of PyTorch, JAX, TensorFlow and NumPy use, and the forms of this package. An error for a missing
name shows them."""

from __future__ import annotations

from typing import Any

ROOT = {
    "Array": "et.Tensor",
    "absolute": "et.abs",
    "amax": "et.max(x, axis=axis)",
    "amin": "et.min(x, axis=axis)",
    "arccos": "et.acos",
    "arcsin": "et.asin",
    "arctan": "et.atan",
    "arctan2": "et.atan2",
    "array": "et.asarray(values)",
    "autodiff": "et.gradient(f)",
    "autograd": "et.gradient(f)",
    "bmm": "et.matmul(x, y)",
    "cast": "et.astype(x, dtype)",
    "cat": "et.concat(arrays, axis=0)",
    "clamp": "et.clip(x, low, high)",
    "clip_by_value": "et.clip(x, low, high)",
    "compile": "et.function(f)",
    "concatenate": "et.concat(arrays, axis=0)",
    "conjugate": "et.conj",
    "constant": "et.asarray(values)",
    "convert_to_tensor": "et.asarray(values)",
    "cumprod": "et.cumulative_prod(x, axis=axis)",
    "cumsum": "et.cumulative_sum(x, axis=axis)",
    "custom_vjp": "et.custom_gradient(f)",
    "detach": "et.stop_gradient(x)",
    "double": "et.float64",
    "enable_grad": "et.gradient(f) or et.GradientTape()",
    "eq": "et.equal(x, y)",
    "float": "et.float32",
    "fmod": "et.remainder(x, y)",
    "from_numpy": "et.asarray(array)",
    "fromiter": "et.asarray(list(values))",
    "gather": "et.take_along_axis(x, indices, axis=axis)",
    "grad": "et.gradient(f)",
    "half": "et.float16",
    "hstack": "et.concat(arrays, axis=1)",
    "identity": "et.eye(n)",
    "inference_mode": "et.PhaseScope(\"inference\"); derivatives are recorded only for operators such as et.gradient",
    "int": "et.int32",
    "invert": "et.bitwise_invert",
    "jacfwd": "et.jacobian(f)",
    "jacrev": "et.jacobian(f)",
    "jit": "et.function(f)",
    "load": "et.io.load(model, path)",
    "long": "et.int64",
    "manual_seed": "et.set_seed(seed)",
    "mm": "et.matmul(x, y)",
    "mul": "et.multiply(x, y)",
    "neg": "et.negative(x)",
    "no_grad": "et.stop_gradient(x) inside of a derivative; outside of derivatives nothing is recorded",
    "numel": "x.size",
    "ndarray": "et.Tensor",
    "permute": "et.permute_dims(x, axes)",
    "power": "et.pow(x, y)",
    "quantile": "et.sort(x) and an index",
    "rand": "et.random.uniform(shape)",
    "randint": "et.random.randint(shape, low, high)",
    "randn": "et.random.normal(shape)",
    "randperm": "et.random.permutation(n)",
    "range": "et.arange(n)",
    "ravel": "et.flatten(x)",
    "reduce_max": "et.max(x, axis=axis)",
    "reduce_mean": "et.mean(x, axis=axis)",
    "reduce_min": "et.min(x, axis=axis)",
    "reduce_sum": "et.sum(x, axis=axis)",
    "relu": "et.nn.relu(x)",
    "remat": "et.recompute_grad(f)",
    "save": "et.io.save(model, path)",
    "sigmoid": "et.nn.sigmoid(x)",
    "softmax": "et.nn.softmax(x)",
    "sub": "et.subtract(x, y)",
    "topk": "et.top_k(x, k)",
    "transpose": "et.permute_dims(x, axes), or x.T",
    "tree_map": "et.tree.map(f, x)",
    "true_divide": "et.divide(x, y)",
    "unbind": "et.unstack(x, axis=axis)",
    "unique": "et.unique_values(x)",
    "unsqueeze": "et.expand_dims(x, axis=axis)",
    "value_and_grad": "et.value_and_gradient(f)",
    "view": "et.reshape(x, shape)",
    "vstack": "et.concat(arrays, axis=0)",
}

NN = {
    "AvgPool2d": "et.nn.AvgPool2D(size)",
    "BCEWithLogitsLoss": "et.nn.sigmoid_cross_entropy(predicted, expected)",
    "BatchNorm1d": "et.nn.BatchNorm(features)",
    "BatchNorm2d": "et.nn.BatchNorm(features)",
    "BatchNormalization": "et.nn.BatchNorm(features)",
    "Conv": "et.nn.Conv2D(size, inputs, outputs)",
    "Conv1d": "et.nn.Conv1D(size, inputs, outputs)",
    "Conv2d": "et.nn.Conv2D(size, inputs, outputs)",
    "CrossEntropyLoss": "et.nn.softmax_cross_entropy(predicted, expected)",
    "Embed": "et.nn.Embedding(count, features)",
    "GELU": "et.nn.gelu",
    "L1Loss": "et.nn.mean_absolute_error(predicted, expected)",
    "LayerNormalization": "et.nn.LayerNorm(features)",
    "Linear": "et.nn.Dense(inputs, outputs)",
    "MSELoss": "et.nn.mean_squared_error(predicted, expected)",
    "MaxPool2d": "et.nn.MaxPool2D(size)",
    "ModuleList": "a list of layers as an attribute of an et.Module",
    "MultiheadAttention": "et.nn.MultiHeadAttention(features, heads)",
    "Parameter": "a tensor as an attribute of an et.Module, self.w = et.zeros(shape)",
    "ReLU": "et.nn.relu",
    "Sigmoid": "et.nn.sigmoid",
    "Softmax": "et.nn.softmax",
    "Tanh": "et.nn.tanh",
    "binary_cross_entropy_with_logits": "et.nn.sigmoid_cross_entropy(predicted, expected)",
    "cross_entropy": "et.nn.softmax_cross_entropy(predicted, expected)",
    "functional": "et.nn, which has the functions as well: et.nn.relu(x)",
    "init": "et.nn.glorot_uniform() and the like, as an option: et.nn.Dense(2, 3, weight_init=et.nn.zeros())",
    "mse_loss": "et.nn.mean_squared_error(predicted, expected)",
    "one_hot": "et.one_hot(labels, count)",
}

OPTIM = {
    "adam": "et.optim.Adam(lr=0.001)",
    "adamw": "et.optim.AdamW(lr=0.001)",
    "apply_updates": "optimizer.update(model, gradients)",
    "lr_scheduler": "a schedule as the rate, et.optim.Adam(lr=et.optim.cosine(0.001, 1000))",
    "sgd": "et.optim.SGD(lr=0.1)",
}

TENSOR = {
    "add_": "x += y",
    "argwhere": "et.nonzero(x)",
    "assign": "x[...] = value",
    "at": "x[i] = value or x[i] += value, which changes the variable x",
    "backward": "et.gradient(f)(x) of a function f, or et.value_and_gradient(loss)(model)",
    "bfloat16": "x.astype(et.bfloat16)",
    "block_until_ready": "x.tolist(): a read of the elements waits for them",
    "bool": "x.astype(et.bool)",
    "byte": "x.astype(et.uint8)",
    "chunk": "et.split(x, sections)",
    "clamp": "x.clip(low, high)",
    "clone": "x.copy()",
    "contiguous": "x itself: the elements of a tensor are in row-major order",
    "cpu": "x.to(\"cpu:0\")",
    "cuda": "x.to(device); et.list_devices() names the devices",
    "cumprod": "x.cumulative_prod(axis=axis)",
    "cumsum": "x.cumulative_sum(axis=axis)",
    "data": "x itself: gradients are values, not fields of a tensor",
    "detach": "et.stop_gradient(x)",
    "dim": "x.ndim",
    "double": "x.astype(et.float64)",
    "element_size": "x.nbytes // x.size",
    "eval": "x.item() or x.tolist()",
    "expand": "x.broadcast_to(shape)",
    "fill": "et.full_like(x, value)",
    "fill_": "x[...] = value",
    "float": "x.astype(et.float32)",
    "gather": "x.take_along_axis(indices, axis=axis)",
    "get_shape": "x.shape",
    "grad": "et.gradient(f)(x): gradients are values, not fields of a tensor",
    "half": "x.astype(et.float16)",
    "index_select": "x.take(indices, axis=axis)",
    "int": "x.astype(et.int32)",
    "long": "x.astype(et.int64)",
    "masked_fill": "et.where(mask, value, x)",
    "mm": "x @ y",
    "numel": "x.size",
    "permute": "x.permute_dims(axes)",
    "ravel": "x.flatten()",
    "repeat_interleave": "x.repeat(repeats, axis=axis)",
    "requires_grad": "et.gradient(f)(x), which differentiates by its arguments",
    "requires_grad_": "et.gradient(f)(x), which differentiates by its arguments",
    "retain_grad": "et.GradientTape(persistent=True), which has gradients of values in between",
    "set": "x[i] = value",
    "set_shape": "x.reshape(shape)",
    "to_numpy": "x.numpy()",
    "topk": "x.top_k(k)",
    "transpose": "x.permute_dims(axes), x.swapaxes(i, j) or x.T",
    "type": "x.astype(dtype)",
    "unbind": "x.unstack(axis=axis)",
    "unsqueeze": "x.expand_dims(axis=axis)",
    "view": "x.reshape(shape)",
    "zero_": "x[...] = 0",
}

MODEL = {
    "add_module": "an attribute: model.name = layer",
    "apply": "et.tree.map(f, model)",
    "build": "a call, model(x): layers have their parameters when they are made",
    "children": "et.tree.leaves(model) for tensors, or the attributes of the model",
    "compile": "et.nn.fit(model, optimizer, data, loss), which takes optimizer, loss and metrics",
    "count_params": "et.nn.summary(model)",
    "cuda": "et.tree.map(lambda leaf: leaf.to(device), model)",
    "eval": "the call itself: outside of et.PhaseScope(\"training\") a model is in the inference phase",
    "evaluate": "et.nn.evaluate(model, inputs, labels, loss)",
    "fit": "et.nn.fit(model, optimizer, data, loss)",
    "forward": "model(x), and define __call__(self, x) in a class",
    "get_weights": "et.tree.leaves(model)",
    "init": "model(x): a model has its parameters when it is made",
    "load_state_dict": "et.io.load(model, path)",
    "load_weights": "et.io.load(model, path)",
    "named_parameters": "zip(et.tree.paths(model), et.tree.leaves(model))",
    "parameters": "et.tree.leaves(model); operators such as et.gradient and optimizer.update take the model itself",
    "predict": "et.nn.predict(model, inputs)",
    "register_buffer": "an attribute: model.name = et.no_derivative(x)",
    "requires_grad_": "et.no_derivative(model) as an argument of et.gradient",
    "save": "et.io.save(model, path)",
    "save_weights": "et.io.save(model, path)",
    "state_dict": "et.io.save(model, path), or dict(zip(et.tree.paths(model), et.tree.leaves(model)))",
    "summary": "et.nn.summary(model)",
    "train": "a block: with et.PhaseScope(\"training\"); et.nn.fit opens it",
    "trainable_variables": "et.tree.leaves(model); operators such as et.gradient take the model itself",
    "trainable_weights": "et.tree.leaves(model); operators such as et.gradient take the model itself",
    "weights": "et.tree.leaves(model)",
    "zero_grad": "nothing: gradients are values, which et.gradient(loss)(model) returns anew",
}

OPTIMIZER = {
    "apply": "optimizer.update(model, gradients)",
    "apply_gradients": "optimizer.update(model, gradients)",
    "init": "optimizer.update(model, gradients), which makes the state when it is first called",
    "learning_rate": "optimizer.rate",
    "load_state_dict": "optimizer.restore(state)",
    "lr": "optimizer.rate",
    "minimize": "optimizer.update(model, et.gradient(loss)(model))",
    "param_groups": "optimizer.group(pattern, lr=0.01)",
    "state_dict": "optimizer.state()",
    "step": "optimizer.update(model, gradients)",
    "zero_grad": "nothing: gradients are values, which et.gradient(loss)(model) returns anew",
}


class Elsewhere:
    """In a class of the package: an attribute that other libraries have. It is not there, and the error shows the form
    of this package."""

    __slots__ = ("name", "form")

    def __init__(self, name: str, form: str) -> None:
        self.name, self.form = name, form

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"'{owner.__name__}' has no attribute '{self.name}'. Use {self.form}")


def elsewhere(forms: dict[str, str], cls: type) -> dict[str, Any]:
    """The members of a class for these names, without those that the class has, and a __dir__ that hides them."""
    members: dict[str, Any] = {name: Elsewhere(name, form) for name, form in forms.items() if not hasattr(cls, name)}
    hidden, former = frozenset(members), cls.__dir__

    def __dir__(self: Any) -> list[str]:
        return [name for name in former(self) if name not in hidden or name in getattr(self, "__dict__", ())]

    return {**members, "__dir__": __dir__}


def hint(name: str) -> str:
    """The next step for a part that a layer does not have; empty for names that no other library has."""
    return f". Use {MODEL[name]}" if name in MODEL else ""


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that a module of the package lacks, with the form of this package if other libraries have
    such a name."""
    import sys

    forms = {"etude": ROOT, "etude.nn": NN, "etude.optim": OPTIM}.get(module, {})
    text = f"module '{module}' has no attribute '{name}'"
    if name in forms:
        text += f". Use {forms[name]}"
    return AttributeError(text, name=name, obj=sys.modules.get(module))
