# SPDX-License-Identifier: Apache-2.0
"""Rows AG-13 to AG-19, on the fake backend: built-in functions, state, calls."""

import functools
import warnings

import autograph
import fake
import pytest
from fake import Host, run, staged
from helpers import both


# spec: AG-13
def test_built_in_functions_follow_tensors():
    def f(x, y, rows):
        n = len(rows)
        total = 0
        for k, (a, b) in enumerate(zip(rows, range(10))):
            total += k * 100 + a * b
        for value in map(lambda v: v * v, rows):
            total += value
        return n, total, abs(x), int(y), float(x), any(r > 2 for r in rows), all(rows), sorted(rows)

    assert both(f, -3, 2.5, [3, 1, 2]) == (
        3,
        300 + 0 + 1 + 4 + 14,
        3,
        2,
        -3.0,
        True,
        True,
        [1, 2, 3],
    )


# spec: AG-13
def test_len_of_an_unknown_size_is_a_tensor():
    def f(rows):
        return len(rows)

    scope = fake.Scope(None)
    with fake.inside(scope):
        rows = fake.Tensor("int32", (None,), scope=scope)
        size = autograph.convert(f)(rows)
    assert isinstance(size, fake.Tensor)
    known = {id(rows): [1, 2, 3]}
    fake.run_nodes(scope, known)
    assert fake.read(known, size) == 3


# spec: AG-13
def test_built_in_functions_of_host_values_are_those_of_python():
    def f(rows):
        return (
            len(rows),
            list(range(3)),
            list(enumerate(rows)),
            list(zip(rows, rows)),
            list(map(str, rows)),
            abs(-1),
            int("7"),
            float("1.5"),
            any([]),
            all([]),
            sorted(rows, reverse=True),
            next(iter(rows)),
        )

    assert autograph.convert(f)([1, 2]) == f([1, 2])
    with pytest.raises(ValueError):
        autograph.convert(lambda: list(zip([1], [1, 2], strict=True)))()


# spec: AG-14.b
def test_attributes_and_entries_are_state():
    class Counter:
        pass

    def f(x, rows, counter, table):
        counter.total, table["n"] = 0, 0
        for r in rows:
            counter.total += r
            table["n"] = table["n"] + 1
        if x > 0:
            counter.total = counter.total * 2
        return counter.total, table["n"]

    counter, table = Counter(), {}
    graph = staged(f, 1, [1, 2, 3], Host(counter), Host(table))
    assert graph(1, [1, 2, 3], None, None) == (12, 3)
    assert graph(-1, [1, 2, 5], None, None) == (8, 3)


# spec: AG-14.b
def test_a_tensor_made_before_the_loop_collects_rows():
    def f(x, rows):
        out = rows * 0
        same = out
        k = 0
        for r in rows:
            out[k] = r * x
            k += 1
        return out, same

    assert run(f, 3, [1, 2, 4]) == ([3, 6, 12], [3, 6, 12])


def test_lists_in_branches():
    def f(x):
        found = [x]
        if x > 0:
            found.append(x * 2)
            found[0] = 1
        else:
            found += [x * 3]
        return found

    assert both(f, 4) == [1, 8]
    assert both(f, -4) == [-4, -12]


# spec: AG-15
def test_called_functions_are_converted():
    def helper(x):
        if x > 0:
            return 1
        return -1

    class Net:
        scale = 10

        def __call__(self, x):
            if x > 5:
                x = x - 5
            return x * self.scale

        def method(self, x, *, plus=1):
            return helper(x) + plus

        @staticmethod
        def static(x):
            return 1 if x > 2 else 0

        @classmethod
        def of_class(cls, x):
            return cls.scale if x > 2 else 0

    class Child(Net):
        def method(self, x, *, plus=1):
            if x > 100:
                return super().method(x)
            return super().method(x, plus=2) + 1

    def f(x):
        net, child = Net(), Child()
        return (
            net(x),
            net.method(x),
            child.method(x),
            Net.static(x),
            Net.of_class(x),
            child.of_class(x),
            functools.partial(helper, x=x)(),
            (lambda v: v + 1 if v > 0 else v)(x),
            Net.method(net, x),
        )

    for x in (7, 1, -3, 200):
        assert both(f, x) == f(x)


