#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds sources that no CMake list names: they would be in the tree, but neither built nor tested."""
import os
import sys

import check_common as common

# Not built by CMake: bindings have their own build; texts of the must-not-compile tests are data.
ELSEWHERE = ("python/", "tests/compile_fail/")


def names_of(path, folder):
    """The ways in which a list in `folder` may name the source `path`."""
    relative = os.path.relpath(path, folder) if folder else path
    stem = os.path.splitext(relative)[0]
    return {relative, stem, f"{relative}.in"}


def unnamed(paths, lists):
    """The `paths` that no list names; `lists` is {folder: set of words}."""
    result = []
    for path in paths:
        folder = os.path.dirname(path)
        while True:
            if names_of(path, folder) & lists.get(folder, set()):
                break
            if not folder:
                result.append(path)
                break
            folder = os.path.dirname(folder)
    return result


def self_test():
    lists = {"": {"etude/ops.h"}, "etude/core": {"NAME", "core", "a.h", "cpu/b.cc", "a_test"}}
    assert unnamed(["etude/core/a.h", "etude/core/cpu/b.cc", "etude/core/a_test.cc"], lists) == []
    assert unnamed(["etude/ops.h"], lists) == []
    assert unnamed(["etude/core/c.cc", "etude/io/a.h"], lists) == ["etude/core/c.cc", "etude/io/a.h"]


def main():
    lists = {os.path.dirname(path): set(common.words_of_list(path)) for path in common.files()
             if os.path.basename(path) == "CMakeLists.txt"}
    for folder, words in list(lists.items()):  # a list may name a file above its folder: ../ops.h
        above = {os.path.normpath(os.path.join(folder, word)) for word in words if word.startswith("../")}
        lists.setdefault("", set()).update(above)
    # What all tests include is named where that is made.
    lists[""] |= {word.replace("${PROJECT_SOURCE_DIR}/", "") for path in common.files() if path.startswith("cmake/") and path.endswith(".cmake")
                  for word in common.words_of_list(path)}
    sources = [path for path in common.cpp_files() if not path.startswith(ELSEWHERE)]
    return [f"{path}: no CMakeLists.txt names it; add it to HDRS, SRCS or TESTS of its folder"
            for path in unnamed(sources, lists)]


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
