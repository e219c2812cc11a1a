# SPDX-License-Identifier: Apache-2.0
"""The code of docs/python.md runs as it stands there, block after block."""
import os
import re


def test_page():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(root, "docs", "python.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.S))
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], path, "exec"), names)
