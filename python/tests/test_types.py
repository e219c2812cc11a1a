# SPDX-License-Identifier: Apache-2.0
"""The stubs, as mypy and pyright read them: right code is accepted, wrong code is refused line by line.

basedpyright is pyright with its program in the wheel: the package `pyright` of PyPI downloads it from npm when it is
first run. It runs here with pyright's own rules."""
import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

import etude

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "types")
FILES = [os.path.join(HERE, name) for name in ("right.py", "wrong.py")]


def run(command, folder):
    # A checker takes the package from where it is installed; the tests have it on PYTHONPATH.
    package = os.path.dirname(os.path.dirname(os.path.abspath(etude.__file__)))
    environment = dict(os.environ, MYPYPATH=package, PYTHONPATH=package)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def mypy(folder):
    """(file, line) of the errors, with their texts."""
    done = run([sys.executable, "-m", "mypy", "--no-color-output", "--no-error-summary", "--cache-dir", str(folder), *FILES], folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"(.+?):(\d+): error: (.*)", line):
            found[os.path.basename(match[1]), int(match[2])] = match[3]
    return found


def pyright(folder):
    package = os.path.dirname(os.path.dirname(os.path.abspath(etude.__file__)))
    settings = {"include": FILES, "typeCheckingMode": "standard", "extraPaths": [package], "reportUnusedExpression": "none",
                "reportMissingModuleSource": "none"}  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = run([sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)], folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    rows = json.loads(done.stdout)["generalDiagnostics"]
    return {
        (os.path.basename(row["file"]), row["range"]["start"]["line"] + 1): row["message"]
        for row in rows
        if row["severity"] == "error"
    }


CHECKERS = [
    pytest.param(
        check,
        id=check.__name__,
        marks=pytest.mark.skipif(
            importlib.util.find_spec(module) is None, reason=f"{module} (python/requirements.txt) is not installed"
        ),
    )
    for check, module in ((mypy, "mypy"), (pyright, "basedpyright"))
]


@pytest.mark.parametrize("check", CHECKERS)
def test_right_code_is_accepted_and_wrong_code_is_refused(check, tmp_path):
    found = check(tmp_path)
    lines = open(FILES[1], encoding="utf-8").read().splitlines()
    wrong = {("wrong.py", i) for i, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) > 60
    assert {at: text for at, text in found.items() if at not in wrong} == {}, "refused, but right"
    assert {at: lines[at[1] - 1] for at in wrong - found.keys()} == {}, "accepted, but wrong"


def test_right_code_runs(tmp_path):
    done = run([sys.executable, FILES[0]], tmp_path)
    assert done.returncode == 0, done.stderr
