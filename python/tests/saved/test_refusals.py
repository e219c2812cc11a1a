# SPDX-License-Identifier: Apache-2.0
"""Saved functions: content that cannot be saved, damaged folders, wrong arguments, threads, memory."""
import gc
import importlib.util
import inspect
import os
import pathlib
import random
import re
import threading

import pytest

import etude as et

_spec = importlib.util.spec_from_file_location("random_calls", pathlib.Path(__file__).parent.parent / "random_calls.py")
random_calls = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(random_calls)
resident, values = random_calls.resident, random_calls.values


def refused(call, kind):
    """The message of the error, which has a line of this file; an error of the package has a traceback instead."""
    with pytest.raises(kind) as error:
        call()
    assert error.value.file in (__file__, None), str(error.value)
    assert "::" not in str(error.value), str(error.value)
    return str(error.value)


# spec: PY-09, SV-11.a
def test_a_graph_with_a_py_function_is_refused(tmp_path):
    @et.py_function(out=et.float32)
    def look_up(x):
        return x * 2

    @et.function
    def f(x):
        y = x + 1
        return look_up(y)  # the line of use

    lines, first = inspect.getsourcelines(f.__wrapped__)
    used = first + next(i for i, line in enumerate(lines) if "the line of use" in line)
    assert float(f(et.asarray(1.0))) == 4.0  # it runs, and is refused when it is saved only
    with pytest.raises(et.UnimplementedError) as error:
        et.saved.save(tmp_path / "f", {"f": f})
    text = str(error.value)
    assert "function 'f' calls" in text and "'look_up'" in text, text
    assert "exists only in this process, so it cannot be saved. Write it with ops, or save a function without it" in text
    assert isinstance(error.value, NotImplementedError) and (error.value.file, error.value.line) == (__file__, used)
    assert f"test_refusals.py:{used}" in text
    assert not (tmp_path / "f" / "saved.json").exists()


# spec: PY-09
def test_a_py_function_below_other_graphs(tmp_path):
    hidden = et.host_function(lambda x: x * 2, et.float32, name="hidden")

    @et.function
    def inner(x):
        return hidden(x)

    outer = et.function(lambda x: et.cond(x > 0, lambda: inner(x), lambda: x), name="outer")
    outer(et.asarray(1.0))
    text = refused(lambda: et.saved.save(tmp_path / "f", {"outer": outer}), et.UnimplementedError)
    assert "function 'outer' calls" in text and "'hidden'" in text
    # A program that was there stays.
    plain = et.function(lambda x: x + 1, name="plain")
    plain(et.asarray(1.0))
    et.saved.save(tmp_path / "f", {"plain": plain})
    refused(lambda: et.saved.save(tmp_path / "f", {"outer": outer}), et.UnimplementedError)
    assert et.saved.load(tmp_path / "f").functions() == ["plain"]


# spec: SV-11.b
def test_host_values_of_this_process(tmp_path):
    class Table:
        size = 3

    f = et.function(lambda x, table: x * table.size, name="f")
    table = Table()
    f(et.ones(2), table)
    text = refused(lambda: et.saved.save(tmp_path / "f", {"f": f}), et.UnimplementedError)
    assert "its graph was made for argument 'table', an object of this process, so it cannot be saved. Pass tensors" in text
    g = et.function(lambda x, k: x * k.real, name="g")
    g(et.ones(2), 2j)
    assert "argument 'k', a complex, which cannot be saved" in refused(lambda: et.saved.save(tmp_path / "g", {"g": g}), et.UnimplementedError)
    h = et.function(lambda x: x + et.call_time_value(lambda: 2.0), name="h")
    h(et.ones(2))
    assert "at each call, from code of this process" in refused(lambda: et.saved.save(tmp_path / "h", {"h": h}), et.UnimplementedError)
    v = et.Variable([1.0])
    i = et.function(lambda d: d["v"] * 2, name="i")
    i({"v": v})
    text = refused(lambda: et.saved.save(tmp_path / "i", {"i": i}), et.UnimplementedError)
    assert "a Variable in a structure among its arguments, 'd/v'" in text and "et.saved.bind" in text


