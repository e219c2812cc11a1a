#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installed headers open namespace etude with ETUDE_API, or libetude.so would hide what they declare.

With --fix, rewrites those that do not; run ./dev format afterwards.
"""
import os
import re
import sys

import check_common as common

OPEN = re.compile(r"^namespace etude(?:::(\w+(?:::\w+)*))? \{", re.M)
INCLUDE = '#include "etude/version.h"\n'
ADVICE = "write `namespace ETUDE_API etude {`, or run: python3 tools/check_api.py --fix"


# An operator that only a friend declaration names does not get the mark of the namespace.
FRIEND = re.compile(r"^ *friend [^;{}=(]*\boperator\W+\([^;{}]*\)[^;{}=]*;", re.M)
FRIEND_ADVICE = "libetude.so hides a friend that is defined elsewhere; make it a member"


def faults(path, text):
    for pattern, advice in ((OPEN, ADVICE), (FRIEND, FRIEND_ADVICE)):
        for match in pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {advice}"


def fixed(text):
    """A namespace with an attribute cannot be nested by `::`, so an inner one gets its own braces."""
    text = OPEN.sub(lambda match: "namespace ETUDE_API etude {" +
                    (f"\nnamespace {match.group(1)} {{" if match.group(1) else ""), text)
    text = re.sub(r"^\}  // namespace etude::(\S+)$",
                  r"}  // namespace \1" + "\n}  // namespace etude", text, flags=re.M)
    if INCLUDE in text:
        return text
    first = text.find('#include')
    if first >= 0:
        return text[:first] + INCLUDE + text[first:]
    return text.replace("#pragma once\n", "#pragma once\n\n" + INCLUDE, 1)


def self_test():
    plain = "#pragma once\nnamespace etude::a {\nint x;\n}  // namespace etude::a\n"
    assert len(list(faults("a.h", plain))) == 1
    assert list(faults("a.h", fixed(plain))) == []
    assert fixed(fixed(plain)) == fixed(plain)
    friend = "class A {\n  friend bool operator==(const A& a, const A& b);\n};\n"
    assert len(list(faults("a.h", friend))) == 1
    assert list(faults("a.h", friend.replace(";", " = default;", 1))) == []
    assert fixed(plain).endswith("}  // namespace a\n}  // namespace etude\n")


def main():
    found = []
    for path in sorted(common.installed_headers()):
        text = common.read(path) if os.path.exists(os.path.join(common.ROOT, path)) else ""
        broken = list(faults(path, text))
        if broken and "--fix" in sys.argv:
            with open(os.path.join(common.ROOT, path), "w", encoding="utf-8") as file:
                file.write(fixed(text))
        else:
            found += broken
    return found


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
