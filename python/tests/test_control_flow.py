# SPDX-License-Identifier: Apache-2.0
"""Control-flow conversion on the library: the values of rows AG, and the listings of the Primer."""

import functools
import inspect
import re

import pytest

import etude as et


def t(value, dtype=None):
    return et.asarray(value) if dtype is None else et.asarray(value, dtype=dtype)


def nodes(f, *args):
    """How often each op occurs in the graph of a staged function, loops and branches not looked
    into.
    """
    text = str(f.trace(*args))
    return [m for m in re.findall(r"= (\w+)\(", text)]


def line_of(f, text):
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, line in enumerate(lines) if text in line)


def same(f, *args):
    """The staged result; it must be the result of the plain function."""
    staged = et.function(f)(*args)
    assert str(staged) == str(f(*args))
    return staged


# spec: AG-01.a..c
def test_loops_over_tensors_and_over_ranges():
    def matmul_many(tensor):
        accum = tensor
        for _ in et.arange(100):
            accum = et.matmul(accum, tensor)
        return accum

    def unrolled(tensor):
        accum = tensor
        for _ in range(100):
            accum = et.matmul(accum, tensor)
        return accum

    ones = et.ones((2, 2)) / 2
    loop, copies = et.function(matmul_many), et.function(unrolled)
    assert str(loop(ones)) == str(copies(ones)) == str(matmul_many(ones))
    assert nodes(loop, ones).count("matmul") == 1  # in the body of the loop
    assert nodes(copies, ones).count("matmul") == 100


# spec: AG-02
def test_branches(capfd):
    traced = []

    @et.function
    def f(x):
        if x > 0:
            traced.append("then")
            y = x * 2
        else:
            traced.append("else")
            y = -x
        return y

    assert [float(f(t(v))) for v in (3.0, -4.0)] == [6.0, 4.0]
    assert sorted(traced) == ["else", "then"]


# spec: AG-03
def test_a_name_of_one_branch():
    def f(x):
        if x > 0:
            y = x
        return y

    with pytest.raises(et.InvalidArgumentError) as found:
        et.function(f)(t(1.0))
    text = str(found.value)
    assert "'y' is set where the condition is true, but not set where it is false" in text
    assert f"{__file__}:{line_of(f, 'if x')}" in text


# spec: AG-04
def test_branches_of_two_types():
    @et.function
    def dtypes(x):
        if x > 0:
            y = x
        else:
            y = et.astype(x, et.int32)
        return y

    @et.function
    def returns(x):
        if x > 0:
            return x

    with pytest.raises(et.InvalidArgumentError, match=r"'y' is float32\[\] where .* but int32\[\]"):
        dtypes(t(1.0))
    with pytest.raises(
        et.InvalidArgumentError, match=r"returns float32\[\] where .* but None where it is false"
    ):
        returns(t(1.0))


# spec: AG-05.a
def test_folds_in_order():
    def digits(xs):
        s = 0
        for i in xs:
            s = s * 10 + i
        return s

    def until(xs):
        s = 0
        for i in xs:
            if i > 3:
                break
            s = s * 10 + i
        return s

    assert int(same(digits, t([1, 2, 3, 4]))) == 1234
    assert int(same(until, t([1, 2, 3, 4]))) == 123
    assert int(et.function(digits)(et.zeros((0,), dtype=et.int32))) == 0
    assert int(et.function(until)(et.zeros((0,), dtype=et.int32))) == 0


# spec: AG-05.a
def test_falling_range():
    @et.function
    def f(a, b, c):
        s = 0
        for i in range(a, b, c):
            s = s * 100 + i
        return s

    assert int(f(t(17), t(3), t(-5))) == 171207
    assert int(f(t(3), t(3), t(1))) == 0
    assert f.trace_count() == 1


# spec: AG-06.a
def test_loop_variables_keep_their_types():
    def f(xs):
        s = 0
        for x in xs:
            s = s + x
        return s

    with pytest.raises(et.InvalidArgumentError) as found:
        et.function(f)(t([1.5, 2.5]))
    text = str(found.value)
    assert "'s' is int32[] before the loop, but float32[] after a step" in text
    assert "Start with 0.0" in text and f"{__file__}:{line_of(f, 'for x')}" in text


# spec: AG-07
def test_numbers_become_tensors():
    def f(xs):
        n, i = 0, -1.0
        for i in xs:
            n += 1
        k = 1 if n > 2 else 2
        return n, i, k

    assert [float(x) for x in et.function(f)(t([5.0, 6.0, 7.0]))] == [3, 7, 1]


# spec: AG-08
def test_break_continue_return():
    def evens(xs):
        s = 0
        for i in xs:
            if i % 2 == 1:
                continue
            s += i
        return s

    def find(xs, limit):
        for i in xs:
            for j in xs:
                if i * j > limit:
                    return i * 10 + j
                if j > i:
                    break
        return -1

    assert int(same(evens, t([1, 2, 3, 4, 5]))) == 6
    for limit in (5, 50):
        assert int(et.function(find)(t([1, 2, 3, 4]), t(limit))) == int(
            find(t([1, 2, 3, 4]), t(limit))
        )


