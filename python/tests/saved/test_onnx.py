# SPDX-License-Identifier: Apache-2.0
"""Models of ONNX from Python: what onnxruntime computes, the options, and errors. tests/onnx tests each op."""
import os
import pathlib
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
        return {"scores": self(x), "best": et.argmax(self(x), axis=-1)}


def session_of(path):
    reason = "onnxruntime is missing; ./dev installs python/requirements.txt into build/python/venv"
    onnxruntime = pytest.importorskip("onnxruntime", reason=reason)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])


def strings_of(path):
    """The model as bytes: names and metadata are texts in it."""
    return pathlib.Path(path).read_bytes()


def refused(call, kind):
    with pytest.raises(kind) as error:
        call()
    assert error.value.file in (__file__, None), str(error.value)
    assert "::" not in str(error.value) and "SaveOptions" not in str(error.value), str(error.value)
    return str(error.value)


def test_a_method_with_open_sizes(tmp_path):
    net = Net()
    net.predict.trace(et.TensorSpec((None, 4)))
    et.onnx.save(tmp_path / "net.onnx", net.predict, doc="a text for readers")
    content = strings_of(tmp_path / "net.onnx")
    for text in (b"net/hidden/weight", b"net/out/bias", b"a text for readers", b"etude.version"):
        assert text in content, text
    session = session_of(tmp_path / "net.onnx")
    assert [(x.name, x.type, x.shape) for x in session.get_inputs()] == [("x", "tensor(float)", ["n", 4])]
    assert {x.name for x in session.get_outputs()} == {"scores", "best"}
    for rows in (1, 2, 7):
        x = np.asarray(et.random.normal((rows, 4)))
        ours = net.predict(x)
        scores, best = session.run(["scores", "best"], {"x": x})
        np.testing.assert_allclose(scores, np.asarray(ours["scores"]), rtol=1e-5, atol=1e-6)
        assert best.tolist() == ours["best"].tolist()


def test_all_kinds_of_functions_are_one_model(tmp_path):
    net = Net()

    @et.function
    def apply(net, x):
        return net(x)

    x = et.random.normal((2, 4))
    want = np.asarray(apply(net, x))
    et.saved.save(tmp_path / "net", {"apply": et.saved.bind(apply, net)})
    program = et.saved.load(tmp_path / "net")
    kinds = {
        "bound": et.saved.bind(apply, net),
        "entries": {"apply": et.saved.bind(apply, net), "net": net},
        "loaded": program.function("apply"),
        "program": program,
    }
    for name, function in kinds.items():
        et.onnx.save(tmp_path / f"{name}.onnx", function)
        assert b"net/hidden/weight" in strings_of(tmp_path / f"{name}.onnx"), name
    # Weights and lines are the same, whether they come from the program or from the folder.
    assert strings_of(tmp_path / "bound.onnx") == strings_of(tmp_path / "entries.onnx")
    for name in kinds:
        session = session_of(tmp_path / f"{name}.onnx")
        (got,) = session.run(["output"], {"x": np.asarray(x)})
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=name)


def test_options(tmp_path):
    @et.function
    def f(x):
        return et.nn.gelu(x) + 1.0

    file = tmp_path / "f.onnx"
    f(et.ones((2, 3)))
    f(et.ones((5, 3)))  # a graph for all sizes
    et.onnx.save(file, f, opset=21)
    session = session_of(file)
    assert session.get_inputs()[0].shape == ["n", 3]
    et.onnx.save(file, f, open_sizes=False)
    assert session_of(file).get_inputs()[0].shape == [2, 3]

    weight = et.random.normal((64, 64))
    big = et.function(lambda x: x @ weight, name="big")
    big(et.ones((2, 64)))
    et.onnx.save(tmp_path / "big.onnx", big, external_bytes=0)
    assert len(list(tmp_path.iterdir())) == 3 and (tmp_path / "big.onnx").stat().st_size < 4096
    (got,) = session_of(tmp_path / "big.onnx").run(None, {"x": np.ones((2, 64), np.float32)})
    np.testing.assert_allclose(got, np.asarray(big(et.ones((2, 64)))), rtol=1e-4)

    both = {"f": f, "big": big}
    et.onnx.save(file, both, name="big")
    assert session_of(file).get_inputs()[0].shape == [2, 64]
    text = refused(lambda: et.onnx.save(file, both), et.InvalidArgumentError)
    assert "et.onnx.save: there are 2 functions: f, big. Name one by the option name" in text
    text = refused(lambda: et.onnx.save(file, both, name="bug"), et.NotFoundError)
    assert "there is no function 'bug'. There are: big" in text


