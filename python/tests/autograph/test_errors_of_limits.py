# SPDX-License-Identifier: Apache-2.0
"""Texts of errors, rows AG-14 to AG-20: leaks, functions without conversion, limits."""

import traceback
import warnings

import autograph
import fake
import pytest
from fake import Host, run, staged
from helpers import error_of, line_of


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
