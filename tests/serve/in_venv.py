# SPDX-License-Identifier: Apache-2.0
"""Runs the test that imports this again with the interpreter of the venv that has the clients of PyPI."""
import os
import sys

VENV = sys.argv[4]
PYTHON = os.path.join(VENV, "bin", "python")
if not os.path.exists(PYTHON):
    print(f"left out: there is no {VENV} with the packages of tests/serve/requirements.txt; ./dev test makes it")
    sys.exit(0)
if os.path.realpath(sys.prefix) != os.path.realpath(VENV):
    os.execv(PYTHON, [PYTHON, *sys.argv])
