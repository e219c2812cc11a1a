# SPDX-License-Identifier: Apache-2.0
"""Errors that `etude` can print propose its own options: python3 option_words_test.py SOURCE_FOLDER."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Options that no command sets: names for servers, and the code of a loop.
OF_PROGRAMS = ("SaveOptions::signatures", "LoopOptions::max_iterations")


def plain(literal):
    return literal.replace('\\"', '"')


def literals(text):
    """The string literals of a source; adjacent ones are one."""
    out, last = [], None
    for found in LITERAL.finditer(re.sub(r"//[^\n]*|#include[^\n]*", "", text)):
        between = found.string[last:found.start()] if last is not None else "-"
        if between.strip():
            out.append("")
        out[-1] += plain(found.group(1))
        last = found.end()
    return out


def rows():
    text = (ROOT / "tools/etude/option_words.cc").read_text()
    table = text[text.index("kWords[]"):text.index("};\n\n}  // namespace")]
    found = LITERAL.findall(table)
    return [(plain(a), plain(b)) for a, b in zip(found[::2], found[1::2])]


class OptionWordsTest(unittest.TestCase):
    def test_each_message_has_a_row(self):
        seen = 0
        for folder in ("etude/onnx", "etude/saved", "etude/stablehlo", "etude/graph"):
            for path in sorted((ROOT / folder).rglob("*.cc")):
                if re.search(r"_(test|bench)\.cc$", path.name):
                    continue
                for text in literals(path.read_text()):
                    text = text.replace("{{", "{").replace("}}", "}")
                    if "Options::" not in text or any(name in text for name in OF_PROGRAMS):
                        continue
                    seen += 1
                    told = text.replace("LoadOptions::{}", "LoadOptions::shapes")
                    for cpp, option in rows():
                        told = told.replace(cpp, option)
                    self.assertNotRegex(told, r"Options::|\{\{|\}\}|kAny", f"{path}: add a row to tools/etude/option_words.cc")
        self.assertGreater(seen, 15)


if __name__ == "__main__":
    unittest.main()
