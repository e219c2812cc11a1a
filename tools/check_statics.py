#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installed headers define no mutable variables: inline ones, static ones of functions and templates.

Such a variable is in libetude.so and in each program that uses the header. The dynamic loader makes them one, unless
a library is linked with -Bsymbolic, opened with RTLD_LOCAL or hides its names: then each has a copy of its own. State
belongs into a source of the library. EXCEPTIONS are right with a copy in each, or have to be in a header; an
exception without a variable is a fault as well. Macros are not looked into.
"""
import os
import re
import sys

import check_common as common
import cpp_functions

# State of templates has to be in a header. A derivative of numbers lives in the code of one copy.
NUMBERS = "a template over the number type, used without the library as well (etude/diff.h)"
EXCEPTIONS = {
    ("etude/autodiff/mixed_operators.h", "context"): "a template over the function of one derivative",
    ("etude/autodiff/internal/numbers.h", "sweep"): NUMBERS,
    ("etude/base/warning.h", "made"): "used without the library (etude/diff.h); a copy repeats warnings",
    ("etude/diff/aggregates.h", "place"): "its address alone is used, in constant expressions",
    ("etude/diff/internal/tape/kept_memory.h", "ended"): "says that `holder` of this copy is gone",
    ("etude/diff/internal/tape/kept_memory.h", "holder"): "a cache of memory of the thread",
    ("etude/diff/internal/tape/scalar_tape.h", "ended"): "a cache of the last answer",
    ("etude/diff/internal/tape/tape_recorder.h", "nothing_"): "a sentinel that is read and never written",
    ("etude/diff/internal/tape/tape_threads.h", "tape"): NUMBERS,
    ("etude/diff/internal/tape/tape_threads.h", "key"): NUMBERS,
    ("etude/diff/internal/tape/tape_threads.h", "last"): NUMBERS,
    ("etude/diff/internal/tape/tape_threads.h", "made"): NUMBERS,
    ("etude/diff/internal/tape/tape_threads.h", "head"): NUMBERS,
}
ADVICE = "move it into a source of the library, make it constexpr, or list it in tools/check_statics.py with a reason"

STORAGE = re.compile(r"\b(?:inline|static|thread_local)\b")
# What may stand between the storage class and the name of a function without making it a variable.
NOISE = re.compile(r"\[\[.*?\]\]|\balignas\([^()]*\)|\bdecltype\((?:[^()]|\([^()]*\))*\)", re.S)
ANGLES = re.compile(r"<[^<>;{}]*>")
NO_VARIABLE = re.compile(r"\b(?:constexpr|consteval|extern|namespace|operator|friend)\b")


def is_constant(head):
    """Whether the declared variable itself is const: after the last star, if it is a pointer."""
    return re.search(r"\bconst\b", head[head.rfind("*") + 1:]) is not None


def variables(text):
    """(offset, name) of the mutable variables that the text of a header defines."""
    text = cpp_functions.blank(text)
    for match in STORAGE.finditer(text):
        before = text[max(text.rfind(char, 0, match.start()) for char in ";{}") + 1:match.start()]
        if STORAGE.search(before):  # the second word of one declaration
            continue
        rest = NOISE.sub(" decltype ", text[match.start():match.start() + 1000])
        while (shorter := ANGLES.sub("", rest)) != rest:
            rest = shorter
        head = re.split(r"[;{}=(]", rest, maxsplit=1)[0]
        is_function = rest[len(head):len(head) + 1] == "("
        if is_function or NO_VARIABLE.search(before + head) or is_constant(head):
            continue
        name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", head)
        if name:
            yield match.start(), name.group(1)


def faults(headers, exceptions):
    """What is wrong with {path: text}."""
    unused = dict(exceptions)
    for path, text in headers.items():
        for offset, name in variables(text):
            if (path, name) in exceptions:
                unused.pop((path, name), None)
            else:
                yield f"{path}:{text.count(chr(10), 0, offset) + 1}: `{name}` is mutable state in a header: {ADVICE}"
    for path, name in unused:
        yield f"tools/check_statics.py: {path} has no mutable variable `{name}` any more: remove the exception"


def self_test():
    def names(text):
        return [name for _, name in variables(text)]

    assert names("inline int count = 0;\n") == ["count"]
    assert names("inline std::vector<std::pair<int, A<b>>> all{};") == ["all"]
    assert names("struct A {\n  inline static B none_{};\n};") == ["none_"]
    assert names("template <class T>\ninline Place<T> place;") == ["place"]
    assert names("int next() {\n  static std::atomic<int> last = 0;\n  return ++last;\n}") == ["last"]
    assert names("T*& top() {\n  thread_local constinit T* scope = nullptr;\n  return scope;\n}") == ["scope"]
    assert names("void f() { static const char* text = 0; }") == ["text"]
    assert names("void f() { static B& b = make(); static decltype(g(1)) c{}; }") == ["b", "c"]
    assert names("void f() { static int table[4]; }") == ["table"]
    assert names("void f() { static const Op& op = find(1); static const char* const t = 0; }") == []
    assert names("inline constexpr int kA = 1; struct A { static constexpr int kB = 2; static int c(); };") == []
    assert names("extern thread_local constinit int depth;") == []
    assert names("inline bool operator==(const A& a, const A& b) { return a.x == b.x; }") == []
    assert names("[[nodiscard]] inline std::function<int(A)> f(int x = 1);\ninline namespace v1 {\n}") == []
    assert names('// static int a;\nconst char* b = "static int c;";\nstatic_assert(true);') == []

    header = {"a.h": "\ninline int count = 0;\n"}
    assert list(faults(header, {("a.h", "count"): "a test"})) == []
    assert [fault.split(":")[:2] for fault in faults(header, {})] == [["a.h", "2"]]
    assert len(list(faults({"a.h": ""}, {("a.h", "count"): "a test"}))) == 1


def main():
    paths = {os.path.normpath(path) for path in common.installed_headers()}
    headers = {path: common.read(path) for path in sorted(paths) if os.path.exists(os.path.join(common.ROOT, path))}
    return list(faults(headers, EXCEPTIONS))


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
