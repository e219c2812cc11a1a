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
    for order in ([import_order.ETUDE, ROWS[name]], [ROWS[name], import_order.ETUDE]):
        why = import_order.failure(order)
        assert why is None, f"{', '.join(module for module, _ in order)}: {why}"


def test_failures_are_seen():
    """A process that ends badly, a result that is wrong."""
    why = import_order.failure([("sys", "print('first', file=sys.stderr); assert False, 'no'")])
    assert why.startswith("status 1: AssertionError: no\nfirst\nTraceback"), why
    why = import_order.failure([("os", "os.abort()")])
    assert why.startswith("status -6: Fatal Python error: Aborted\n") and 'File "<string>", line 4' in why, why
    why = import_order.failure([("time", "time.sleep(60)")], limit=2)
    assert why.startswith("hangs for 2 s\nTimeout") and "most recent call first" in why, why
    assert import_order.failure([("os", "pass")]) is None
    assert sys.executable
