# SPDX-License-Identifier: Apache-2.0
"""Texts of errors, rows AG-03 to AG-13: the variable, both types, the line, the next step."""

import warnings

import autograph
import fake
import pytest
from fake import Host, staged
from helpers import error_of, line_of


# spec: AG-03
def test_name_of_one_branch_used_after():
    def f(x):
        if x > 0:
            y = x
        return y

    def g(x):
        if x > 0:
            pass
        else:
            y = x
        return y

    text = error_of(fake.InvalidArgument, f, 1)
    assert text == (
        "if: 'y' is set where the condition is true, but not set where it is false. Set it in both "
        "branches, or "
        f"before. It is used at line {line_of(f, 'return y')}\n  at {__file__}:{line_of(f, 'if x')}"
    )
    assert "'y' is set where it is false, but not set where the condition is true" in error_of(
        fake.InvalidArgument, g, 1
    )


# spec: AG-03
def test_attribute_of_one_branch():
    class Net:
        pass

    def f(x, net):
        if x > 0:
            net.y = x
        return x

    text = error_of(fake.InvalidArgument, f, 1, Host(Net()))
    assert "'net.y' is set where the condition is true, but not set where it is false" in text


# spec: AG-04
def test_branches_of_two_dtypes():
    def f(x):
        if x > 0:
            y = x
        else:
            y = x > 1
        return y

    text = error_of(fake.InvalidArgument, f, 1)
    assert text == (
        "if: 'y' is int32[] where the condition is true, but bool[] where it is false. Both "
        "branches must give one "
        "dtype, shape and structure: write 0.0 for a float, or cast with et.astype\n  at "
        f"{__file__}:{line_of(f, 'if x')}"
    )


# spec: AG-04
def test_branches_of_two_structures():
    def pair(x):
        if x > 0:
            y = (x, x)
        else:
            y = x
        return y

    def shape(x, rows):
        if x > 0:
            y = rows
        else:
            y = x
        return y

    def text(x):
        if x > 0:
            y = "a"
        else:
            y = "b"
        return y

    def number(x):
        return 1 if x > 0 else 2.5

    def entry(x):
        y = {"a": x, "b": [x, None]}
        if x > 0:
            y["b"] = [x, x]
        return y

    assert "'y' is a tuple of 2 where the condition is true, but int32[]" in error_of(
        fake.InvalidArgument, pair, 1
    )
    assert "'y' is int32[3] where the condition is true, but int32[]" in error_of(
        fake.InvalidArgument, shape, 1, [1, 2, 3]
    )
    assert "'y' is 'a' where the condition is true, but 'b'" in error_of(
        fake.InvalidArgument, text, 1
    )
    assert (
        "is the number 1 (int32) where the condition is true, but the number 2.5 (float32)"
        in error_of(fake.InvalidArgument, number, 1)
    )
    assert "'y['b'][1]' is int32[] where the condition is true, but None" in error_of(
        fake.InvalidArgument, entry, 1
    )


# spec: AG-04
def test_return_in_one_branch_only():
    def f(x):
        if x > 0:
            return x

    def g(x):
        if x > 0:
            print(x)
        else:
            return x

    text = error_of(fake.InvalidArgument, f, 1)
    assert text == (
        "if: the function returns int32[] where the condition is true, but None where it is false. "
        "Return a value "
        f"there\n  at {__file__}:{line_of(f, 'if x')}"
    )
    assert "returns int32[] where it is false, but None where the condition is true" in error_of(
        fake.InvalidArgument, g, 1
    )


# spec: AG-06.a
def test_loop_variable_changes_its_dtype():
    def f(rows):
        s = 0
        for r in rows:
            s = s + r
        return s

    text = error_of(fake.InvalidArgument, f, [1.5, 2.5])
    assert text == (
        "for: 's' is int32[] before the loop, but float32[] after a step; a variable of a loop "
        "keeps its dtype, "
        f"shape and structure. Start with 0.0\n  at {__file__}:{line_of(f, 'for r')}"
    )


# spec: AG-06.a
def test_loop_variable_changes_its_structure():
    def none(rows):
        best = None
        for r in rows:
            best = r
        return best

    def pair(x):
        y = x
        while x > 0:
            x = x - 1
            y = (y, x)
        return y

    def text(x):
        name = "a"
        while x > 0:
            x = x - 1
            name = name + "b"
        return name

    assert "'best' is None before the loop, but int32[] after a step" in error_of(
        fake.InvalidArgument, none, [1]
    )
    assert "while: 'y' is int32[] before the loop, but a tuple of 2 after a step" in error_of(
        fake.InvalidArgument, pair, 1
    )
    assert "'name' is 'a' before the loop, but 'ab' after a step" in error_of(
        fake.InvalidArgument, text, 1
    )


