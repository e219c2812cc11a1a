# SPDX-License-Identifier: Apache-2.0
"""Arguments of staged functions that Python collects: *args and **kwargs, also of methods and with a signature."""
import pytest

import etude as et


def test_args_are_a_tuple_of_the_function():
    seen = []

    @et.function
    def total(*parts):
        seen.append(type(parts))
        y = parts[0]
        for part in parts[1:]:
            y = y + part
        return y

    ones = [et.ones(2) for _ in range(70)]
    assert total(*ones).tolist() == [70.0, 70.0]
    assert total(*ones).tolist() == [70.0, 70.0]
    assert total(*ones[:3]).tolist() == [3.0, 3.0]
    assert seen == [tuple, tuple] and total.trace_count() == 2


def test_args_hold_structures_numbers_and_nothing():
    @et.function
    def f(x, *rest, scale=1.0, **named):
        y = x * scale
        for part in rest:
            y = y + (part["a"] if isinstance(part, dict) else part)
        for part in named.values():
            y = y - part
        return y

    x = et.asarray(1.0)
    assert float(f(x)) == 1.0
    assert float(f(x, 2.0, {"a": x})) == 4.0
    assert float(f(x, 3.0, {"a": x})) == 5.0
    assert float(f(x, x, scale=3.0, other=x)) == 3.0
    assert f.trace_count() == 4


def test_args_of_methods():
    class Counter:
        @et.function
        def add(*args):
            self, x, y = args
            return x + y + self.base

        base = 10

    counter = Counter()
    assert float(counter.add(et.asarray(1.0), et.asarray(2.0))) == 13.0
    assert float(counter.add(et.asarray(2.0), et.asarray(2.0))) == 14.0


def test_args_with_a_signature():
    f = et.function(lambda x, *rest: x, signature=[et.TensorSpec((), et.float32)])
    with pytest.raises(et.InvalidArgumentError, match="argument 'rest' is not in its signature"):
        f(et.asarray(1.0), et.asarray(2.0))


def test_args_stay_alive_while_the_function_is_traced():
    @et.function
    def f(*parts):
        et.py_function(lambda: None, out=())()
        return parts[0] + parts[1]

    assert f(et.ones(3), et.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_keys_that_are_made_at_each_call_are_one_structure():
    @et.function
    def total(parts):
        return parts["a0"] + parts["a1"] + parts[1] * parts[True]

    def made():
        return {**{"a" + str(i): et.asarray(float(i)) for i in range(2)}, 1: et.asarray(3.0)}

    for _ in range(3):
        assert float(total(made())) == 10.0
    assert total.trace_count() == 1
