# SPDX-License-Identifier: Apache-2.0
"""Loads the package of control-flow conversion on its own, with a backend of plain Python: no C++ is needed."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "etude"))
sys.path.insert(0, HERE)

import fake  # noqa: E402

fake.install()

import autograph.errors  # noqa: E402

autograph.errors.LIBRARY.append(fake.__file__)
