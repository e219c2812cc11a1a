# SPDX-License-Identifier: Apache-2.0
"""et.onnx.load: models as programs, the options, errors, damaged files. tests/onnx tests each operator."""
import gc
import importlib.util
import inspect
import pathlib
import random
import re
import threading

import numpy as np
import pytest

import etude as et

# Models of other programs, written by the field numbers of the format.
_spec = importlib.util.spec_from_file_location(
    "onnx_seeds", pathlib.Path(__file__).parents[3] / "tests" / "fuzz" / "onnx_seeds.py"
)
seeds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(seeds)
INT64, BOOL, DOUBLE = 7, 9, 11


class Net(et.Module):
    def __init__(self):
        self.hidden = et.nn.Dense(4, 8, activation=et.nn.relu)
        self.out = et.nn.Dense(8, 3)

    def __call__(self, x):
        return self.out(self.hidden(x))

    @et.function
    def predict(self, x):
        return et.nn.softmax(self(x))


def same(a, b):
    """Of one dtype and shape, with the same bits."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def refused(call, kind):
    """The message of the error, which speaks Python."""
    with pytest.raises(kind) as error:
        call()
    text = str(error.value)
    assert error.value.file in (__file__, None), text
    assert not re.search(r"\w::\w|Options|\{\{|\bkA", text), text
    return text


@pytest.fixture
def net_file(tmp_path):
    et.set_seed(1)
    net = Net()
    net.predict.trace(et.TensorSpec((None, 4)))
    et.onnx.save(tmp_path / "net.onnx", net.predict)
    return net, tmp_path / "net.onnx"


def written(path, nodes, inputs, outputs=("z",), constants=()):
    """A model of another program."""
    outputs = [seeds.port(name, []) for name in outputs]
    path.write_bytes(seeds.model(seeds.graph(nodes, inputs, outputs, constants)))
    return path


def test_a_model_of_ours_has_the_same_bits(net_file):
    net, file = net_file
    program = et.onnx.load(file)
    assert isinstance(program, et.saved.Program) and program.functions() == ["predict"]
    predict = program.function("predict")
    assert isinstance(predict, et.saved.Function)
    assert predict.arguments == ["x"] and [str(s) for s in predict.signatures()] == ["(x: float32[n,4])"]
    assert set(program.variables()) == {f"net/{part}/{leaf}" for part in ("hidden", "out") for leaf in ("weight", "bias")}
    weight = program.variable("net/hidden/weight")
    assert weight.trainable and same(weight.read(), net.hidden.weight)
    for n in (0, 1, 2, 8, 50):
        x = et.random.normal((n, 4))
        assert same(predict(x), net.predict(x)), n
    x = et.random.normal((3, 4))
    assert same(predict(x=x), net.predict(x)) and same(predict(np.asarray(x)), net.predict(x))
    assert same(predict.call_named({"x": x})["output"], net.predict(x))
    with pytest.raises(et.InvalidArgumentError, match=r"function 'predict' has no graph for \(x: float32\[2,5\]\)"):
        predict(et.ones((2, 5)))


def test_results_with_names(tmp_path):
    net = Net()
    both = et.function(lambda net, x: {"scores": net(x), "best": et.argmax(net(x), axis=-1)}, name="both")
    x = et.random.normal((5, 4))
    want = both(net, x)
    et.onnx.save(tmp_path / "both.onnx", et.saved.bind(both, net))
    got = et.onnx.load(str(tmp_path / "both.onnx")).function("predict")(x)
    assert set(got._fields) == {"scores", "best"}
    assert same(got.scores, want["scores"]) and same(got.best, want["best"])


def test_training_and_saving(net_file, tmp_path):
    net, file = net_file
    program = et.onnx.load(file)
    predict = program.function("predict")
    weights = predict.trainable_variables()
    assert len(weights) == 4
    x, labels = et.random.normal((16, 4)), et.asarray([i % 3 for i in range(16)])

    def loss(_):
        return -et.mean(et.log(predict(x)[et.arange(16), labels]))

    slopes = dict(zip([v.name for v in weights], et.gradient(loss)(weights)))
    expected = et.gradient(lambda n: -et.mean(et.log(et.nn.softmax(n(x))[et.arange(16), labels])))(net)
    et.testing.assert_close(slopes["net/hidden/weight"], expected.hidden.weight, rtol=1e-5, atol=1e-6)
    et.testing.assert_close(slopes["net/out/bias"], expected.out.bias, rtol=1e-5, atol=1e-6)

    adam, before = et.optim.Adam(lr=0.05), float(loss(weights))
    for _ in range(30):
        et.saved.update(adam, weights, et.gradient(loss)(weights))
    assert float(loss(weights)) < 0.7 * before and adam.updates == 30
    assert not same(predict(x), net.predict(x))  # the net of the file's writer is another model

    et.saved.save(tmp_path / "tuned", program)
    assert same(et.saved.load(tmp_path / "tuned").function("predict")(x), predict(x))
    et.saved.save(tmp_path / "entry", {"classify": predict})
    assert same(et.saved.load(tmp_path / "entry").function("classify")(x), predict(x))
    et.onnx.save(tmp_path / "tuned.onnx", program)
    assert same(et.onnx.load(tmp_path / "tuned.onnx").function("predict")(x), predict(x))


def test_staged_batched_lazy(net_file):
    net, file = net_file
    predict = et.onnx.load(file).function("predict")
    weights = predict.trainable_variables()
    x = et.random.normal((6, 4))
    twice = et.function(lambda x: 2.0 * predict(x))
    assert same(twice(x), 2.0 * net.predict(x)) and same(twice(x[:2]), 2.0 * net.predict(x[:2]))
    rows = et.vmap(lambda row: predict(row[None])[0])(x)
    et.testing.assert_close(rows, net.predict(x), rtol=1e-6, atol=1e-7)
    assert same(et.vmap(predict)(x[None])[0], net.predict(x))

    @et.function
    def slopes(x):
        return et.gradient(lambda _: et.sum(predict(x) ** 2))(weights)

    for staged, eager in zip(slopes(x), et.gradient(lambda _: et.sum(predict(x) ** 2))(weights)):
        assert same(staged, eager)
    with et.LazyScope():
        y = predict(x) + 1.0
    assert same(y, net.predict(x) + 1.0)
    programs = []  # a graph keeps no Variable

    @et.function
    def loads(x):
        programs.append(et.onnx.load(file))
        return programs[-1].function("predict")(x)

    assert same(loads(x), net.predict(x)) and same(loads(x), net.predict(x)) and len(programs) == 1


def test_function_and_trainable(net_file):
    net, file = net_file
    program = et.onnx.load(file, function="classify", trainable=False)
    assert program.functions() == ["classify"]
    classify = program.function("classify")
    assert classify.trainable_variables() == [] and len(classify.variables()) == 4
    x = et.random.normal((3, 4))
    assert same(classify(x), net.predict(x))


def test_sizes_and_shapes(net_file, tmp_path):
    _, file = net_file

    def signatures(**options):
        return [str(s) for s in et.onnx.load(file, **options).function("predict").signatures()]

    assert signatures(sizes={"n": 8}) == signatures(sizes={"n": np.int64(8)}) == ["(x: float32[8,4])"]
    assert signatures(shapes={"x": (8, 4)}) == signatures(shapes={"x": [np.int32(8), None]}) == ["(x: float32[8,4])"]
    assert signatures(shapes={"x": (None, None)}) == signatures() == ["(x: float32[n,4])"]
    assert signatures(sizes={}, shapes={}, constants={}) == signatures(sizes=None, shapes=None, constants=None)
    # A model without a shape, and sizes without a name.
    dims = seeds.data(1, seeds.data(2, "")) * 2
    port = seeds.data(1, "x") + seeds.data(2, seeds.data(1, seeds.number(1, 1) + seeds.data(2, dims)))
    open_file = written(tmp_path / "open.onnx", [seeds.node("Relu", ["x"], ["z"])], [port])
    text = str(et.onnx.load(open_file, sizes={"x.0": 2, "x.1": 3}).function("predict").signatures()[0])
    assert text == "(x: float32[2,3])"
    port = seeds.data(1, "x") + seeds.data(2, seeds.data(1, seeds.number(1, 1)))
    bare = written(tmp_path / "bare.onnx", [seeds.node("Relu", ["x"], ["z"])], [port])
    text = refused(lambda: et.onnx.load(bare), et.FailedPreconditionError)
    assert "input 'x' has no shape in the model. State it: shapes={\"x\": (None, 3)}" in text
    relu = et.onnx.load(bare, shapes={"x": (None, 3)}).function("predict")
    assert relu([[-1.0, 0.0, 2.0]]).tolist() == [[0.0, 0.0, 2.0]]


def test_constants(tmp_path):
    reshape = written(
        tmp_path / "reshape.onnx",
        [seeds.node("Reshape", ["x", "shape"], ["z"])],
        [seeds.port("x", [2, 3]), seeds.port("shape", [2], INT64)],
    )
    text = refused(lambda: et.onnx.load(reshape), et.FailedPreconditionError)
    assert "node 'Reshape' (Reshape): the input 'shape' ('shape') has to be known when the model is loaded" in text
    assert 'Pass values for these inputs of the model: constants={"shape": ...}' in text
    for shape in ([3, 2], (3, -1), np.array([3, 2]), np.array([3, 2], np.int8), np.array([3.0, 2.0]), et.asarray([3, 2])):
        f = et.onnx.load(reshape, constants={"shape": shape}).function("predict")
        assert f.arguments == ["x"] and f(et.ones((2, 3))).shape == (3, 2)
    loop = written(
        tmp_path / "loop.onnx",
        [seeds.node("Loop", ["m", "", "x"], ["z", "rows"], body=seeds.graph(
            [seeds.node("Identity", "g", "h"), seeds.node("Add", "ss", "t"), seeds.node("Identity", "t", "r")],
            [seeds.port("i", [], INT64), seeds.port("g", [], BOOL), seeds.port("s", [2])],
            [seeds.port("h", [], BOOL), seeds.port("t", [2]), seeds.port("r", [2])],
        ))],
        [seeds.port("m", [], INT64), seeds.port("x", [2])],
        ["z", "rows"],
    )  # fmt: skip
    text = refused(lambda: et.onnx.load(loop), et.FailedPreconditionError)
    assert "constants={\"m\": ...}" in text
    for count in (3, np.int32(3), 3.0, et.Variable(3)):
        got = et.onnx.load(loop, constants={"m": count}).function("predict")(et.ones(2))
        assert got.z.tolist() == [8.0, 8.0] and got.rows.shape == (3, 2)


def test_constants_have_the_dtype_of_their_input(tmp_path):
    inputs = [seeds.port("x", [2], DOUBLE), seeds.port("c", [], DOUBLE), seeds.port("on", [], BOOL)]
    nodes = [seeds.node("Add", ["x", "c"], ["y"]), seeds.node("Where", ["on", "y", "x"], ["z"])]
    file = written(tmp_path / "add.onnx", nodes, inputs)
    x = et.zeros(2, dtype=et.float64)

    def sums(c, on=True):
        return et.onnx.load(file, constants={"c": c, "on": on}).function("predict")(x)

    assert same(sums(0.1), np.array([0.1, 0.1]))  # a number of Python keeps its digits
    assert same(sums(3), np.array([3.0, 3.0])) and same(sums(True), np.array([1.0, 1.0]))
    assert same(sums(np.float32(0.5)), np.array([0.5, 0.5])) and same(sums(0.1, 0), np.array([0.0, 0.0]))
    text = refused(lambda: sums(2**53 + 1), et.InvalidArgumentError)
    assert "et.onnx.load: the option constants has int64[] for input 'c', but some elements do not fit float64" in text
    text = refused(lambda: sums(1j), et.InvalidArgumentError)
    assert "the option constants has complex128[] for input 'c', but some elements do not fit float64" in text
    assert "the option constants has float64[] for input 'on'" in refused(lambda: sums(1.0, 0.5), et.InvalidArgumentError)
    text = refused(lambda: sums([1.0, 2.0]), et.InvalidArgumentError)
    assert "the option constants has float64[2] for input 'c', whose shape in " in text and " is []" in text

    @et.function
    def staged(c):
        return sums(c)

    text = refused(lambda: staged(et.asarray(1.0)), et.FailedPreconditionError)
    assert "is being traced" in text


def test_wrong_options(net_file):
    _, file = net_file
    load = et.onnx.load
    cases = [
        (lambda: load(3), "et.onnx.load: the path is 3, but must be a text or an os.PathLike of one"),
        (lambda: load("a\0b"), r"et.onnx.load: the path 'a\x00b' holds a NUL"),
        (lambda: load(file, function=3), "et.onnx.load: function is 3, but must be a text"),
        (lambda: load(file, function=""), "the option function is '', but a name is not empty and has no '/'"),
        (lambda: load(file, function="a/b"), "the option function is 'a/b', but"),
        (lambda: load(file, sizes=[8]), "et.onnx.load: sizes is a list, but must be a dict from open sizes to integers: {'batch': 8}"),
        (lambda: load(file, sizes={"n": 8.0}), "et.onnx.load: sizes['n'] is 8.0, but must be an integer of 64 bits"),
        (lambda: load(file, sizes={"n": True}), "et.onnx.load: sizes['n'] is True, but must be an integer of 64 bits"),
        (lambda: load(file, sizes={"n": 2**63}), "et.onnx.load: sizes['n'] is 9223372036854775808, but must be an integer"),
        (lambda: load(file, sizes={0: 8}), "et.onnx.load: a name in sizes is 0, but must be a text"),
        (lambda: load(file, sizes={"n": -1}), "the option sizes has the size -1 for 'n', but a size is at least 0"),
        (lambda: load(file, shapes=(2, 4)), "et.onnx.load: shapes is a tuple, but must be a dict from inputs to shapes: {'image': (None, 3)}"),
        (lambda: load(file, shapes={"x": 4}), "et.onnx.load: shapes['x'] is 4, but must be a tuple of sizes, with None for an open size"),
        (lambda: load(file, shapes={"x": "24"}), "et.onnx.load: shapes['x'] is '24', but must be a tuple of sizes"),
        (lambda: load(file, shapes={"x": ("n", 4)}), "et.onnx.load: a size in shapes['x'] is 'n', but must be an integer of 64 bits"),
        (lambda: load(file, shapes={"x": (-1, 4)}), "et.onnx.load: shapes['x'] has the size -1, but a size is at least 0, and None is an open size"),
        (lambda: load(file, shapes={"x": (2,)}), "the option shapes has the shape [2] for input 'x', which has 2 axes in"),
        (lambda: load(file, shapes={"x": (1,) * 17}), "et.onnx.load: "),
        (lambda: load(file, constants=[1]), "et.onnx.load: constants is a list, but must be a dict from inputs to tensors: {'axis': 1}"),
        (lambda: load(file, constants={"x": None}), "et.onnx.load: constants['x'] is a NoneType that makes no tensor"),
        (lambda: load(file, constants={"x": "a"}), "et.onnx.load: constants['x'] is a str that makes no tensor"),
        (lambda: load(file, constants={"x": [[1.0], 2.0]}), "et.onnx.load: constants['x'] is a list that makes no tensor"),
        (lambda: load(file, constants={"x": et.ones(4)}), "the option constants has float32[4] for input 'x', whose shape in"),
        (lambda: load(file, constants={"x": et.ones((2, 4))}, shapes={"x": (2, 4)}), "the option shapes names 'x', but the option constants has its value"),
        (lambda: load(file, trainable=1), "et.onnx.load: trainable is 1, but must be True or False"),
        (lambda: load(file, max_loop_steps="1"), "et.onnx.load: max_loop_steps is '1', but must be an integer of 64 bits"),
        (lambda: load(file, max_loop_steps=-1), "et.onnx.load: max_loop_steps is -1, but must be at least 0"),
    ]  # fmt: skip
    for call, want in cases:
        text = refused(call, et.InvalidArgumentError)
        assert want in text, text
    unknown = [
        (lambda: load(file.parent / "none.onnx"), "none.onnx"),
        (lambda: load(file.parent), "et.onnx.load"),
        (lambda: load(file, sizes={"m": 8}), "the option sizes names 'm', but"),
        (lambda: load(file, shapes={"y": (2, 4)}), "the option shapes names 'y', but"),
        (lambda: load(file, constants={"y": 1}), "has no such input. It has: x"),
    ]
    for call, want in unknown:
        text = refused(call, et.Error)
        assert want in text, text
    assert "has no such open size. It has: n" in refused(unknown[2][0], et.NotFoundError)
    with pytest.raises(TypeError):
        load(file, "predict")
    with pytest.raises(TypeError):
        load(file, size={"n": 8})


def test_errors_of_models_have_the_line_of_the_call(tmp_path):
    def line_of(call):
        lines, first = inspect.getsourcelines(call)
        return first + next(i for i, line in enumerate(lines) if "the line of the call" in line)

    def call():
        et.onnx.load(file)  # the line of the call

    def text(nodes, inputs, kind, **options):
        nonlocal file
        file = written(tmp_path / "model.onnx", nodes, inputs, **options)
        with pytest.raises(kind) as error:
            call()
        told = str(error.value)
        assert (error.value.file, error.value.line) == (__file__, line_of(call)), told
        assert told.startswith("et.onnx.load: ") and f"test_onnx_load.py:{line_of(call)}" in told, told
        assert not re.search(r"\w::\w|Options|\{\{|\bkA", told), told
        return told

    file = None
    x = [seeds.port("x", [2, 3])]
    assert "node 'Rleu' (Rleu): there is no such operator in opset 17 of ai.onnx. Similar operators: Elu, Relu" in text(
        [seeds.node("Rleu", ["x"], ["z"])], x, et.UnimplementedError
    )
    assert "node 'StringSplit' (StringSplit): texts are not imported" in text(
        [seeds.node("StringSplit", ["x"], ["z"])], x, et.UnimplementedError
    )
    assert "(ImageDecoder): files of images are not decoded by a graph. Decode them before the call" in text(
        [seeds.node("ImageDecoder", ["x"], ["z"])], x, et.UnimplementedError
    )
    assert "the attribute 'axes' is unknown. Softmax has: axis" in text(
        [seeds.node("Softmax", ["x"], ["z"], axes=1)], x, et.UnimplementedError
    )
    wrong = text(
        [seeds.node("MatMul", ["x", "y"], ["z"])], [*x, seeds.port("y", [4, 5])], et.InvalidArgumentError
    )
    assert "node 'MatMul' (MatMul): " in wrong and "inner sizes" in wrong
    assert "which no node computes" in text([], x, et.InvalidArgumentError)
    # The loop is unrolled, since its condition is computed: other sizes make another graph.
    body = seeds.graph(
        [seeds.node("Less", "ic", "h"), seeds.node("Add", "ss", "t"), seeds.node("Identity", "t", "r")],
        [seeds.port("i", [], INT64), seeds.port("g", [], BOOL), seeds.port("s", ["n", 2])],
        [seeds.port("h", [], BOOL), seeds.port("t", ["n", 2]), seeds.port("r", ["n", 2])],
        [seeds.ints("c", [], [1000])],
    )
    nodes = [
        seeds.node("Shape", ["x"], ["s"], end=1),
        seeds.node("Squeeze", ["s"], ["m"]),
        seeds.node("Loop", ["m", "", "x"], ["z", "rows"], body=body),
    ]
    many = text(nodes, [seeds.port("x", ["n", 2])], et.FailedPreconditionError)
    assert "the model has no graph for all sizes n" in many and 'Fix sizes: sizes={"n": 8}' in many
    assert et.onnx.load(file, sizes={"n": 3}).function("predict")(et.ones((3, 2))).tolist() == [[8.0, 8.0]] * 3
    too_small = text(
        [seeds.node("MatMul", ["x", "x"], ["z"])], [seeds.port("x", ["n", 2])], et.InvalidArgumentError
    )
    assert "The open sizes are n. Fix them if the model needs others than were tried: sizes={\"n\": 8}" in too_small


def test_loops_without_end(tmp_path):
    body = seeds.graph(
        [seeds.node("Identity", "g", "h"), seeds.node("Relu", "s", "t")],
        [seeds.port("i", [], INT64), seeds.port("g", [], BOOL), seeds.port("s", [2])],
        [seeds.port("h", [], BOOL), seeds.port("t", [2])],
    )
    file = written(
        tmp_path / "loop.onnx",
        [seeds.node("Loop", ["", "c", "x"], ["z"], body=body)],
        [seeds.port("c", [], BOOL), seeds.port("x", [2])],
    )
    text = refused(lambda: et.onnx.load(file, max_loop_steps=100), et.ResourceExhaustedError)
    assert "it is a loop with no limit, but at most 100 steps are allowed (the option max_loop_steps)" in text


def test_damaged_files(net_file, tmp_path):
    """1,000 files: each is a model, or an error that names the file."""
    net, file = net_file
    whole = file.read_bytes()
    damaged = tmp_path / "damaged.onnx"
    choose, outcomes = random.Random(3), {"model": 0}
    weights = whole.index(np.asarray(net.hidden.weight).tobytes())
    for i in range(1000):
        content = bytearray(whole)
        if i % 2 == 0:
            del content[choose.randrange(len(content)) :]
        else:
            for _ in range(choose.choice((1, 1, 1, 8))):
                content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
        damaged.write_bytes(content)
        try:
            et.onnx.load(damaged, max_loop_steps=1000)
            outcomes["model"] += 1
            assert i % 2 == 1, f"a part of {len(content)} bytes is a model"
        except et.Error as error:
            assert not isinstance(error, et.InternalError), error
            assert "damaged.onnx" in str(error) and error.file == __file__, error
            outcomes[type(error).__name__] = outcomes.get(type(error).__name__, 0) + 1
    assert outcomes["DataLossError"] > 500 and sum(outcomes.values()) == 1000, outcomes
    # A flip in a weight is another model.
    content = bytearray(whole)
    content[weights] ^= 1
    damaged.write_bytes(content)
    assert not same(et.onnx.load(damaged).variable("net/hidden/weight").read(), net.hidden.weight)
    for content, kind in ((b"no model", et.DataLossError), (b"", et.DataLossError), (bytes(1000), et.DataLossError)):
        damaged.write_bytes(content)
        assert "damaged.onnx" in refused(lambda: et.onnx.load(damaged), kind)


def test_threads(net_file):
    net, file = net_file
    x = et.random.normal((5, 4))
    want, wrong = net.predict(x), []

    def work():
        for _ in range(20):
            if not same(et.onnx.load(file).function("predict")(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_flat(net_file):
    _, file = net_file

    def failing():
        with pytest.raises(et.NotFoundError):
            et.onnx.load(file, sizes={"m": 1})

    for call in (lambda: et.onnx.load(file), failing):
        for _ in range(20):
            call()
        gc.collect()
        before = et.memory_stats()
        for _ in range(200):
            call()
        gc.collect()
        after = et.memory_stats()
        assert after.live_tensors - before.live_tensors < 20 and after.live_bytes - before.live_bytes < 20_000