# spec: AG-09
def test_host_loops_with_a_break_on_a_tensor():
    @et.function
    def f(x):
        for k in range(3):
            if x > k:
                break
        return x

    with pytest.raises(
        et.InvalidArgumentError, match="so it is unrolled while tracing. Iterate over a tensor"
    ):
        f(t(1.0))


# spec: AG-10.a
def test_a_condition_with_effects():
    count = et.Variable(0)

    @et.function
    def f(x):
        def goes_on(x):
            count.assign_add(1)
            return x > 0

        while goes_on(x):
            x = x - 1
        return x

    assert float(f(t(3.0))) == 0
    assert int(count.read()) == 4


# spec: AG-10.b
def test_conditions_are_single_bools():
    @et.function
    def number(x):
        while x:
            x = x - 1
        return x

    @et.function
    def vector(x):
        return 1 if x > 0 else 2

    with pytest.raises(
        et.InvalidArgumentError, match=r"the condition is int32\[\], but must be a single bool"
    ):
        number(t(3))
    with pytest.raises(
        et.InvalidArgumentError, match=r"the condition is bool\[3\], but must be a single bool"
    ):
        vector(t([1.0, 2.0, 3.0]))


# spec: AG-11
def test_logic_is_lazy():
    seen = et.Variable(0)

    def loud(x):
        seen.assign_add(1)
        return x > 0

    @et.function
    def f(a, b):
        return loud(a) and loud(b), loud(a) or loud(b), not loud(a), 0 < a < b

    for (a, b), count in (((1.0, 1.0), 4), ((0.0, 1.0), 4)):
        seen.assign(0)
        found = [bool(x) for x in f(t(a), t(b))]
        assert found == [a > 0 and b > 0, a > 0 or b > 0, not a > 0, 0 < a < b]
        assert int(seen.read()) == count


# spec: AG-12
def test_assertions_and_prints(capfd):
    @et.function
    def f(x):
        assert x > 0, f"x is {x}"
        print("value", x, f"twice={x * 2}")
        return x

    @et.function
    def plain(x):
        assert x > 0, "x must be positive"
        return x

    assert float(f(t(2.0))) == 2
    assert float(f(t(3.0))) == 3
    assert capfd.readouterr().out.split("\n")[:2] == ["value 2. twice=4.", "value 3. twice=6."]
    with pytest.raises(et.FailedPreconditionError, match="x is -1"):
        f(t(-1.0))
    with pytest.raises(et.FailedPreconditionError, match="x must be positive"):
        plain(t(-1.0))
    assert float(plain(t(1.0))) == 1


# spec: AG-13
def test_built_in_functions():
    def f(x, y, rows):
        total = 0
        for k, (a, b) in enumerate(zip(rows, range(10))):
            total += k * 100 + a * b
        for value in map(lambda v: v * v, rows):
            total += value
        return (
            len(rows),
            total,
            abs(x),
            int(y),
            float(x),
            any(r > 2 for r in rows),
            all(rows),
            sorted(rows),
        )

    n, total, size, whole, real, some, every, ordered = et.function(f)(t(-3), t(2.5), t([3, 1, 2]))
    assert (int(n), int(total), int(size), int(whole), float(real)) == (3, 319, 3, 2, -3.0)
    assert bool(some) and bool(every) and ordered.tolist() == [1, 2, 3]
    with pytest.raises(et.InvalidArgumentError, match="len: it runs over a scalar"):
        et.function(lambda x: len(x))(t(1.0))


# spec: AG-14.a, AG-14.b
def test_state_of_objects():
    class Counter:
        def __init__(self):
            self.total = 0

    def collect(xs):
        out = xs * 0
        k = 0
        for x in xs:
            out[k] = x * x
            k += 1
        return out

    @et.function
    def count(xs):
        counter, table = Counter(), {"n": 0}
        for x in xs:
            counter.total += x
            table["n"] = table["n"] + 1
        return counter.total, table["n"]

    @et.function
    def append(xs):
        found = []
        for x in xs:
            found.append(x)
        return found

    assert et.function(collect)(t([1.0, 2.0, 3.0])).tolist() == [1, 4, 9]
    assert [int(x) for x in count(t([1, 2, 3]))] == [6, 3]
    with pytest.raises(et.FailedPreconditionError, match="Use et.scan"):
        append(t([1.0]))


# spec: AG-15
def test_called_functions():
    def helper(x):
        if x > 0:
            return 1.0
        return -1.0

    class Net(et.Module):
        def __init__(self):
            self.w = t(2.0)

        def __call__(self, x):
            if x > 5:
                x = x - 5
            return x * self.w

    net = Net()

    @et.function
    def f(x):
        return net(x), helper(x), (lambda v: v + 1 if v > 0 else v)(x)

    for x in (7.0, -3.0):
        assert [float(y) for y in f(t(x))] == [float(net(t(x))), helper(x), x + 1 if x > 0 else x]


