# SPDX-License-Identifier: Apache-2.0
"""etude beside other libraries in one process, in both orders. `python/import_order.py --install` has all of them;
here those that are installed."""
import importlib.util
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.util.spec_from_file_location("import_order", os.path.join(os.path.dirname(HERE), "import_order.py"))
import_order = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(import_order)

# NumPy, which the tests install, stands for a library with a BLAS of its own.
NUMPY = ("numpy", "assert float((numpy.ones((64, 64)) @ numpy.ones((64, 64))).sum()) == 64.0**3")
ROWS = {"numpy": NUMPY, **import_order.LIBRARIES}


@pytest.mark.parametrize("name", ROWS)
def test_both_orders(name):
    if importlib.util.find_spec(ROWS[name][0]) is None:
        pytest.skip(f"{name} is not installed; python/import_order.py --install has it")
    assert import_order.failure([import_order.ETUDE, ROWS[name]]) is None
    assert import_order.failure([ROWS[name], import_order.ETUDE]) is None


def test_failures_are_seen():
    """A process that ends badly, a result that is wrong."""
    assert import_order.failure([("sys", "assert False, 'no'")]) == "status 1: AssertionError: no"
    assert import_order.failure([("os", "os.abort()")]).startswith("status -6")
    assert import_order.failure([("os", "pass")]) is None
    assert sys.executable
