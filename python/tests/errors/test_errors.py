# SPDX-License-Identifier: Apache-2.0
"""Errors as exceptions: classes, the user's line, causes."""
import inspect

import pytest

import etude as et

CLASSES = {
    "InvalidArgumentError": ("invalid argument", (ValueError, TypeError)),
    "FailedPreconditionError": ("failed precondition", (RuntimeError,)),
    "NotFoundError": ("not found", (LookupError,)),
    "OutOfRangeError": ("out of range", (IndexError,)),
    "UnimplementedError": ("unimplemented", (NotImplementedError,)),
    "ResourceExhaustedError": ("resource exhausted", (MemoryError,)),
    "UnavailableError": ("unavailable", (ConnectionError,)),
    "DataLossError": ("data loss", (OSError,)),
    "CancelledError": ("cancelled", (RuntimeError,)),
    "InternalError": ("internal", (RuntimeError,)),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    code, bases = CLASSES[name]
    made = getattr(et, name)
    assert issubclass(made, et.Error) and made.code == code and made.__module__ == "etude"
    for base in bases:
        assert issubclass(made, base)
    assert str(made("text")) == "text"


# spec: IM-12.a, IM-12.b
def test_error_has_op_operands_and_line():
    with pytest.raises(ValueError) as caught:
        et.matmul(et.ones([2, 3]), et.ones([2, 3]))
    line = inspect.currentframe().f_lineno - 1
    error = caught.value
    assert isinstance(error, et.InvalidArgumentError) and error.op == "matmul"
    assert (error.file, error.line) == (__file__, line)
    assert "matmul: operand 'x' has shape [2,3] and operand 'y' has shape [2,3]" in str(error)
    assert str(error).endswith(f"\n  at {__file__}:{line}")
    assert et.add(1, 2).item() == 3  # the next op runs


def test_lines_of_operators_and_methods():
    def line_of(call):
        with pytest.raises(et.Error) as caught:
            call()
        return caught.value.file, caught.value.line

    here = inspect.currentframe().f_lineno
    assert line_of(lambda: et.ones([2]) + et.ones([3])) == (__file__, here + 1)
    assert line_of(lambda: et.ones([2])[5]) == (__file__, here + 2)
    assert line_of(lambda: et.ones([2]).item()) == (__file__, here + 3)
    assert line_of(lambda: et.ones([2]).mean(axis=3)) == (__file__, here + 4)
    assert line_of(lambda: et.linspace(0, 1, -1)) == (__file__, here + 5)  # a function of the package between
    assert line_of(lambda: et.random.randint([2], 3, 3)) == (__file__, here + 6)
    assert line_of(lambda: et.Variable([1.0]).assign([1.0, 2.0])) == (__file__, here + 7)


def test_internal_names_do_not_leak():
    with pytest.raises(et.NotFoundError, match="cpu:9"):
        et.ones([1]).to("cpu:9")
    with pytest.raises(et.OutOfRangeError, match="axis 4"):
        et.sum(et.ones([2]), axis=4)
