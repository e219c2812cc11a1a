# SPDX-License-Identifier: Apache-2.0
"""Texts of the errors of rows AG: each names the variable, both types, the user's line and the next
step.
"""

import inspect
import re
import traceback
import warnings

import autograph
import fake
import pytest
from fake import Host, run, staged

HERE = re.escape(__file__)


def line_of(f, text):
    """The line of this file on which `text` stands in `f`."""
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, line in enumerate(lines) if text in line)


def error_of(kind, f, *arguments):
    with pytest.raises(kind) as found:
        run(f, *arguments)
    return str(found.value)


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


# spec: AG-14.a, AG-14.b
def test_appending_in_a_staged_loop():
    def f(rows):
        found = []
        for r in rows:
            found.append(r)
        return found

    def g(rows, table):
        for r in rows:
            table[0] = r
            table.update(last=r)
        return rows

    text = error_of(fake.FailedPrecondition, f, [1, 2])
    assert text == (
        "for: its body changes the list 'found' from a list of 0 to a list of 1, but a graph "
        "cannot keep tensors of "
        "single steps there. Use et.scan, which stacks a row of each step, or write into a tensor "
        "made before the "
        f"loop: rows[i] = value\n  at {__file__}:{line_of(f, 'for r')}"
    )
    assert "changes the dict 'table' from a dict of 1 to a dict of 2" in error_of(
        fake.FailedPrecondition, g, [1], Host({0: 3})
    )


# spec: AG-14.a
def test_state_of_an_unconverted_method_leaks():
    class Net:
        total = 0

        @autograph.do_not_convert
        def add(self, r):
            self.total = self.total + r

    def f(rows):
        net = Net()
        for r in rows:
            net.add(r)
        return net.total * 2

    assert "is used outside of its trace" in error_of(fake.FailedPrecondition, f, [1])


# spec: AG-16
def test_functions_without_source():
    names = {}
    exec("def f(x):\n    if x > 0:\n        return x\n    return -x\n", names)
    f = names["f"]

    def g(x):
        return f(x)

    with pytest.warns(RuntimeWarning) as found:
        text = error_of(fake.FailedPrecondition, g, 1)
        assert error_of(fake.FailedPrecondition, f, 1) == text
    assert len(found) == 1
    message = str(found[0].message)
    assert message.startswith(
        "'f' (<string>:1) runs without conversion of its control flow: there is no source for"
    )
    assert "use et.cond or et.while_loop" in message
    assert text.startswith("bool[] has no value while tracing")
    assert (
        "'f' was not converted, so its control flow cannot depend on tensors: there is no source "
        "for" in text
    )
    assert text.endswith("at <string>:1")
    assert run(g, Host(-3)) == 3