# spec: AG-15
def test_operators_convert_their_functions():
    def loss(x):
        if x > 0:
            return x * x
        return -x

    @et.function
    def slope(x):
        return et.gradient(loss)(x)

    assert [float(slope(t(x))) for x in (3.0, -2.0)] == [6, -1]


# spec: AG-16, AG-20.c
def test_functions_without_source():
    names = {}
    exec("def f(x):\n    if x > 0:\n        return x\n    return -x\n", names)
    with pytest.warns(RuntimeWarning, match="'f' .* runs without conversion"):
        with pytest.raises(et.FailedPreconditionError) as found:
            et.function(names["f"])(t(1.0))
    assert "'f' was not converted" in str(found.value) and "there is no source" in str(found.value)
    with pytest.raises(et.FailedPreconditionError, match="which is being traced"):
        et.function(lambda x: 1 if x > 0 else 2, convert=False)(t(1.0))


# spec: AG-17
def test_unconverted_forms():
    def numbers(x):
        yield x

    @et.function
    def caught(x):
        try:
            if x > 0:
                x = x + 1
        except ValueError:
            x = 0
        return x

    with pytest.raises(et.UnimplementedError, match="numbers' is a generator"):
        et.function(numbers)(t(1.0))
    with pytest.raises(et.UnimplementedError, match="inside the `try` of line"):
        caught(t(1.0))


# spec: AG-18
def test_errors_show_the_users_line():
    def f(x):
        y = x
        if y > 0:
            y = y + et.ones((3,))[:2] + et.ones((3,))
        return y

    with pytest.raises(et.InvalidArgumentError) as found:
        et.function(f)(t(1.0))
    entries = inspect.getinnerframes(found.value.__traceback__)
    assert any(e.filename == __file__ and e.lineno == line_of(f, "y + et") for e in entries)
    assert any(e.function == "f (converted)" for e in entries)
    assert f"{__file__}:{line_of(f, 'y + et')}" in str(found.value)


# spec: AG-19.a, AG-19.c
def test_values_first_defined_in_a_body():
    def g(x):
        while x > 10:
            half = x // 2
            x = half
        return half

    staged = et.function(g)
    assert float(staged(t(40.0))) == 10
    with pytest.raises(et.FailedPreconditionError, match="the body of the loop sets 'half'"):
        staged(t(5.0))

    @et.function
    def variable(x):
        if x > 0:
            v = et.Variable(1.0)
            x = x + v
        return x

    with pytest.raises(et.FailedPreconditionError):
        variable(t(1.0))


def test_integers_of_branches_and_loops_do_not_wrap():
    @et.function
    def branches(p):
        y = 1
        if p:
            y = 2**40
        return y

    found = [branches(t(p)) for p in (True, False)]
    assert [str(y.dtype) for y in found] == ["int64", "int64"]
    assert [int(y) for y in found] == [2**40, 1]

    @et.function
    def steps(n):
        k, i = 0, 0
        while i < n:
            i += 1
            k = 2**40
        return k

    assert [int(steps(t(n))) for n in (3, 0)] == [2**40, 0]

    @et.function
    def narrow(p):
        y = t(1)
        if p:
            y = 2**40
        return y

    with pytest.raises(et.InvalidArgumentError, match=r"'y' is the number 1099511627776 \(int64\).*but int32"):
        narrow(t(True))

    @et.function
    def rows(n):
        s = 0
        for i in range(2**40, n):
            s = i
        return s

    with pytest.raises(et.InvalidArgumentError, match="1099511627776 is outside the range of int32"):
        rows(t(5))


def test_conversions_to_host_numbers_keep_wide_values():
    assert int(et.function(lambda x: int(x) + 1)(t(2**40))) == 2**40 + 1
    assert float(et.function(lambda x: float(x) * 3)(t(0.1, et.float64))) == 0.1 * 3
    assert et.function(lambda x: float(x))(t(3)).dtype == et.float32


def test_numbers_of_branches_have_the_default_dtype():
    def scaled(p, x):
        k = 0.1 if p else 0.2
        return x * k

    x = t(1.0, et.float64)
    assert float(et.function(scaled)(t(True), x)) == float(t(0.1))
    et.set_default_dtype(et.float64)
    try:
        assert float(et.function(scaled)(t(True), x)) == 0.1
    finally:
        et.set_default_dtype(et.float32)


def test_functions_of_operators_are_converted():
    def loss(x):
        if x > 0:
            return x * x
        return -x

    for x, slope in ((3.0, 6.0), (-3.0, -1.0)):
        assert float(et.function(et.gradient(loss))(t(x))) == slope
        assert float(et.function(et.value_with_gradient(loss))(t(x))[1]) == slope
        assert float(et.function(et.jacobian(loss))(t(x))) == slope
    of_loss = et.gradient(loss)
    assert float(et.function(lambda x: 2 * of_loss(x))(t(3.0))) == 12.0
    assert float(et.function(et.gradient(et.gradient(loss)))(t(3.0))) == 2.0

    @functools.wraps(of_loss)
    def of_user(x):
        return of_loss(x) + 1

    assert float(et.function(of_user)(t(3.0))) == 7.0
