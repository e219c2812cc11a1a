# SPDX-License-Identifier: Apache-2.0
"""Where functions come from: files, lambdas on one line, doctest, notebooks, the prompt, `exec`;
and to_code().
"""

import doctest
import linecache
import os
import subprocess
import sys
import textwrap
import warnings

import autograph
import fake
import pytest
from fake import run

HERE = os.path.dirname(os.path.abspath(__file__))
# fmt: off
PAIR = (lambda x: x if x > 0 else -x, lambda x: (lambda y: y if y > 2 else 2)(x))
LIST = [lambda x: x if x > 0 else 0, lambda x: x if x > 0 else 1]
SAME = [lambda x: x if x > 0 else 0, lambda x: x if x > 0 else 0]
TALL = (lambda x: (
    x if x > 0 else -x
)), (lambda x, y=1: [
    v if v > 0 else y for v in (x, -x)
])
# fmt: on


# spec: AG-16
def test_lambdas():
    (a, b), (c, d) = PAIR, LIST
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [run(f, -5) for f in (a, b, c, d)] == [5, 2, 0, 1]
        assert [run(f, 5) for f in (a, b, c, d, *SAME)] == [5, 5, 5, 5, 5, 5]
        assert run(TALL[0], -3) == 3
        assert run(TALL[1], 3) == [3, 1]


def function_of_cell(text, name):
    """A function of a notebook cell, whose text IPython puts into linecache."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names["f"]


# spec: AG-16
def test_cells_of_notebooks():
    text = "x = 1\ndef f(x):\n    if x > 0:\n        return x\n    return -x\n"
    f = function_of_cell(text, "<ipython-input-1-abc>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(f, -2) == 2


def example():
    """
    >>> def f(x):
    ...     if x > 0:
    ...         return x
    ...     return -x
    >>> run(f, -2)
    2
    """


# spec: AG-16
def test_doctest():
    runner = doctest.DocTestRunner(verbose=False)
    for each in doctest.DocTestFinder().find(example, globs={"run": run}):
        runner.run(each)
    assert runner.summarize(verbose=False) == (0, 1) or runner.summarize(verbose=False).failed == 0


# spec: AG-16
def test_the_prompt():
    program = f"""
        import sys
        sys.path.insert(0, {HERE!r})
        import conftest, fake
        def f(x):
            if x > 0:
                return x
            return -x

        try:
            print("found", fake.run(f, -2))
        except fake.FailedPrecondition as error:
            print("error", error)

    """
    found = subprocess.run(
        [sys.executable, "-i"],
        input=textwrap.dedent(program),
        capture_output=True,
        text=True,
        check=False,
    )
    if "found 2" in found.stdout:
        return  # Python 3.13 keeps the source of the prompt
    assert "was not converted" in found.stdout, found
    assert found.stderr.count("RuntimeWarning") == 1


# spec: AG-16
def test_a_file_that_changed(tmp_path):
    path = tmp_path / "changing.py"
    path.write_text("def f(x):\n    return x if x > 0 else -x\n")
    names = {"__name__": "changing"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("# a comment\n\n\ndef f(x):\n    return x if x > 0 else -x\n")
    with pytest.warns(
        RuntimeWarning, match="no function 'f' begins at line 1 .*; has the file changed"
    ):
        autograph.convert(names["f"])(1)


def test_to_code():
    def f(x):
        # A comment of the user.
        if x > 0:
            y = x
        else:
            y = -x
        return y

    text = autograph.to_code(f)
    assert text.startswith("def f(x):\n")
    assert "ag__.if_stmt(ag__test1, ag__then2, ag__else3, ('y',), ('y',), ()," in text
    assert "def ag__then2():\n        nonlocal y\n        y = x\n" in text
    compile(text, "f", "exec")

    class Net:
        def call(self, x):
            return x if x > 0 else 1

    assert "ag__.if_exp(x > 0, lambda: x, lambda: 1" in autograph.to_code(Net().call).replace(
        "lambda :", "lambda:"
    )
    assert "ag__.if_exp" in autograph.to_code(lambda x: x if x > 0 else f"{x}")


def test_to_code_errors():
    names = {}
    exec("def f(x): return x", names)
    with pytest.raises(
        fake.InvalidArgument, match="to_code: 'f' cannot be converted: there is no source for"
    ):
        autograph.to_code(names["f"])
    with pytest.raises(
        fake.InvalidArgument,
        match="to_code: needs a Python function, but got an object of type int",
    ):
        autograph.to_code(3)


# spec: AG-18
def test_the_debugger_and_coverage_see_the_lines_of_the_user():
    def f(x):
        y = 0
        for k in range(2):
            if x > k:
                y += 1
        return y

    seen = set()

    def trace(frame, event, _):
        if frame.f_code.co_filename == __file__ and event == "line":
            seen.add(frame.f_lineno - f.__code__.co_firstlineno)
        return trace

    converted = autograph.convert(f)
    sys.settrace(trace)
    try:
        assert converted(5) == 2
    finally:
        sys.settrace(None)
    assert {1, 2, 3, 4, 5} <= seen
