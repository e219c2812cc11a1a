# SPDX-License-Identifier: Apache-2.0
"""Modules of StableHLO from Python: what XLA computes, the options, and errors. tests/stablehlo tests each op."""
import os
import warnings

import numpy as np
import pytest

import etude as et


class Net(et.Module):
    def __init__(self):
        self.hidden = et.nn.Dense(4, 8, activation=et.nn.relu)
        self.out = et.nn.Dense(8, 3)

    def __call__(self, x):
        return self.out(self.hidden(x))

    @et.function
    def predict(self, x):
        return et.nn.softmax(self(x))


@pytest.fixture
def net():
    net = Net()
    net.predict.trace(et.TensorSpec((None, 4)))
    return net


def run(path, *inputs):
    """The results of XLA, by JAX."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax", reason="jax is missing; ./dev installs python/requirements.txt into build/python/venv")
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    device = jax.devices("cpu")[0]
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(path.read_text())
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        program = device.client.compile_and_load(mlir.module_to_bytecode(module), xla_client.DeviceList((device,)), options)
    results = program.execute_sharded([jax.device_put(x, device) for x in inputs])
    return [np.asarray(x[0]) for x in results.disassemble_into_single_device_arrays()]


def refused(call, kind):
    with pytest.raises(kind) as error:
        call()
    assert error.value.file in (__file__, None), str(error.value)
    assert "::" not in str(error.value), str(error.value)
    return str(error.value)


def test_xla_computes_our_results(tmp_path, net):
    x = et.random.normal((7, 4))
    et.stablehlo.save(tmp_path / "net.mlir", net.predict, sizes={"n": 7})
    (got,) = run(tmp_path / "net.mlir", np.asarray(x))
    np.testing.assert_allclose(got, np.asarray(net.predict(x)), rtol=1e-5, atol=1e-6)


def test_weights_as_arguments(tmp_path, net):
    x = et.random.normal((7, 4))
    file = tmp_path / "net.mlir"
    et.stablehlo.save(file, net.predict, sizes={"n": 7}, weights_as_arguments=True)
    text = file.read_text()
    names = ["x", "net/hidden/weight", "net/hidden/bias", "net/out/weight", "net/out/bias"]
    begins = [text.index(f'etude.name = "{name}"') for name in names]
    assert begins == sorted(begins)
    weights = [net.hidden.weight, net.hidden.bias, net.out.weight, net.out.bias]
    (got,) = run(file, *(np.asarray(each) for each in (x, *weights)))
    np.testing.assert_allclose(got, np.asarray(net.predict(x)), rtol=1e-5, atol=1e-6)
    assert "test_stablehlo.py" in text  # locations are lines of this program


def test_all_kinds_of_functions_are_one_module(tmp_path):
    net = Net()

    @et.function
    def apply(net, x):
        return net(x)

    apply(net, et.zeros((2, 4)))
    et.saved.save(tmp_path / "net", {"apply": et.saved.bind(apply, net)})
    program = et.saved.load(tmp_path / "net")
    kinds = {
        "bound": et.saved.bind(apply, net),
        "entries": {"apply": et.saved.bind(apply, net), "net": net},
        "loaded": program.function("apply"),
        "program": program,
    }
    for name, function in kinds.items():
        et.stablehlo.save(tmp_path / f"{name}.mlir", function)
    x = np.ones((2, 4), np.float32)
    want = run(tmp_path / "bound.mlir", x)[0]
    for name in kinds:
        np.testing.assert_array_equal(run(tmp_path / f"{name}.mlir", x)[0], want, err_msg=name)


def test_options(tmp_path):
    f = et.function(lambda x: x + 1.0, name="f")
    g = et.function(lambda x: x * 2.0, name="g")
    file = tmp_path / "f.mlir"
    f(et.ones((2, 3)))
    g(et.ones(4))
    et.stablehlo.save(file, {"f": f, "g": g}, name="g")
    assert "tensor<4xf32>" in file.read_text()
    et.stablehlo.save(file, f, graph=1)
    assert "tensor<2x3xf32>" in file.read_text()
    text = refused(lambda: et.stablehlo.save(file, {"f": f, "g": g}), et.InvalidArgumentError)
    assert "et.stablehlo.save: there are 2 functions: f, g. Name one by the option name" in text
    text = refused(lambda: et.stablehlo.save(file, {"f": f, "g": g}, name="h"), et.NotFoundError)
    assert "there is no function 'h'" in text
    text = refused(lambda: et.stablehlo.save(file, f, graph=2), et.InvalidArgumentError)
    assert "graph is 2, but function 'f' has 1 graph" in text
    text = refused(lambda: et.stablehlo.save(file, f, training=True), et.FailedPreconditionError)
    assert 'et.PhaseScope("training")' in text
    text = refused(lambda: et.stablehlo.save(file, f, sizes={"n": 8}), et.InvalidArgumentError)
    assert "the option sizes names 'n', but the graph of function 'f' has no open size" in text
    text = refused(lambda: et.stablehlo.save(file, f, sizes=[8]), et.InvalidArgumentError)
    assert "et.stablehlo.save: sizes is a list, but must be a dict from open sizes to integers: {'n': 8}" in text


def test_refusals_leave_no_file(tmp_path):
    file = tmp_path / "no.mlir"
    draw = et.function(lambda x: x + et.random.normal((2,)), name="draw")
    draw(et.zeros(2))
    text = refused(lambda: et.stablehlo.save(file, draw), et.UnimplementedError)
    assert "has no form in StableHLO. Export a function without this call" in text
    text = refused(lambda: et.stablehlo.save(file, 3), et.InvalidArgumentError)
    assert "et.stablehlo.save: the function is a int, but must be a function of @et.function" in text
    with warnings.catch_warnings():  # none about a folder that is not written
        warnings.simplefilter("error")
        text = refused(lambda: et.stablehlo.save(file, et.function(lambda x: x, name="never")), et.FailedPreconditionError)
    assert "function 'never' has no graph. Call it once before it is exported" in text
    assert not list(tmp_path.iterdir())
