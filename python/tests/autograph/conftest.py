# SPDX-License-Identifier: Apache-2.0
"""Loads the package of control-flow conversion on its own, with a backend of plain Python: no C++
is needed.
"""

import importlib.util
import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "etude", "autograph")


def load():
    """Makes `autograph` and `fake` modules that tests can import."""
    spec = importlib.util.spec_from_file_location(
        "autograph", os.path.join(PACKAGE, "__init__.py"), submodule_search_locations=[PACKAGE]
    )
    package = sys.modules["autograph"] = importlib.util.module_from_spec(spec)
    # In place of backend.py, which imports the library.
    package.backend = sys.modules["autograph.backend"] = types.ModuleType("autograph.backend")
    sys.path.insert(0, HERE)
    import fake

    fake.install()
    spec.loader.exec_module(package)
    package.errors.LIBRARY.append(fake.__file__)


if "autograph" not in sys.modules:
    load()
