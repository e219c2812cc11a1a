# SPDX-License-Identifier: Apache-2.0
"""python -m etude: its commands, and the program `etude`."""
import json
import os
import subprocess
import sys

import pytest

import etude as et
from etude import __main__

PROGRAM = """import sys
import etude as et

x = et.ones((4, 4))
for _ in range(3):
    x = et.tanh(x @ x)
print("done", sys.argv[1:])


def step(x, y):
    return et.sum(x @ y)


class Steps:
    staged = et.function(step)


def wrong(x):
    return x @ x
"""


HAS_PROGRAM = any(os.path.isfile(place) for place in __main__.PLACES)
needs_program = pytest.mark.skipif(not HAS_PROGRAM, reason="the program etude is not built: ./dev build dev etude_program")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "job.py").write_text(PROGRAM)

    def command(*args, status=0):
        done = subprocess.run([sys.executable, "-m", "etude", *args], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return command


def test_info(run):
    text = run()
    assert text.startswith(f"etude {et.__version__}\n") and "cpu:0" in text and text == run("info")
    assert run("--version") == f"etude {et.__version__}\n"
    assert run("--include-dir").strip().endswith("include")
    assert "invalid choice: 'wrong'" in run("wrong", status=2)


def test_ops(run):
    assert "matmul(x, y, /, *, transpose_x=False, transpose_y=False)" in run("ops", "matmul")
    assert len(run("ops").splitlines()) == len(et._core._ops)
    assert "no op has a name with 'zzz'" in run("ops", "zzz", status=1)


def test_graph(run):
    text = run("graph", "job:step", "float32[2,3]", "float32[3,2]")
    assert "graph step(x: float32[2,3], y: float32[3,2]) -> (float32[])" in text
    assert "matmul(x, y)" in text and "job.py:11" in text
    assert "matmul(x, y)" in run("graph", "job:Steps.staged", "float32[2,3]", "float32[3,2]")
    assert "'job' names no function; write MODULE:FUNCTION" in run("graph", "job", status=1)
    assert "'job:nothing' was not found" in run("graph", "job:nothing", status=1)
    assert "'nothing:f' was not found" in run("graph", "nothing:f", status=1)
    assert "'float[2' is no type of a tensor; write a dtype and a shape" in run("graph", "job:step", "float[2", status=1)
    assert "'float33[2]'" in run("graph", "job:step", "float33[2]", status=1)
    text = run("graph", "job:wrong", "float32[2,3]", status=1)
    assert "inner sizes 3 and 2" in text and "job.py:19" in text and "Traceback" not in text


@needs_program
def test_profile(run, tmp_path):
    text = run("profile", "job.py", "a", "--b")
    assert "done ['a', '--b']" in text
    row = next(line for line in text.splitlines() if line.startswith("matmul "))
    assert row.split()[1] == "3" and row.endswith("job.py:6")
    assert any("matmul" in str(event) for event in json.loads((tmp_path / "profile.json").read_text())["traceEvents"])
    timed = run("profile", "--trace", "other.json", "-m", "timeit", "-n", "1", "-r", "1", "import etude; etude.ones(3).tanh()")
    assert "1 loop" in timed and "\ntanh " in timed
    assert (tmp_path / "other.json").exists()
    assert "which program?" in run("profile", status=1)


@needs_program
def test_program(run):
    assert run("program", "ops", "show", "matmul").startswith("matmul(x, y, transpose_x=false, transpose_y=false) -> y\n")
    assert "nothing" in run("program", "ops", "show", "nothing", status=1)