# spec: AG-15
def test_decorators_closures_and_defaults():
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            first = f(*args, **kwargs)
            if first > 10:
                return first
            return f(first)

        return wrapper

    scale = 2

    @twice
    def g(x, plus=3):
        return x * scale + plus if x > 0 else x

    def f(x):
        def inner(y=x):
            nonlocal x
            if y > 3:
                x = y * 10
            return x

        inner()
        return g(x) + inner(1)

    for x in (1, 2, 9, -4):
        assert both(f, x) == f(x)
    scale = 5
    assert run(f, 2) == f(2)


# spec: AG-15
def test_constructors_library_code_and_marked_functions_are_not_converted():
    class Made:
        def __init__(self, x):
            self.y = 1 if x > 0 else 2

    @autograph.do_not_convert
    def marked(x):
        return 1 if x > 0 else 2

    def nested(x):
        @autograph.do_not_convert
        def inner(y):
            return 1 if y > 0 else 2

        return inner(x)

    for f in (
        lambda x: Made(x).y,
        marked,
        lambda x: marked(x),
        nested,
        lambda x: functools.reduce(max, [x, 1]),
    ):
        with pytest.raises(fake.FailedPrecondition, match="has no value while tracing"):
            run(f, 3)
        f(3)


# spec: AG-15
def test_operators_of_the_library_get_converted_functions():
    def operator(f, x):
        return f(x) + 1

    operator.takes_functions = True
    operator.__module__ = "json"  # as library code

    def helper(x):
        return 1 if x > 0 else 2

    assert both(lambda x: operator(helper, x), 5) == 2


# spec: AG-17
def test_forms_that_cannot_be_staged_run_as_host_code():
    def numbers(n):
        for k in range(n):
            if k % 2:
                yield k

    def f(n):
        for k in range(n):
            if k == 7:
                break
        else:
            n = -1
        while n > 100:
            n -= 1
            break
        else:
            n += 1000
        try:
            if n < 0:
                raise KeyError(n)
        except KeyError as error:
            n = error.args[0]
        total = 0
        for k in numbers(6):
            total += k
        del k
        return n, total

    for n in (3, 9):
        assert autograph.convert(f)(n) == f(n)
        assert run(f, Host(n)) == f(n)


# spec: AG-19.c
def test_a_value_first_defined_in_a_body():
    def f(rows):
        for r in rows:
            last = r * 2
        return last

    def g(x):
        while x > 10:
            half = x // 2
            x = half
        return half

    assert both(f, [1, 2, 3]) == 6
    graph = staged(g, 40)
    assert graph(40) == 10
    with pytest.raises(
        fake.FailedPrecondition, match="the body of the loop sets 'half'.*but it did not run"
    ):
        graph(5)


# spec: AG-08
def test_a_return_that_only_later_steps_reach():
    def f(rows):
        x = 1
        for r in rows:
            if x == 11:
                return r
            x = 11
        return -1

    assert both(f, [5, 0, -1, 7]) == 0
    assert both(f, [5]) == -1


def test_loops_inside_with_and_try():
    events = []

    class Log:
        def __enter__(self):
            events.append("enter")

        def __exit__(self, *_):
            events.append("exit")

    def f(rows):
        with Log():
            for r in rows:
                if r > 2:
                    return r
        try:
            s = 0
            for r in rows:
                s += r
        finally:
            events.append("finally")
        return s

    assert run(f, [1, 2, 5, 7]) == 5
    assert run(f, [1, 1]) == 2
    assert events == ["enter", "exit", "finally"] * 2


def test_recursion_on_host_values():
    def fact(n):
        if n <= 1:
            return 1
        return n * fact(n - 1)

    def f(x):
        return fact(5) * x

    assert both(f, 2) == 240

    def deep(n):
        if n == 0:
            return 0
        return 1 + deep(n - 1)

    assert autograph.convert(deep)(300) == 300


def test_a_wider_number_restarts_the_trace():
    def f(x, rows):
        s, best = 0.0, 0.0
        for r in rows:
            s = s + r
        if s > 1:
            best = s
        return s, best

    scope = fake.Scope(None)
    with fake.inside(scope):
        rows = fake.Tensor("float64", (2,), scope=scope)
        s, best = autograph.convert(f)(1, rows)
    assert s.dtype == best.dtype == "float64"


def test_nothing_is_warned_about_plain_code():
    def f(x):
        return [v * 2 for v in range(3) if v > 0], {v: v for v in "ab"}, x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(f, 1) == ([2, 4], {"a": "a", "b": "b"}, 1)