def test_a_graph_of_the_training_phase(tmp_path):
    norm = et.nn.BatchNorm(3)
    f = et.function(lambda x: norm(x), name="f")
    x = et.random.normal((4, 3))
    f(x)
    text = refused(lambda: et.onnx.save(tmp_path / "f.onnx", f, training=True), et.FailedPreconditionError)
    assert 'function \'f\' has no graph of the training phase. Call it in et.PhaseScope("training") before it is exported' in text
    g = et.function(lambda x: x * (2.0 if et.is_training() else 1.0), name="g")
    with et.PhaseScope("training"):
        g(x)
    text = refused(lambda: et.onnx.save(tmp_path / "g.onnx", g), et.FailedPreconditionError)
    assert "Call it outside of training before it is exported, or pass training=True" in text
    et.onnx.save(tmp_path / "g.onnx", g, training=True)
    (got,) = session_of(tmp_path / "g.onnx").run(None, {"x": np.asarray(x)})
    np.testing.assert_allclose(got, 2 * np.asarray(x))


def test_refusals_leave_the_file_that_was_there(tmp_path):
    file = tmp_path / "f.onnx"
    file.write_text("before")

    @et.function
    def sorts(x):
        return et.linalg.eigvalsh(x)

    sorts(et.ones((2, 2)))
    text = refused(lambda: et.onnx.save(file, sorts), et.UnimplementedError)
    assert "linalg.eigvalsh of (float32[2,2]) has no form in ONNX opset 17" in text and "test_onnx.py" in text

    total = et.Variable(0.0, name="total")
    counts = et.function(lambda x: total.assign_add(x), name="counts")
    counts(et.asarray(1.0))
    text = refused(lambda: et.onnx.save(file, {"counts": counts, "total": total}), et.UnimplementedError)
    assert "function 'counts' changes 'total', but a model of ONNX changes no state" in text

    noise = et.function(lambda x: x + et.random.normal((2,)), name="noise")
    noise(et.ones(2))
    refused(lambda: et.onnx.save(file, noise), et.UnimplementedError)

    never = et.function(lambda x: x, name="never")
    with warnings.catch_warnings():  # none about a folder that is not written
        warnings.simplefilter("error")
        text = refused(lambda: et.onnx.save(file, never), et.FailedPreconditionError)
    assert "function 'never' has no graph. Call it once before it is exported" in text
    assert file.read_text() == "before"


def test_wrong_arguments(tmp_path):
    f = et.function(lambda x: x + 1, name="f")
    f(et.ones(2))
    file = tmp_path / "f.onnx"
    save = et.onnx.save
    cases = [
        (lambda: save(3, f), "et.onnx.save: the path is 3, but must be a text or an os.PathLike of one"),
        (lambda: save("a\0b", f), r"et.onnx.save: the path 'a\x00b' holds a NUL"),
        (lambda: save(file, lambda x: x), "et.onnx.save: the function is a function, but must be a function of @et.function"),
        (lambda: save(file, {"f": len}), "the entry 'f' is a builtin_function_or_method that is not staged"),
        (lambda: save(file, {1: f}), "et.onnx.save: the name of an entry is 1, but must be a text"),
        (lambda: save(file, f, opset=16), "et.onnx.save: opset is 16, but must be in [17, 21]"),
        (lambda: save(file, f, opset="17"), "et.onnx.save: opset is '17', but must be an integer of 64 bits"),
        (lambda: save(file, f, graph=-1), "et.onnx.save: graph is -1, but must be at least 0"),
        (lambda: save(file, f, graph=3), "graph is 3, but function 'f' has 1 graph"),
        (lambda: save(file, f, training=1), "et.onnx.save: training is 1, but must be True or False"),
        (lambda: save(file, f, open_sizes=None), "et.onnx.save: open_sizes is None, but must be True or False"),
        (lambda: save(file, f, doc=b"x"), "et.onnx.save: doc is b'x', but must be a text"),
        (lambda: save(file, f, name=3), "et.onnx.save: name is 3, but must be a text"),
        (lambda: save(file, f, external_bytes=1 << 40), "external_bytes is 1099511627776, but must be in [0, 1073741824]"),
    ]  # fmt: skip
    for call, want in cases:
        text = refused(call, et.InvalidArgumentError)
        assert want in text, text
    assert not file.exists()
    refused(lambda: save(tmp_path / "none" / "f.onnx", f), et.Error)
