# SPDX-License-Identifier: Apache-2.0
"""Rows AG of the specification, on the fake backend. test_errors.py has the texts of errors."""

import functools
import warnings

import autograph
import fake
import pytest
from fake import Dataset, Host, run, staged, tensor


def both(f, *arguments):
    """The result of the graph; it must be the result of the plain function."""
    plain = [fake.evaluated(x.value if isinstance(x, Host) else x, {}) for x in arguments]
    expected = f(*plain)
    assert run(f, *arguments) == expected
    assert autograph.convert(f)(*plain) == expected
    return expected


# spec: AG-01.a..c
def test_tensor_loops_are_one_node_and_host_loops_are_copies():
    def over_tensor(x, rows):
        for _ in rows:
            x = x * 3 % 1009
        return x

    def over_range(x):
        for _ in range(100):
            x = x * 3 % 1009
        return x

    loop, copies = staged(over_tensor, 2, list(range(100))), staged(over_range, 2)
    assert loop.names == ["fold"]
    assert copies.names == ["mul", "mod"] * 100
    assert loop(2, list(range(100))) == copies(2) == over_range(2)


# spec: AG-01.a, AG-01.b
def test_choice_is_made_by_the_values_at_hand():
    def f(x, flag):
        if flag:
            x = x + 1
        return x

    assert staged(f, 1, True).names == ["cond"]
    assert staged(f, 1, Host(True)).names == ["add"]
    assert staged(f, 1, Host(False)).names == []


# spec: AG-02
def test_both_branches_are_traced_once_and_one_runs():
    seen = []

    def f(x):
        if x > 0:
            seen.append("then")
            print("positive", x)
            y = x * 2
        else:
            seen.append("else")
            print("negative", x)
            y = -x
        return y

    graph = staged(f, 1)
    assert sorted(seen) == ["else", "then"]
    fake.world.printed.clear()
    assert (graph(3), graph(-4)) == (6, 4)
    assert fake.world.printed == ["positive 3", "negative -4"]
    assert len(seen) == 2


# spec: AG-03
def test_a_name_of_one_branch_may_be_set_if_it_is_not_used_after():
    def f(x):
        if x > 0:
            y = x * 2
            z = y + 1
        else:
            z = x
        return z

    assert staged(f, 1)(5) == 11
    assert both(f, -3) == -3


# spec: AG-05.a, AG-05.b
def test_folds_in_order():
    def digits(rows):
        s = 0
        for i in rows:
            s = s * 10 + i
        return s

    def until(rows):
        s = 0
        for i in rows:
            if i == 9:
                break
            s = s * 10 + i
        return s

    for f in (digits, until):
        assert both(f, [1, 2, 3, 4]) == 1234
        assert both(f, []) == 0
        assert run(f, Host(Dataset([1, 2, 3, 4]))) == 1234
        assert autograph.convert(f)(Dataset([1, 2, 3, 4])) == tensor(1234)
    assert both(until, [1, 2, 9, 4]) == 12
    assert run(until, Host(Dataset([1, 2, 9, 4]))) == 12


# spec: AG-05.a
def test_falling_ranges():
    def f(a, b, c):
        s = 0
        for i in range(a, b, c):
            s = s * 100 + i
        return s

    graph = staged(f, 17, 3, -5)
    assert graph.names == ["range_length", "lt", "while"]
    assert graph(17, 3, -5) == 171207
    assert graph(3, 3, 1) == 0
    assert run(f, Host(17), Host(3), Host(-5)) == 171207


# spec: AG-05.b
def test_iterating_an_iterator_consumes_it():
    def f(rows):
        s = 0
        for i in rows:
            s = s * 10 + i
            if s > 10:
                break
        return s

    iterator = iter([1, 2, 3])
    assert autograph.convert(f)(iterator) == 12
    assert next(iterator) == 3


# spec: AG-07
def test_host_numbers_that_change_become_tensors():
    def f(x):
        n, i = 0, -1
        for i in x:
            n += 1
        if n > 2:
            k = 1
        else:
            k = 2
        return n, i, k

    assert both(f, [5, 6, 7]) == (3, 7, 1)
    assert both(f, [5]) == (1, 5, 2)
    assert both(f, []) == (0, -1, 2)


# spec: AG-07
def test_equal_host_values_stay_host_values():
    def f(x):
        name, n = "start", 0
        if x > 0:
            name, n = "end", 4
        else:
            name, n = "end", 4
        return [x] * n, name

    assert both(f, 1) == ([1, 1, 1, 1], "end")