# spec: SV-05.a
def test_variables_out_of_reach(tmp_path):
    total = et.Variable(0.0, name="total")
    f = et.function(lambda x: total.assign_add(x), name="f")
    f(et.asarray(1.0))
    text = refused(lambda: et.saved.save(tmp_path / "f", {"f": f}), et.FailedPreconditionError)
    assert "function 'f' uses Variable 'total'" in text and 'Save it as well: {"name": variable}' in text
    et.saved.save(tmp_path / "f", {"f": f, "total": total})
    assert list(et.saved.load(tmp_path / "f").variables()) == ["total"]


def test_bound_objects(tmp_path):
    layer = et.nn.Dense(2, 2)
    predict = et.function(lambda m, x: m(x), name="predict")
    predict(layer, et.ones((1, 2)))
    text = refused(lambda: et.saved.save(tmp_path / "f", {"p": et.saved.bind(predict, et.nn.Dense(2, 3))}), et.FailedPreconditionError)
    assert "none was made for the present state of its bound objects. Call it with them before it is saved" in text
    assert "is bound to 3 objects" in refused(lambda: et.saved.save("f", {"p": et.saved.bind(predict, layer, layer, layer)}), et.Error)
    assert "argument 'm' is a float" in refused(lambda: et.saved.save("f", {"p": et.saved.bind(predict, 1.0)}), et.InvalidArgumentError)
    rest = et.function(lambda *layers: layers[0](et.ones((1, 2))), name="rest")
    rest(layer)
    assert "parameter 'layers' of function 'rest' is not positional" in refused(
        lambda: et.saved.save("f", {"p": et.saved.bind(rest, layer)}), et.InvalidArgumentError
    )
    sgd = et.optim.Adam(lr=0.1)

    @et.function(donate=("layer", "adam"))
    def step(layer, adam):
        adam.update(layer, et.gradient(lambda m: et.sum(m(et.ones((1, 2)))))(layer))

    step(layer, sgd)
    text = refused(lambda: et.saved.save(tmp_path / "s", {"step": et.saved.bind(step, layer, sgd)}), et.FailedPreconditionError)
    assert "Call it" in text and "function 'step' has no graph that can be saved" in text
    assert "et.saved.Bound holds a int" in refused(lambda: et.saved.save("f", {"p": et.saved.Bound(3, ())}), et.InvalidArgumentError)


def test_entries(tmp_path):
    f = et.function(lambda x: x, name="f")
    f(et.ones(2))

    def text(entries, kind=et.InvalidArgumentError, **options):
        return refused(lambda: et.saved.save(tmp_path / "f", entries, **options), kind)

    assert "the entries are a list, but must be a dict" in text([f])
    assert "the name of an entry is 3" in text({3: f})
    assert "'a/b' is no name of an entry" in text({"a/b": f})
    assert "the entry 'g' is a function that is not staged, so it has no graph. Decorate it with @et.function" in text({"g": lambda x: x})
    assert "the entry 'o' is a object without tensors and Variables" in text({"o": object()})
    assert "the option signatures names 'g', but no function has this name. There are: f" in text({"f": f}, signatures=["g"])
    assert "signatures is 'f', but must be a list" in text({"f": f}, signatures="f")
    assert "signatures holds 3, but must be a list of texts" in text({"f": f}, signatures=[3])
    assert "custom_gradients is 1, but must be True or False" in text({"f": f}, custom_gradients=1)
    assert "shard_bytes is 0, but must be at least 1" in text({"f": f}, shard_bytes=0)
    assert "none.txt" in text({"f": f}, et.NotFoundError, assets=[tmp_path / "none.txt"])
    nested = et.function(lambda x: {"a": {"b": x}}, name="nested")
    nested(et.ones(2))
    message = text({"nested": nested}, signatures=["nested"])
    assert "return a tensor, or a dict, a named tuple or a dataclass of tensors" in message
    assert "the first argument is a function, but must be a function of @et.function" in refused(
        lambda: et.saved.bind(lambda x: x), et.InvalidArgumentError
    )
    program = et.saved.load(tmp_path / "f") if et.saved.is_saved(tmp_path / "f") else None
    et.saved.save(tmp_path / "f", {"f": f})
    program = et.saved.load(tmp_path / "f")
    assert "is saved as it is" in text(program, signatures=["f"])
    for path in (3, "a\0b", b"x"):
        with pytest.raises(et.InvalidArgumentError, match="the path"):
            et.saved.load(path)