# spec: AG-16
def test_lambdas_on_one_line_are_told_apart():
    pair = [lambda x: x if x > 0 else -x, lambda x: x if x > 5 else 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [run(f, -7) for f in pair] == [7, 5]


# spec: AG-17
def test_else_of_staged_loops():
    def f(rows):
        for r in rows:
            if r > 2:
                break
        else:
            return 1
        return 2

    def g(x):
        while x > 0:
            x = x - 1
        else:
            x = x + 10
        return x

    for loop, kind in ((f, "for"), (g, "while")):
        assert error_of(fake.Unimplemented, loop, [1] if kind == "for" else 1) == (
            f"{kind}: a `{kind}` with `else` that depends on a tensor is not converted. Use a flag "
            "and an `if`\n  at "
            f"{__file__}:{line_of(loop, kind + ' ')}"
        )


# spec: AG-17
def test_generators_are_refused_by_name():
    def numbers(x):
        if x > 0:
            yield x

    async def later(x):
        return x

    text = error_of(fake.Unimplemented, numbers, 1)
    assert "numbers' is a generator, which cannot be staged" in text
    assert text.endswith(f"at {__file__}:{line_of(numbers, 'def')}")
    assert "later' is an async function" in error_of(fake.Unimplemented, later, 1)
    text = error_of(fake.FailedPrecondition, lambda x: list(numbers(x)), 1)
    assert "'numbers' was not converted" in text and "it is a generator" in text


# spec: AG-17
def test_deleted_state():
    def f(x):
        y = x
        while x > 0:
            x = x - 1
            del y
        return y

    def g(x):
        y = x
        if x > 0:
            del y
        return y

    text = error_of(fake.Unimplemented, f, 1)
    assert "while: its body deletes 'y', which is state of the loop. Assign to it" in text
    assert f"{__file__}:{line_of(f, 'while')}" in text
    assert "'y' is set where it is false, but deleted where the condition is true" in error_of(
        fake.InvalidArgument, g, 1
    )


# spec: AG-17
def test_exceptions_around_staged_control_flow():
    def f(x):
        try:
            if x > 0:
                x = x + 1
        except ValueError:
            x = 0
        return x

    def g(rows):
        try:
            for r in rows:
                print(r)
        except ValueError:
            pass

    def h(x):
        if x > 0:
            raise ValueError(x)
        return x

    text = error_of(fake.Unimplemented, f, 1)
    assert f"if: it depends on a tensor inside the `try` of line {line_of(f, 'try')}" in text
    assert f"at {__file__}:{line_of(f, 'if x')}" in text
    assert f"for: it depends on a tensor inside the `try` of line {line_of(g, 'try')}" in error_of(
        fake.Unimplemented, g, [1]
    )
    text = error_of(fake.Unimplemented, h, 1)
    assert (
        f"if: line {line_of(h, 'raise')} raises an exception in a branch that depends on a tensor"
        in text
    )
    assert "et.assert_true" in text


# spec: AG-17
def test_jumps_out_of_finally_are_not_converted():
    def f(x):
        try:
            return 1
        finally:
            if x > 0:
                return x

    with pytest.warns(RuntimeWarning, match="a jump leaves a `finally` block"):
        assert autograph.convert(f)(3) == 3
    text = error_of(fake.FailedPrecondition, f, 1)
    assert "a jump leaves a `finally` block at line" in text


# spec: AG-18
def test_tracebacks_show_the_users_lines_and_mark_converted_functions():
    def inner(x):
        for k in range(3):
            if x > k:
                x = x + [k]
        return x

    def outer(x):
        return inner(x) + 1

    with pytest.raises(TypeError) as found:
        staged(outer, 1)
    entries = traceback.extract_tb(found.value.__traceback__)
    # The wrapper that converts errors is the only frame of the package.
    assert [entry.name for entry in entries if "etude/autograph" in entry.filename] == ["entry"]
    own = [entry for entry in entries if entry.filename == __file__][1:]
    assert [entry.name for entry in own] == ["outer (converted)"] + ["inner (converted)"] * (
        len(own) - 1
    )
    assert own[0].lineno == line_of(outer, "return")
    assert own[-1].lineno == line_of(inner, "x + [k]")


# spec: AG-18
def test_errors_of_nested_functions_have_the_line_of_their_statement():
    def f(x):
        def g(y):
            if y > 0:
                z = 1
            return z

        return g(x)

    text = error_of(fake.InvalidArgument, f, 1)
    assert (
        f"It is used at line {line_of(f, 'return z')}\n  at {__file__}:{line_of(f, 'if y')}" in text
    )


# spec: CO-05.a, CO-05.b
def test_recursion_that_a_tensor_ends():
    def fact(n):
        if n <= 1:
            return 1
        return n * fact(n - 1)

    text = error_of(fake.Unimplemented, fact, 3)
    assert "if: recursion while tracing: 'fact' calls itself where a tensor decides" in text
    assert f"et.while_loop\n  at {__file__}:{line_of(fact, 'if n')}" in text


# spec: AG-20.c
def test_conversion_off():
    def f(x):
        return 1 if x > 0 else 2

    scope = fake.Scope(None)
    with fake.inside(scope), pytest.raises(fake.FailedPrecondition, match="use cond or while_loop"):
        f(fake.Tensor("int32", (), scope=scope))