# spec: AG-08
def test_break_continue_return():
    def evens(rows):
        s = 0
        for i in rows:
            if i % 2 == 1:
                continue
            s += i
        return s

    seen = []

    def stop(rows):
        s = 0
        for i in rows:
            if i > 3:
                break
            print("read", i)
            s += i
        return s

    def find(rows, limit):
        for i in rows:
            for j in rows:
                if i * j > limit:
                    return i * 10 + j
                if j > i:
                    break
        return -1

    assert both(evens, [1, 2, 3, 4, 5]) == 6
    assert run(stop, [1, 2, 3, 4, 5]) == 6
    fake.world.printed.clear()
    run(stop, [1, 2, 3, 4, 5])
    assert fake.world.printed == ["read 1", "read 2", "read 3"]
    assert both(find, [1, 2, 3, 4], 5) == find([1, 2, 3, 4], 5)
    assert both(find, [1, 2, 3, 4], 50) == -1
    assert seen == []


# spec: AG-10.a
def test_a_condition_with_effects_runs_once_per_test():
    def read(n):
        print("test", n)
        return n

    def f(x):
        while read(x) > 0:
            x = x - 1
        return x

    graph = staged(f, 3)
    fake.world.printed.clear()
    assert graph(3) == 0
    assert fake.world.printed == ["test 3", "test 2", "test 1", "test 0"]
    fake.world.printed.clear()
    assert graph(-1) == -1
    assert fake.world.printed == ["test -1"]


# spec: AG-11
def test_logic_is_lazy():
    def loud(x):
        print("seen", x)
        return x > 0

    def f(a, b, c):
        return (loud(a) and loud(b), loud(b) or loud(c), not loud(c))

    graph = staged(f, 1, 1, 1)
    for values in ((1, 1, 1), (0, 1, 0), (0, 0, 1), (1, 0, 0)):
        fake.world.printed.clear()
        found = graph(*values)
        seen = list(fake.world.printed)
        fake.world.printed.clear()
        a, b, c = values
        assert found == (a > 0 and b > 0, b > 0 or c > 0, not c > 0)
        want = [a] + ([b] if a > 0 else []) + [b] + ([] if b > 0 else [c]) + [c]
        assert seen == [f"seen {x}" for x in want]


# spec: AG-11
def test_chained_comparisons_evaluate_the_middle_once():
    def middle(x):
        print("middle", x)
        return x

    def f(a, b, c):
        return a < middle(b) < middle(c)

    graph = staged(f, 1, 2, 3)
    for values, count in (((1, 2, 3), 2), ((1, 2, 1), 2), ((5, 2, 3), 1)):
        fake.world.printed.clear()
        assert graph(*values) == f(*values)
        assert fake.world.printed == [f"middle {x}" for x in values[1:][:count]]


# spec: AG-11
def test_host_operands_keep_their_values():
    def f(x, default):
        return (x or default, x and default, not x, 1 < 2 < x)

    for x in (0, 3, 5):
        assert autograph.convert(f)(x, "d") == f(x, "d")


# spec: AG-12
def test_assertions_are_checked_when_the_graph_runs():
    def f(x):
        assert x > 0, "x must be positive"
        return x

    def lazy(x):
        assert x > 0, x * 2
        return x

    def formatted(x, name):
        assert x > 0, f"{name!r} is {x}, {'a' + name:>4}"
        return x

    graph = staged(f, 1)
    assert graph(3) == 3
    with pytest.raises(
        fake.FailedPrecondition, match="assert: x must be positive\n  at .*test_rows.py:"
    ):
        graph(-1)
    assert graph(3) == 3
    with pytest.raises(fake.FailedPrecondition, match="assert: -8"):
        staged(lazy, 1)(-4)
    with pytest.raises(
        fake.FailedPrecondition, match="assert: 'n' is -4,   an\n  at .*test_rows.py:"
    ):
        staged(formatted, 1, Host("n"))(-4, None)
    with pytest.raises(AssertionError, match="'n' is -4,   an"):
        autograph.convert(formatted)(-4, "n")
    with pytest.raises(AssertionError, match="x must be positive"):
        autograph.convert(f)(-1)


# spec: AG-12
def test_prints_of_tensors_happen_when_the_graph_runs(capsys):
    def f(x):
        print("host")
        print("value", x, sep="=")
        print(f"{x} of {[x, 'a', (x,)]} {3:>3}", {"k": x}, end="!")
        return x

    graph = staged(f, 1)
    assert capsys.readouterr().out == "host\n"
    fake.world.printed.clear()
    graph(7)
    graph(8)
    assert fake.world.printed == [
        "value=7",
        "7 of [7, 'a', (7,)]   3 {'k': 7}!",
        "value=8",
        "8 of [8, 'a', (8,)]   3 {'k': 8}!",
    ]


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
