# SPDX-License-Identifier: Apache-2.0
"""Finds C++ function definitions and their lengths by matching braces in clang-formatted text.

A function that registers ops, `void define_...(Registry& r)`, is a list: its length is that of its
longest statement. Code inside macros is not seen.
"""
import re

IGNORED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|'
    r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
SCOPE = re.compile(r"\s*(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b",
                   re.S)
# What may stand before a declaration: access labels, and macros that are lines of their own.
BEFORE = re.compile(r"\A(\s*([A-Z][A-Z0-9_]*\([^\n]*\)[ \t]*\n|(public|private|protected):))+")
NAME = re.compile(r"(TEST\w*\(\w+,\s*\w+|RC_GTEST_PROP\(\w+,\s*\w+|[\w:~]+(?=\())")
REGISTRATION = re.compile(r"\bdefine_\w+\([\w:]*Registry&")


def blank(text):
    """The text without comments, literals and directives, with its line breaks."""
    return IGNORED.sub(lambda match: re.sub(r"[^\n]+", " ", match.group()), text)


def kind_of(header):
    """What a brace opens outside of functions, from the text since the last statement."""
    glued = header[-1:].isalnum() or header[-1:] in ("_", ">")  # `a_{x}` in a list of initialisers
    if not header.strip() or glued or header.count("(") > header.count(")"):
        return "value"
    if SCOPE.match(header):
        return "scope"
    return "function" if "(" in header and not header.rstrip().endswith("=") else "value"


def longest_statement(body):
    depth, begin, longest = 0, 0, 1
    for at, char in enumerate(body):
        depth += (char in "({") - (char in ")}")
        if char == ";" and depth == 0:
            longest = max(longest, body[begin:at].strip().count("\n") + 1)
            begin = at + 1
    return longest


def lengths(text):
    """[(name, lines)] of the definitions in the order of their ends."""
    text = blank(text)
    found, stack, start = [], [], 0
    for at, char in enumerate(text):
        outside = all(kind == "scope" for kind, _, _ in stack)
        if char == "{":
            header = BEFORE.sub("", text[start:at])
            stack.append((kind_of(header) if outside else "value", header, at))
            if stack[-1][0] == "scope":
                start = at + 1
        elif char == "}" and stack:
            kind, header, opened = stack.pop()
            if kind == "function":
                lines = (header.lstrip() + text[opened:at]).count("\n") + 1
                if REGISTRATION.search(header):
                    lines = longest_statement(text[opened + 1:at])
                name = NAME.search(header)
                found.append((name.group().replace("\n", " ") if name else "lambda", lines))
            if kind != "value":
                start = at + 1
        elif char == ";" and outside:
            start = at + 1
    return found


def self_test():
    assert lengths("int f(int x) {\n  return x;\n}\n") == [("f", 3)]
    assert lengths("namespace a {\nstruct alignas(64) B {\n public:\n  int c() {\n  }\n};\n}") == [("c", 2)]
    assert lengths("B::B(int x) : a_{x}, b_(x) {\n}\n") == [("B::B", 2)]
    assert lengths("const int k[] = {1,\n2};\nint x{f(3)};\nvoid g() {}\n") == [("g", 1)]
    assert lengths("TEST(A, B) {\n  // {\n  f('{', \"{\", 1'000);\n}\n") == [("TEST(A, B", 4)]
    assert lengths("M(a)\nM(b)\nclass C {\n private:\n  int f() {\n  }\n};\n") == [("f", 2)]
    assert lengths("#define A {\\\n  {\nT f() {\n  if (x) {\n  }\n}\n") == [("f", 4)]
    assert lengths("void define_a(Registry& r) {\n  r.d({\n  });\n  r.d({\n\n  });\n}\n") == [("define_a", 3)]
