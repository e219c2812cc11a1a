# SPDX-License-Identifier: Apache-2.0
"""What the checkers share: the files of the tree, the CMake lists, running and reporting."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GENERATED = ("etude/ops.h",)
SUFFIXES = (".h", ".cc", ".inc", ".cu", ".c")


def files():
    """Every file that git tracks or would add, relative to the root."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(path for path in set(listed) if os.path.isfile(os.path.join(ROOT, path)))


def cpp_files():
    """The hand-written C++ files."""
    return [path for path in files() if path.endswith(SUFFIXES) and path not in GENERATED]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def words_of_list(path):
    """The words of a CMake list, without its comments."""
    return re.findall(r"[^\s()\"]+", re.sub(r"#.*", "", read(path)))


def installed_headers():
    """The headers that stand behind HDRS in a CMake list."""
    found = set()
    for path in files():
        if os.path.basename(path) != "CMakeLists.txt":
            continue
        keyword = None
        for word in words_of_list(path):
            if re.fullmatch(r"[A-Z][A-Z0-9_]+", word):
                keyword = word
            elif keyword == "HDRS":
                found.add(os.path.join(os.path.dirname(path), word))
    return found


def run(check, self_test):
    """Runs `check`, which returns a list of faults, or with --self-test `self_test`."""
    if "--self-test" in sys.argv:
        self_test()
        return 0
    faults = check()
    for fault in faults:
        print(fault)
    return 1 if faults else 0