# spec: SV-06.c, SV-06.d
def test_parts_that_a_file_cannot_hold(tmp_path):
    with pytest.warns(UserWarning, match=r"'o/b/1' \(set\), 'o/f' \(function\) cannot be saved and are left out"):
        et.saved.save(tmp_path / "o", {"o": {"a": et.ones(2), "b": [1, {2}], "f": lambda: 1}})
    made = et.saved.load(tmp_path / "o").object("o")
    assert set(made) == {"a", "b"} and made["b"] == (1, None)


def test_loops_of_strangers(tmp_path):
    f = et.function(lambda n: et.while_loop(lambda i: i < n, lambda i: i + 1, et.asarray(0)), name="f")
    f(et.asarray(3))
    et.saved.save(tmp_path / "f", {"f": f})
    text = refused(lambda: et.saved.load(tmp_path / "f", max_loop_steps=100), et.ResourceExhaustedError)
    assert "has no limit, but at most 100 steps are allowed (the option max_loop_steps)" in text
    assert int(et.saved.load(tmp_path / "f").function("f")(et.asarray(5))) == 5


def test_damaged_folders(tmp_path):
    layer = et.nn.Dense(4, 4)
    f = et.function(lambda m, x: m(x), name="f")
    f(layer, et.ones((2, 4)))
    choose = random.Random(3)
    et.saved.save(tmp_path / "f", {"f": et.saved.bind(f, layer)})
    files = {p: p.read_bytes() for p in (tmp_path / "f").iterdir()}
    for _ in range(60):
        path = choose.choice(sorted(files))
        content = bytearray(files[path])
        if choose.random() < 0.5:
            del content[choose.randrange(len(content)) :]
        else:
            content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
        path.write_bytes(content)
        if bytes(content) != files[path]:
            with pytest.raises((et.DataLossError, et.NotFoundError, et.UnimplementedError)):
                et.saved.load(tmp_path / "f")
        path.write_bytes(files[path])
    assert et.saved.load(tmp_path / "f").functions() == ["f"]


def test_random_wrong_arguments(tmp_path, monkeypatch):
    """Each call returns, or raises an error of Python."""
    monkeypatch.chdir(tmp_path)
    layer = et.nn.Dense(4, 4)
    f = et.function(lambda m, x, k=1: m(x) * k, name="f")
    f(layer, et.ones((2, 4)))
    et.saved.save("f", {"f": et.saved.bind(f, layer), "w": et.Variable(1.0)})
    program = et.saved.load("f")
    loaded = program.function("f")
    et.onnx.save("g.onnx", loaded)
    calls = [
        loaded, loaded.call_named, program.function, program.variable, program.object, program.asset,
        et.saved.bind, et.saved.load, et.saved.is_saved, et.saved.update,
        lambda *a, **o: et.saved.save("g", *a, **o), lambda x, **o: et.saved.save("g", {"x": x, "f": f}, **o),
        et.onnx.save, lambda x, **o: et.onnx.save("f.onnx", x, **o), lambda **o: et.onnx.save("f.onnx", loaded, **o),
        et.onnx.load, lambda **o: et.onnx.load("g.onnx", **o), lambda x: et.onnx.load("g.onnx", constants={"x": x}),
        lambda x: et.onnx.load("g.onnx", shapes={"x": x}), lambda x, y: et.onnx.load("g.onnx", sizes={x: y}),
        et.stablehlo.save, lambda x, **o: et.stablehlo.save("f.mlir", x, **o), lambda **o: et.stablehlo.save("f.mlir", loaded, **o),
        lambda x, y: et.stablehlo.save("f.mlir", loaded, sizes={x: y}),
        lambda *a: et.saved.save("g", {"f": et.saved.bind(f, *a)}), lambda x: et.saved.save("g", {"f": et.saved.bind(f, layer)}, signatures=x),
    ]  # fmt: skip
    choose, outcomes = random.Random(5), set()
    for i in range(6000):
        if i % 500 == 0:
            plain, arrays, others = values()
        pick = lambda: choose.choice(choose.choice((plain, arrays, others)))  # noqa: E731
        keywords = {choose.choice(["x", "k", "signatures", "assets", "shard_bytes", "max_loop_steps", "opset", "graph", "doc", "é", "function", "sizes", "shapes", "constants", "trainable", "weights_as_arguments"]): pick() for _ in range(choose.choice((0, 0, 1)))}
        try:
            choose.choice(calls)(*[pick() for _ in range(choose.choice((0, 1, 1, 2, 3)))], **keywords)
            outcomes.add("fine")
        except Exception as error:  # noqa: BLE001
            assert not isinstance(error, (SystemError, et.InternalError)), error
            assert not re.search(r"\bstd::|\bsaved::|\bonnx::|\bstablehlo::|Options::", str(error)), error
            outcomes.add(type(error).__name__)
    assert "fine" in outcomes and "InvalidArgumentError" in outcomes
    assert loaded(et.ones((2, 4))).shape == (2, 4)


