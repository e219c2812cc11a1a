#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names_test.py ROOT HEADERS COMPILER ARGS...: etude/etude.h alone gives every public name.

The names are those that the installed headers (listed in the file HEADERS) declare in namespaces of users. One program
says `using etude::nn::Dense;` for each; it includes etude.h only.
"""
import pathlib
import posixpath
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools"))
from cpp_functions import blank  # noqa: E402

FOR_OPS = "for records of ops and contexts of one's own"
NOT_FOR_USERS = {
    "etude/base/scalars/differentiate.h": FOR_OPS,
    "etude/base/scalars/evaluate.h": FOR_OPS,
    "etude/base/internal/fork_lock.h": FOR_OPS,
    "etude/base/internal/hash.h": FOR_OPS,
    "etude/base/philox.h": FOR_OPS,
    "etude/base/scalars/scalar_program.h": FOR_OPS,
    "etude/core/op/batching.h": FOR_OPS,
    "etude/core/internal/convert.h": FOR_OPS,
    "etude/core/internal/infer.h": FOR_OPS,
    "etude/core/internal/mode.h": FOR_OPS,
    "etude/core/op/op.h": FOR_OPS,
    "etude/core/op/registry.h": FOR_OPS,
    "etude/core/op/rules.h": FOR_OPS,
    "etude/core/op/upgrade.h": FOR_OPS,
    "etude/device/cpu/float_mode.h": "for kernels that are run by hand",
    "etude/autodiff/tape/tape.h": FOR_OPS,
    "etude/autodiff/internal/value_table.h": FOR_OPS,
    "etude/onnx/onnx.h": "for programs that export models, which include it",
    "etude/stablehlo/stablehlo.h": "for programs that export modules, which include it",
}
HIDDEN = {"internal"}
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\s+(?:ETUDE_API\s+)?([\w:]*)$")
TYPE = re.compile(r"(?:class|struct|union|enum\s+class|enum|concept)\s+(?:ETUDE_API\s+)?(\w+)(?!\w)\s*(<)?")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]")


def statements(text):
    """(namespaces, text) of what stands in namespaces, without the bodies."""
    spaces, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        if char == "{":
            head = text[begin:at].strip()
            if depth == 0 and (found := NAMESPACE.search(head)):
                spaces.append(found[1])
                begin = at + 1
                continue
            if depth == 0:
                yield list(spaces), head
            depth += 1
        elif char == "}":
            if depth == 0:
                spaces.pop()
            else:
                depth -= 1
            begin = at + 1
        elif char == ";" and depth == 0:
            yield list(spaces), text[begin:at].strip()
            begin = at + 1


def without_template(head):
    """The declaration behind `template <...>` and a requirement that stands in front."""
    head = ATTRIBUTE.sub("", head).strip()
    while head.startswith("template"):
        depth = 0
        for at, char in enumerate(head):
            depth += (char == "<") - (char == ">" and head[at - 1] != "-")
            if char == ">" and depth == 0:
                break
        head = head[at + 1:].strip()
        if head.startswith("<"):
            return ""
    return head


def name_of(head):
    """The name that a declaration gives to users, or none."""
    is_specialised = re.match(r"template\s*<\s*>", head)
    head = without_template(head)
    if not head or is_specialised or head.startswith((",", ")", "#", "friend", "static_assert", "extern template", "requires")):
        return None
    if found := TYPE.match(head):
        return None if found[2] and not head.startswith("concept") else found[1]
    if found := re.match(r"using\s+(\w+)\s*=", head):
        return found[1]
    if head.startswith(("using", "typedef")) or "operator" in head or "->" in head.split("(")[0]:
        return None
    if "(" in head and "=" not in head.split("(")[0]:
        found = re.search(r"([\w:]+)\s*$", head.split("(")[0])
        is_function = found and len(head.split("(")[0].split()) > 1 and "::" not in found[1]
        return found[1] if is_function else None
    found = re.search(r"(\w+)\s*(?:=.*)?$", head, re.S)
    is_variable = "constexpr" in head or "const" in head.split()
    return found[1] if is_variable and found and "<" not in head.split("=")[0].split(found[1])[-1] else None


def names_in(header):
    for spaces, head in statements(blank((ROOT / header).read_text())):
        parts = [part for space in spaces for part in space.split("::")]
        if not parts or parts[0] != "etude" or HIDDEN & set(parts) or "" in parts:
            continue
        name = name_of(head)
        if name and not name.isupper():
            yield "::".join(parts + [name])


def included(header, seen):
    if header in seen or not (ROOT / header).exists():
        return seen
    seen.add(header)
    for inner in re.findall(r'#include "(etude/[^"]+)"', (ROOT / header).read_text()):
        included(inner, seen)
    return seen


def main():
    headers = sorted({posixpath.normpath(h) for h in pathlib.Path(sys.argv[2]).read_text().split()
                      if not h.startswith("etude/kernels/")})  # these are for records of ops, all of them
    seen = included("etude/etude.h", set())
    faults = [f"{h} is installed, but etude.h does not give it" for h in headers
              if h not in seen and h not in NOT_FOR_USERS]
    faults += [f"{h} is excused, but etude.h gives it" for h in NOT_FOR_USERS if h in seen]
    faults += [f"{h} is excused, but not installed" for h in NOT_FOR_USERS if h not in headers]
    names = sorted({name for h in headers if h not in NOT_FOR_USERS and h.endswith(".h") for name in names_in(h)})
    for known in ("etude::Tensor", "etude::matmul", "etude::nn::Dense", "etude::nn::relu", "etude::stop_gradient",
                  "etude::custom_gradient", "etude::recompute_grad", "etude::random::normal", "etude::kFloat32"):
        if known not in names:
            faults.append(f"{known} is not found in the headers: this test reads them wrongly")
    lines = ['#include "etude/etude.h"']
    for i, name in enumerate(names):
        lines.append(f"namespace uses_{i} {{ using {name}; }}")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "names.cc"
        source.write_text("\n".join(lines) + "\n")
        built = subprocess.run([sys.argv[3], "-fsyntax-only", source, *sys.argv[4:]], capture_output=True, text=True)
    faults += re.findall(r"error: (.*)", built.stderr)
    print(f"{len(names)} names of {len(headers)} headers")
    return "\n".join(faults) or None


if __name__ == "__main__":
    sys.exit(main())