# spec: AG-06.b
def test_growing_shape():
    def f(x, rows):
        while x > 0:
            x = x - 1
            rows = grown(rows)
        return rows

    def grown(rows):
        n = rows.shape[0] + 1
        return fake.apply("grow", lambda v: v + [0], fake.Spec("int32", (n,), "int"), rows)

    text = error_of(fake.InvalidArgument, f, 1, [1, 2])
    assert "'rows' is int32[2] before the loop, but int32[3] after a step" in text
    assert "use et.scan" in text and "et.while_loop has the option `shapes`" in text


# spec: AG-06.a
def test_loop_variable_must_exist_before():
    def f(rows):
        for r in rows:
            s = s + r  # noqa: F821
        return s

    text = error_of(fake.InvalidArgument, f, [1])
    assert text == (
        "for: 's' has no value before the loop, and its body reads it. Set it before. It is used "
        "at line "
        f"{line_of(f, 's = s')}\n  at {__file__}:{line_of(f, 'for r')}"
    )


# spec: AG-07
def test_the_variable_of_a_loop_does_not_outlive_it():
    def f(rows):
        for i in rows:
            pass
        return i

    text = error_of(fake.InvalidArgument, f, [1])
    assert text.startswith(
        "for: 'i' is the variable of the loop. Set it before the loop, to use it afterwards."
    )
    assert f"at {__file__}:{line_of(f, 'for i')}" in text


# spec: AG-09
def test_host_loop_with_a_jump_on_a_tensor():
    def f(x):
        for k in range(3):
            if x > k:
                break
        return x

    def g(x):
        for k in [1, 2]:
            if x > k:
                return k
        return x

    for loop in (f, g):
        text = error_of(fake.InvalidArgument, loop, 1)
        assert text == (
            "for: a `break` or `return` depends on a tensor, but the loop runs over host values, "
            "so it is unrolled "
            "while tracing. Iterate over a tensor, such as et.arange(n), to make it a loop of the "
            "graph\n  at "
            f"{__file__}:{line_of(loop, 'for k')}"
        )


# spec: AG-09
def test_long_host_loops_warn_once():
    def f(x):
        for _ in range(3000):
            x = x + 1
        return x

    def g(x):
        k = 0
        while k < 3000:
            x, k = x + 1, k + 1
        return x

    for loop, kind in ((f, "for"), (g, "while")):
        with pytest.warns(RuntimeWarning) as found:
            staged(loop, 1)
        assert len(found) == 1
        where = f"the `{kind}` loop at {__file__}:{line_of(loop, kind + ' ')}"
        assert str(found[0].message).startswith(where) and "unrolls it" in str(found[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        autograph.convert(f)(1)


# spec: AG-10.b
def test_conditions_are_single_bools():
    def loop(x):
        while x:
            x = x - 1
        return x

    def branch(rows):
        if rows > 1:
            return 1
        return 2

    def both(x):
        return x > 1 and x

    def negated(x):
        return not x

    assert error_of(fake.InvalidArgument, loop, 1) == (
        "while: the condition is int32[], but must be a single bool. Compare, as in x > 0, and "
        "reduce with et.all() "
        f"or et.any()\n  at {__file__}:{line_of(loop, 'while')}"
    )
    assert "if: the condition is bool[3], but must be a single bool" in error_of(
        fake.InvalidArgument, branch, [1, 2, 3]
    )
    assert "and: the condition is int32[]" in error_of(fake.InvalidArgument, both, 1)
    text = error_of(fake.InvalidArgument, negated, 1)
    assert (
        "not: the condition is int32[]" in text
        and f"{__file__}:{line_of(negated, 'return')}" in text
    )
    assert "an operand beside a tensor is an object of type str, but must be a bool" in error_of(
        fake.InvalidArgument, lambda x: x > 1 or "none", 1
    )


# spec: AG-13
def test_len_of_a_scalar():
    text = error_of(fake.InvalidArgument, lambda x: len(x), 1)
    assert "len: it runs over a scalar, int32[], which has no rows" in text

    def f(x):
        for _ in x:
            pass

    text = error_of(fake.InvalidArgument, f, 1)
    assert (
        f"for: it runs over a scalar, int32[], which has no rows\n  at "
        f"{__file__}:{line_of(f, 'for')}" in text
    )


# spec: AG-13
def test_other_built_in_functions():
    assert "next: a tensor is no iterator" in error_of(fake.InvalidArgument, lambda x: next(x), [1])
    assert "sorted: a tensor is sorted by its elements" in error_of(
        fake.Unimplemented, lambda x: sorted(x, key=abs), [1]
    )
    assert "can be iterated by a `for` statement" in error_of(
        fake.Unimplemented, lambda x: list(range(x)), 3
    )
