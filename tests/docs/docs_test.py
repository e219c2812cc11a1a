#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs_test.py [--etude-h] PAGE COMPILER ARGS...: compiles the C++ of a page as one program, and runs it.

With --etude-h it is only compiled, and etude/etude.h takes the place of all headers of Etude.

A block goes to file scope; one after `<!-- main -->` into a block of main(). A line `expression;  // == value` must
give that value. Each `code` in the last column of a table after `<!-- compiled -->` must compile as a statement. Python after `<!-- before -->` runs before the program, that after `<!-- after -->` behind it, in the
folder in which the program runs.
"""
# spec: EX34
import pathlib
import re
import subprocess
import sys
import tempfile

CHECK = """
#include <cstdio>
#include <cmath>
#include <type_traits>
namespace {
int wrong = 0;
template <class A, class B>
void check(const A& got, const B& wanted, const char* text) {
  bool same;
  if constexpr (std::is_floating_point_v<A>) {
    same = std::fabs(got - wanted) <= 1e-12 * (1 + std::fabs(wanted));
  } else {
    same = got == wanted;
  }
  if (!same) ++wrong, std::printf("not as the page says: %s\\n", text);
}
}  // namespace
"""


def cells(page):
    """A function of the statements in the last columns of tables; it is compiled, and never runs."""
    tables = re.findall(r"<!-- compiled -->\n\|.*\n\|[-| ]*\n((?:\|.*\n)*)", page)
    spans = [code for table in tables for row in table.splitlines()
             for code in re.findall(r"`([^`]+)`", row.rstrip("| ").rsplit(" | ", 1)[-1])]
    return "\n".join(["[[maybe_unused]] void compiled_cells() {", *(f"{{ {code}; }}" for code in spans), "}"]), len(spans)


def program(page):
    blocks = re.findall(r"(<!-- main -->\n)?```cpp\n(.*?)```", page, re.DOTALL)
    checks = 0
    out = [CHECK]
    body = []
    for in_main, code in blocks:
        if not in_main:
            out.append(code)
            continue
        lines = []
        for line in code.splitlines():
            found = re.fullmatch(r"(\S.*?);\s*// == (.*)", line)
            if found:
                checks += 1
                text = found[1].replace("\\", "\\\\").replace('"', '\\"')
                line = f'check({found[1]}, {found[2]}, "{text}");'
            lines.append(line)
        body.append("{\n" + "\n".join(lines) + "\n}\n")
    statements, count = cells(page)
    out.append(statements)
    return "\n".join(out) + "\nint main() {\n" + "".join(body) + "return wrong;\n}\n", checks + count


def compiles_with_etude_h(page, compiler):
    """What the compiler says to a page, whose blocks without a main() of their own are parts of a program."""
    text, _ = program(page)
    if "int main() {" in page:
        text = text[:text.rindex("\nint main() {")]
    text = '#include "etude/etude.h"\n' + re.sub(r'#include "etude/[^"]*"\n', "", text)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "page.cc"
        source.write_text(text)
        return subprocess.run([compiler[0], "-fsyntax-only", source, *compiler[1:]], capture_output=True,
                              text=True).stderr or None


def python_fault(page, when, folder):
    """What the Python of a page that runs `when` says on failing, or none."""
    blocks = re.findall(rf"<!-- {when} -->\n```python\n(.*?)```", page, re.DOTALL)
    if not blocks:
        return None
    run = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=folder, capture_output=True, text=True)
    return f"the Python {when} the program: {run.stderr}" if run.returncode else None


def main():
    if sys.argv[1] == "--etude-h":
        return compiles_with_etude_h(pathlib.Path(sys.argv[2]).read_text(), sys.argv[3:])
    name, *compiler = sys.argv[1:]
    page = pathlib.Path(name).read_text()
    text, checks = program(page)
    if checks == 0:
        return f"{name} checks nothing"
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder) / "page.cc", pathlib.Path(folder) / "page"
        source.write_text(text)
        built = subprocess.run([compiler[0], source, *compiler[1:], "-o", binary], capture_output=True, text=True)
        if built.returncode:
            return built.stderr
        if fault := python_fault(page, "before", folder):
            return fault
        run = subprocess.run([binary], cwd=folder, capture_output=True, text=True)
        fault = run.stdout or run.stderr if run.returncode else python_fault(page, "after", folder)
    print(f"{name}: {checks} lines checked")
    return fault


if __name__ == "__main__":
    sys.exit(main())
