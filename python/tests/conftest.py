# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests of the package."""

import subprocess
import sys

import pytest


@pytest.fixture
def run_program(tmp_path):
    """Runs a program in a process of its own, which prints "done" at its end: worker processes import
    the module of their function."""

    def run(text):
        program = tmp_path / "program.py"
        program.write_text(text)
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr

    return run
