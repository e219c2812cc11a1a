# SPDX-License-Identifier: Apache-2.0
"""Modules of the standard library pass their own tests when each of their functions is replaced by
its twin.
"""

import importlib
import io
import types
import unittest
import warnings

import pytest

from autograph import calls

MODULES = ("textwrap", "heapq", "difflib", "shlex", "fractions", "configparser", "csv", "calendar")


class Replaced:
    """The functions and methods of a module, replaced until the end of a `with`."""

    def __init__(self, module):
        self.module, self.before, self.count = module, [], 0

    def __enter__(self):
        self._replace(self.module, set())
        return self

    def __exit__(self, *_):
        for owner, name, value in reversed(self.before):
            setattr(owner, name, value)

    def _replace(self, owner, seen):
        for name, value in list(vars(owner).items()):
            if getattr(value, "__module__", None) != self.module.__name__ or id(value) in seen:
                continue
            seen.add(id(value))
            inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if isinstance(value, type):
                self._replace(value, seen)
            elif isinstance(inner, types.FunctionType) and calls.why_not(inner) is None:
                twin = calls.twin_of(inner)
                self.before.append((owner, name, value))
                setattr(owner, name, twin if inner is value else type(value)(twin))
                self.count += 1


def failures_of(tests):
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    assert result.testsRun > 5
    return {str(test): text for test, text in result.failures + result.errors}


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    tests = pytest.importorskip(f"test.test_{name}", reason="Python is installed without its tests")
    before = failures_of(tests)
    with Replaced(importlib.import_module(name)) as replaced:
        after = failures_of(tests)
    assert replaced.count > 3
    assert {test: text for test, text in after.items() if test not in before} == {}
