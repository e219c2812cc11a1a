#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public headers as pages of the documentation site: what they promise, as they promise it.

A block is a comment with the declarations right below it; blank lines separate blocks. Bodies of functions, private
members and namespaces for the library itself (`internal`) are left out. Used by site.py.
"""
import re

HIDDEN = {"internal"}
PLUMBING = r"\s*(ETUDE_FIELDS\(|friend class|auto host_values|static constexpr void ranges)"
LABEL = re.compile(r"(shapes|types|dtypes|units|throws|threads|cost|Layout)( \([^)]*\))?:")


def brackets(line):
    """How much deeper the text behind a line is, without what stands in texts and comments."""
    code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*', "", line)
    return sum(code.count(c) for c in "{(") - sum(code.count(c) for c in "})")


def blocks_of(text):
    """[lines] of each block at namespace level outside of hidden namespaces."""
    found, block, depth, spaces = [], [], 0, []
    for line in re.sub(r" *// NOLINT.*", "", text).splitlines():
        opened = re.match(r"(?:inline )?namespace (?:ETUDE_API )?([\w:]*) ?\{(?!.*\})", line)
        if depth == 0 and opened:
            spaces.append(opened[1])
        elif depth == 0 and line.startswith("}  // namespace"):
            spaces.pop()
        elif depth == 0 and (not line.strip() or line.startswith("#")):
            found.append(block)
            block = []
        elif not HIDDEN.intersection(part for space in spaces for part in space.split("::")):
            block.append(line)
            depth += brackets(line)
        else:
            depth += brackets(line)
    return [b for b in found + [block] if b]


INITIALIZERS = r"\s*(?<!:):(?!:)\s*[\w:<>]+\(.*"


def without_bodies(lines):
    """Declarations in the place of definitions of functions."""
    out, depth = [], 0
    for line in lines:
        if depth:  # within a body
            depth += brackets(line)
            continue
        is_function = not re.match(r"\s*(//|class |struct |enum |union )", line)
        if is_function and re.search(r"\)[^\"]*\{$", line):
            depth = 1
            out.append(re.sub(rf"({INITIALIZERS})?\s*\{{$", "", line) + ";")
        elif is_function and re.search(r"\).*\{.*\}$", line) and "=" not in line.split("{")[0]:
            out.append(re.sub(rf"{INITIALIZERS}$|\s*\{{.*\}}$", "", line) + ";")
        else:
            out.append(line)
        if out[-1].strip() == ";":  # initializers on a line of their own
            out.pop()
            out[-1] += ";"
    return out


def public_part(lines):
    """A class without what is private."""
    out, hidden = [], False
    for line in lines:
        if re.match(r" (private|protected):", line):
            hidden = True
        elif re.match(r" public:", line) or line.startswith("}"):
            hidden = False
        if not hidden and not re.match(PLUMBING, line):
            out.append(line)
    return [line for k, line in enumerate(out) if line.strip() or (k + 1 < len(out) and out[k + 1].strip() != "};")]


def markdown(comment):
    """The text of a comment: labels begin paragraphs, what is indented is code."""
    out, code = [], []

    def close():
        if code:
            out.extend(["", "```cpp", *code, "```", ""])
            code.clear()

    for line in comment:
        text = line[2:]
        if re.match(r" {3,}\S", text) and (code or not out or not out[-1].strip()):
            code.append(text[3:])
            continue
        close()
        text = text.strip().replace("<", "&lt;")
        label = LABEL.match(text)
        if label:
            out += ["", f"**{label[0]}**{text[label.end():]}"]
        else:
            out.append(text)
    close()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def names_of(lines):
    """What a block declares, for its heading."""
    names = []
    for line in lines:
        found = re.match(r"(?:template.*> ?)?(?:class|struct|enum class|enum) (?:\[\[.*?\]\] )?(\w+)", line) or \
            re.match(r"using (\w+) =", line) or \
            re.match(r"(?!return|if|for|requires|template|static_assert|extern)\S.*?\b(operator\S+?|\w+)\(", line) or \
            re.match(r"(?:inline )?constexpr [\w:<>, ]+ (k\w+)", line)
        if found and found[1] not in names and not found[1].isupper():
            names.append(found[1])
    return names


def page(path, text):
    """The Markdown page of a header."""
    lines = text.split("#pragma once")[0].splitlines()
    intro = [line for line in lines if line.startswith("//") and "SPDX" not in line]
    out = [f"# {path.removeprefix('etude/')}", "", f'`#include "{path}"`', "", markdown(intro)]
    for block in blocks_of(text.split("#pragma once", 1)[-1]):
        begin = next((k for k, line in enumerate(block) if not line.startswith("//")), len(block))
        comment, code = block[:begin], block[begin:]
        if not code:
            out += ["", markdown(comment)]
            continue
        shown = public_part(without_bodies(code))
        if all(re.fullmatch(r"(template.*|(class|struct) \w+;)", line) for line in shown):
            continue  # said again where it is defined
        heading = ", ".join(f"`{name}`" for name in names_of(code)[:4])
        if heading:
            out += ["", f"## {heading}"]
        out += ["", markdown(comment), "", "```cpp", *shown, "```"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)) + "\n"


def self_test():
    text = """// SPDX-License-Identifier: Apache-2.0
// What it is for:
//
//   use(1);
#pragma once
#include <vector>
namespace ETUDE_API etude {
namespace internal {
int hidden();
}  // namespace internal

// Adds. throws nothing.
// throws: never.
inline int add(int a, int b) {
  return a + b;
}
int subtract(int a, int b);

// A thing.
class Thing {
 public:
  explicit Thing(int x)
      : x_(x) {}
  int x() const { return x_; }

 private:
  int x_;
};
}  // namespace etude
"""
    made = page("etude/a/b.h", text)
    assert made.startswith('# a/b.h\n\n`#include "etude/a/b.h"`\n\nWhat it is for:\n\n```cpp\nuse(1);\n```'), made
    assert "## `add`, `subtract`\n\nAdds. throws nothing.\n\n**throws:** never." in made, made
    assert "inline int add(int a, int b);\nint subtract(int a, int b);" in made, made
    assert "  explicit Thing(int x);\n  int x() const;\n};" in made, made
    assert "hidden" not in made and "x_;" not in made, made


if __name__ == "__main__":
    self_test()
