#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installed headers: each declares something for users or lies in a folder `internal`; none includes itself.

A listing of the installed folder without `internal` is the reference for users. A header that declares names in
namespaces `internal` alone has nothing for them. A circle of includes makes the order of includes matter.
"""
import os
import re
import sys

import check_common as common
import cpp_functions

NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b([^{};=]*)\{")
FORWARD = re.compile(r"(?:template\s*<[^;{}]*>\s*)?(?:class|struct|enum(?:\s+class)?)\s+\w+(?:\s*:\s*[\w:]+)?\s*;")
# Loops and tables that kernels of a user's ops are compiled from: included by text, in a folder of their own.
EXCEPTIONS = ("etude/kernels/", "etude/base/scalars/")


def for_users(text):
    """The declarations of a header outside of namespaces `internal`, without bodies and forward declarations."""
    text = cpp_functions.blank(text)
    found, stack, at = [], [], 0
    while at < len(text):
        space = NAMESPACE.match(text, at)
        if space:
            stack.append("internal" if "internal" in space.group(1) else "")
            at = space.end()
            continue
        if text[at] == "{":
            found += [] if any(stack) else ["{}"]
            stack.append("body")
        elif text[at] == "}" and stack:
            stack.pop()
        elif not any(stack):
            found.append(text[at])
        at += 1
    return FORWARD.sub("", "".join(found)).strip(" \n;")


def circle(includes):
    """The first circle of {header: headers that it includes} as a list, or None."""
    state, path = {}, []

    def visit(header):
        state[header] = "open"
        path.append(header)
        for other in sorted(includes[header]):
            if state.get(other) == "open":
                return path[path.index(other):] + [other]
            if other not in state and (found := visit(other)):
                return found
        state[header] = "done"
        path.pop()
        return None

    for header in sorted(includes):
        if header not in state and (found := visit(header)):
            return found
    return None


def faults(headers):
    """What is wrong with {path: text}."""
    for path, text in headers.items():
        inside = "internal" in path.split("/")
        if not inside and not path.startswith(EXCEPTIONS) and path.endswith(".h") and not for_users(text) and \
                "namespace" in text and "#define ETUDE_" not in text:
            yield f"{path} declares nothing for users: move it into a folder `internal`, with its source"
        if inside and for_users(text) and "#define" not in text and path.endswith(".h"):
            first = for_users(text).split("\n")[0]
            yield f"{path} lies in `internal` and declares `{first.strip()}` for users"
    # The second half of a header, which its end includes, names the first for tools that read it alone.
    found = circle({path: {other for other in common.INCLUDE.findall(text)
                           if other in headers and path != other.replace(".h", "_inline.h")}
                    for path, text in headers.items()})
    if found:
        yield "includes go in a circle: " + " -> ".join(found)


def self_test():
    inside = "#pragma once\nnamespace ETUDE_API etude::internal {\nstruct A { int b; };\n}  // namespace\n"
    nested = "namespace etude {\nclass Tensor;\nnamespace internal {\nint f() { return 1; }\n}\n}\n"
    public = "namespace etude {\nnamespace internal {\nstruct A {};\n}\nint f(int x);\n}\n"
    assert not for_users(inside) and not for_users(nested)
    assert for_users(public).strip() == "int f(int x)"
    assert len(list(faults({"etude/a.h": inside}))) == 1
    assert len(list(faults({"etude/a.h": nested}))) == 1
    assert list(faults({"etude/internal/a.h": inside, "etude/a.h": public})) == []
    assert len(list(faults({"etude/internal/a.h": public}))) == 1
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def main():
    paths = {os.path.normpath(path) for path in common.installed_headers()}
    return list(faults({path: common.read(path) for path in sorted(paths)
                        if os.path.exists(os.path.join(common.ROOT, path))}))


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
