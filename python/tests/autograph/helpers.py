# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of conversion."""

import inspect

import autograph
import fake
import pytest
from fake import Host, run


def both(f, *arguments):
    """The result of the graph; it must be the result of the plain function."""
    plain = [fake.evaluated(x.value if isinstance(x, Host) else x, {}) for x in arguments]
    expected = f(*plain)
    assert run(f, *arguments) == expected
    assert autograph.convert(f)(*plain) == expected
    return expected


def line_of(f, text):
    """The line of this file on which `text` stands in `f`."""
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, line in enumerate(lines) if text in line)


def error_of(kind, f, *arguments):
    with pytest.raises(kind) as found:
        run(f, *arguments)
    return str(found.value)
