# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests of the package."""

import re
import subprocess
import sys

import pytest

import etude as et

# Words of C++ that no message shows: a program of Python cannot write them.
CPP_WORDS = re.compile(r"\w::\w|\bstd::|\[&\]|\bnullptr\b|\bto_vector\b|\d\.\d+F\b")
_shown: list[str] = []


def _note(self, *args):
    super(et.Error, self).__init__(*args)
    _shown.extend(text for text in args if isinstance(text, str) and CPP_WORDS.search(text))


et.Error.__init__ = _note  # of all errors, since each derives from it


@pytest.fixture(autouse=True)
def messages_are_in_python():
    """No error of a test, caught or not, shows words of C++."""
    _shown.clear()
    yield _shown
    assert not _shown, f"add rows to python/src/spelling.cc: {_shown}"


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
