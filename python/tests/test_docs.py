# SPDX-License-Identifier: Apache-2.0
"""The Python code of the documentation runs as it is printed there."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = [
    "README.md",
    "docs/coming_from_python.md",
    "docs/export/other_forms.md",
    "docs/onnx/use_a_model.md",
    "docs/python.md",
    "docs/python_control_flow.md",
    "docs/python_programs.md",
    "docs/python_tour.md",
    "docs/python_training.md",
    "docs/saved_functions.md",
]


def program_of(page: pathlib.Path) -> str:
    """The blocks of Python of a page, each at its own line, so that errors have lines of the page."""
    lines, inside = [], False
    for line in page.read_text().splitlines():
        if inside and line.startswith("```"):
            inside = False
        lines.append(line if inside else "")
        if line == "```python":
            inside = True
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", PAGES)
def test_blocks_run(name, tmp_path):
    code = program_of(ROOT / name)
    assert re.search(r"^(import|from) ", code, re.M), f"{name} has no Python code"
    program = tmp_path / pathlib.Path(name).name  # the page's own name is in messages of errors
    program.write_text(code)
    run = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
