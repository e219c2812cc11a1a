# SPDX-License-Identifier: Apache-2.0
"""The code of docs/python_programs.md runs."""
import os
import re


def test_the_page_runs():
    page = os.path.join(
        os.path.dirname(__file__), "..", "..", "docs", "python_programs.md"
    )
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})