def test_threads(tmp_path):
    total = et.Variable(0.0, name="total")

    @et.function
    def add(x):
        total.assign_add(et.sum(x))
        return et.sum(x * 2)

    add(et.ones(3)), add(et.ones(4))
    et.saved.save(tmp_path / "f", {"add": add, "total": total})
    program = et.saved.load(tmp_path / "f")
    start = float(program.variable("total").read())
    wrong = []

    def work(i):
        loaded = program.function("add")
        for k in range(200):
            n = (i + k) % 5 + 1
            if float(loaded(et.ones(n))) != 2.0 * n:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and float(program.variable("total").read()) == start + sum((i + k) % 5 + 1 for i in range(8) for k in range(200))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_memory_is_flat(tmp_path):
    layer = et.nn.Dense(4, 4)
    f = et.function(lambda m, x, k=1: {"y": m(x) * k}, name="f")
    f(layer, et.ones((2, 4))), f(layer, et.ones((3, 4)))
    entries = {"f": et.saved.bind(f, layer), "objects": [et.Variable(1.0), 2]}
    et.saved.save(tmp_path / "f", entries)
    loaded, x = et.saved.load(tmp_path / "f").function("f"), et.ones((2, 4))

    def failing():
        with pytest.raises(et.InvalidArgumentError):
            loaded(et.ones((2, 5)))

    calls = {
        "call": (lambda: loaded(x), 10_000),
        "error": (failing, 10_000),
        "load": (lambda: et.saved.load(tmp_path / "f").function("f")(x), 10_000),
        "object": (lambda: loaded.signatures(), 10_000),
        "save": (lambda: et.saved.save(tmp_path / "g", entries), 500),
    }
    for name, (call, count) in calls.items():
        for _ in range(count // 4):
            call()
        gc.collect()
        before, tensors = resident(), et.memory_stats().live_tensors
        for _ in range(count):
            call()
        gc.collect()
        assert resident() - before < 600_000, name
        assert et.memory_stats().live_tensors - tensors < 50, name


# spec: SV-09.b
def test_variables_go_with_the_program(tmp_path):
    big = et.Variable(et.zeros(1_000_000), name="big")
    f = et.function(lambda: big.read() * 2, name="f")
    f()
    et.saved.save(tmp_path / "f", {"f": f, "big": big})
    before = et.memory_stats().live_bytes
    program = et.saved.load(tmp_path / "f")
    loaded = program.function("f")
    assert et.memory_stats().live_bytes >= before + 4_000_000
    del program
    assert loaded().shape == (1_000_000,)
    del loaded
    gc.collect()
    assert et.memory_stats().live_bytes < before + 1_000_000


def test_a_function_that_was_not_loaded():
    with pytest.raises(TypeError, match="Function: no constructor defined"):
        et.saved.Function()
    made = et.saved.Function.__new__(et.saved.Function)  # without its parts
    with pytest.raises(TypeError, match="^this et.saved.Function was not loaded$"):
        made(et.ones(2))
