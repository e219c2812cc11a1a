# SPDX-License-Identifier: Apache-2.0
"""Rows AG-01 to AG-12 of the specification, on the fake backend; errors are in test_errors.py."""

import autograph
import fake
import pytest
from fake import Dataset, Host, run, staged, tensor
from helpers import both


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
