# SPDX-License-Identifier: Apache-2.0
"""Data sets, frames, and workers."""

import numpy as np
import pytest

import etude as et


# spec: AG-05.b
def test_a_loop_over_a_data_set_is_one_loop_of_the_graph():
    data = et.data.from_tensors(et.asarray([1, 2, 3, 4]))

    def digits(s, most):
        for x in data:
            if x > most:
                break
            s = s * 10 + x
        return s

    def whole(s):
        for x in data:
            s = s * 10 + x
        return s

    start = et.asarray(0)
    staged, folded = et.function(digits), et.function(whole)
    for most in (9, 2):
        assert int(digits(start, et.asarray(most))) == int(staged(start, et.asarray(most))) == (1234 if most == 9 else 12)
    assert int(whole(start)) == int(folded(start)) == 1234
    assert str(staged.traces()[0]).count("while") == 1
    assert str(folded.traces()[0]).count("scan(") == 1 and str(folded.traces()[0]).count("multiply(") == 1


# spec: AG-05.b
def test_an_empty_data_set_leaves_the_start():
    data = et.data.from_tensors(et.zeros((0,), dtype=et.int32))

    @et.function
    def f(s):
        for x in data:
            s = s * 10 + x
        return s

    assert int(f(et.asarray(7))) == 7


def test_rows_of_structures_batches_and_maps():
    xs, ys = et.asarray([[1.0], [2.0], [3.0], [4.0], [5.0]]), np.array([10.0, 20.0, 30.0, 40.0, 50.0], np.float32)
    data = et.data.from_tensors({"x": xs, "y": ys})
    assert len(data) == 5 and [row["y"].item() for row in data] == [10.0, 20.0, 30.0, 40.0, 50.0]
    pairs = data.batch(2).map(lambda row: (row["x"], row["y"] / 10))
    assert len(pairs) == 2
    assert [(x.tolist(), y.tolist()) for x, y in pairs] == [
        ([[1.0], [2.0]], [1.0, 2.0]),
        ([[3.0], [4.0]], [3.0, 4.0]),
    ]

    def total(s):
        for x, y in pairs:
            s = s + et.sum(x[:, 0] * y)
        return s

    assert float(et.function(total)(et.asarray(0.0))) == float(total(et.asarray(0.0))) == 30.0
    model = et.nn.Dense(1, 1)
    history = et.nn.fit(
        model, et.optim.SGD(lr=0.01), pairs.map(lambda row: (row[0], row[1][:, None])),
        lambda p, t: et.mean((p - t) ** 2), epochs=2,
    )  # fmt: skip
    assert len(history.batch_losses) == 4


def test_data_sets_refuse_what_they_cannot_hold():
    with pytest.raises(et.InvalidArgumentError, match=r"the shapes are \['x'\]: \[2\], \['y'\]: \[3\]"):
        et.data.from_tensors({"x": et.ones(2), "y": et.ones(3)})
    with pytest.raises(et.InvalidArgumentError, match="same size along axis 0"):
        et.data.from_tensors(et.asarray(1.0))
    with pytest.raises(et.InvalidArgumentError, match="size is 3, but there are 2 rows"):
        et.data.from_tensors(et.ones(2)).batch(3)
    with pytest.raises(et.InvalidArgumentError, match=r"call batch\(\) before map\(\)"):
        et.data.from_tensors(et.ones(2)).map(abs).batch(1)


def test_a_loader_iterates_over_the_rest_of_its_epoch():
    data = et.data.Loader(et.arange(10), et.arange(10), batch=3, shuffle=False)
    assert len(data) == 3
    data.next()
    assert [x.tolist() for x, y in data] == [[3, 4, 5], [6, 7, 8]] and data.position == (1, 0)
    assert len(list(data)) == 3 and data.position == (2, 0)


class Frame:
    """What from_frame needs of a DataFrame."""

    def __init__(self, **columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        values = self._columns[name]

        class Column:
            def to_numpy(self):
                return values

        return Column()


def table(make):
    return make(
        height=np.array([1.0, 2.0, 3.0]), count=np.array([1, 2, 3], np.int64), kind=np.array([0, 1, 0], np.int64),
        ok=np.array([True, False, True]), price=np.array([0.5, 1.5, 2.5]),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["like a frame", "pandas"])
def test_frames(kind):
    make = Frame
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        make = lambda **columns: pandas.DataFrame(columns)  # noqa: E731
        # A column and a frame are arrays, also as arguments of staged functions.
        frame, double = table(make), et.function(lambda x: x * 2)
        assert double(frame["price"]).tolist() == [1.0, 3.0, 5.0] and double(frame["price"]).dtype == et.float64
        assert double(frame[["height", "price"]])[0].tolist() == [2.0, 1.0] and double.trace_count() <= 2
        assert pandas.Series(et.ones(2)).tolist() == [1.0, 1.0]
    x, y = et.data.from_frame(table(make), "kind")
    assert x.shape == (3, 4) and x.dtype == et.float32 and y.dtype == et.int32
    assert x[0].tolist() == [1.0, 1.0, 1.0, 0.5] and y.tolist() == [0, 1, 0]
    x, y = et.data.from_frame(table(make), ["price", "height"], dtype=et.float64)
    assert x.shape == (3, 3) and y.dtype == et.float64 and y.tolist() == [[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]]
    with pytest.raises(et.InvalidArgumentError, match="no column 'size', but 'height', 'count'"):
        et.data.from_frame(table(make), "size")
    words = make(word=np.array(["a", "b"], object), y=np.array([1.0, 2.0]))
    with pytest.raises(et.InvalidArgumentError, match=r"column 'word' has dtype object.*cat\.codes"):
        et.data.from_frame(words, "y")


WORKERS = """
import etude as et

def square(x):
    if isinstance(x, str):
        raise ValueError(f"no number: {x}")
    return et.asarray([float(x)]) ** 2

def pair(i):
    return et.ones((4, 2)) * i, et.ones((4, 1))

def data():
    return et.data.parallel_map(pair, range(3), workers=1)

if __name__ == "__main__":
    results = list(et.data.parallel_map(square, range(7), workers=2, ahead=2))
    assert [r.item() for r in results] == [0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0]
    try:
        list(et.data.parallel_map(square, [1, "x", 2], workers=1))
    except ValueError as error:
        assert str(error) == "no number: x"
    else:
        raise AssertionError("the error of a worker is lost")
    endless = et.data.parallel_map(square, iter(int, 1), workers=1)
    assert next(endless).item() == 0.0
    endless.close()
    model = et.nn.Dense(2, 1)
    history = et.nn.fit(model, et.optim.SGD(lr=0.01), data, lambda p, t: et.mean((p - t) ** 2), epochs=2)
    assert len(history.batch_losses) == 6
    print("done")
"""


def test_workers_keep_the_order_pass_errors_on_and_end(run_program):
    run_program(WORKERS)


def test_options_of_workers():
    for options in ({"workers": 0}, {"ahead": 0}):
        with pytest.raises(et.InvalidArgumentError, match="must be at least 1"):
            next(et.data.parallel_map(abs, [1], **options))


def test_errors_of_loaders_say_how_to_make_one():
    with pytest.raises(et.InvalidArgumentError, match="labels are missing.*from_tensors"):
        et.data.Loader(et.ones((4, 2)), batch=1)
    with pytest.raises(et.InvalidArgumentError, match="options are given by name"):
        et.data.Loader(et.ones((4, 2)), et.ones(4), 2)
    with pytest.raises(et.InvalidArgumentError, match="batch is 'all', but must be an integer"):
        et.data.Loader(et.ones((4, 2)), et.ones(4), batch="all")
