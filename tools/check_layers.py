#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an #include against the folder order, or of a library outside the folder that owns it."""
import re
import sys

import check_common as common

ORDER = ("base diff core device files graph passes eager plan variables parts lazy stage autodiff kernels codegen ops nn optim data "
         "io kinds saved onnx stablehlo aot dist xla").split()
RANK = {folder: rank for rank, folder in enumerate(ORDER)}
TOP = len(ORDER)  # etude/startup.cc, tools, tests, examples, benchmarks, python: may include all
# Headers that lie in etude/ itself. Others there (the umbrella header) are for users only.
ROOT_HEADERS = {"etude/version.h": "base", "etude/ops.h": "ops", "etude/diff.h": "diff"}

# Who may include a library: folders, or "sources" for every file that is not installed.
LIBRARIES = {
    r"dnnl|oneapi/dnnl": "etude/kernels/cpu/",
    r"tbb/|oneapi/tbb": "etude/device/cpu/",
    r"llvm/": "etude/codegen/llvm/",
    r"png\.h": "etude/files/",
    r"protozero/": "etude/onnx/",
    r"mpi\.h|grpcpp/": "etude/dist/",
    r"xla/|pjrt": "etude/xla/",
    r"fmt/|nlohmann/": "sources",
}
# The core and the contexts know ops by their records; the few that they call have functions in one place.
BY_RECORD = tuple(f"etude/{folder}/" for folder in "core diff eager plan variables parts lazy stage autodiff".split())
BY_NAME = re.compile(r'\bop(?:<"|\(")|\bglobal\(\)\.(?:at|find)\("')
BY_NAME_HOME = "etude/core/tensor_ops.cc"


def rank_of(path):
    if path in ROOT_HEADERS:
        return RANK[ROOT_HEADERS[path]]
    parts = path.split("/")
    return RANK.get(parts[1], TOP) if parts[0] == "etude" and len(parts) > 2 else TOP


def faults(path, text, installed):
    """Yields (line, message) for each forbidden include of the file."""
    for match in common.INCLUDE.finditer(text):
        header = match.group(1)
        line = text.count("\n", 0, match.start()) + 1
        if header.startswith("etude/") and rank_of(header) > rank_of(path):
            yield line, f"{header} is above this folder; the order is: {' '.join(ORDER)}"
        for pattern, owner in LIBRARIES.items():
            if not re.match(pattern, header) or rank_of(path) == TOP:
                continue
            if owner == "sources" and path in installed:
                yield line, f"{header} in an installed header; move the use into a .cc file"
            elif owner != "sources" and not path.startswith(owner):
                yield line, f"{header} belongs to {owner} only; put a function of that folder between"


def calls_by_name(path, text):
    """Yields (line, message) for each op that a file of the core or of the contexts calls by its name."""
    if not path.startswith(BY_RECORD) or path == BY_NAME_HOME or "_test." in path:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if BY_NAME.search(line) and not line.lstrip().startswith("//"):
            yield number, f"an op is called by its name; put a function into core/call/builtin.h ({BY_NAME_HOME})"


def self_test():
    def count(path, header, installed=()):
        return len(list(faults(path, f"#include {header}\n", installed)))

    assert count("etude/startup.cc", '"etude/codegen/serve.h"') == 0
    assert count("etude/ops/a.cc", '"etude/startup.cc"') == 1
    assert count("etude/core/a.cc", '"etude/base/b.h"') == 0
    assert count("etude/core/a.cc", '"etude/core/cpu/b.h"') == 0
    assert count("etude/core/a.cc", '"etude/eager/b.h"') == 1
    assert count("etude/autodiff/a.h", '"etude/kernels/b.h"') == 1
    rooms = "eager plan variables parts lazy stage autodiff".split()
    for below, above in zip(rooms, rooms[1:]):
        assert count(f"etude/{below}/a.h", f'"etude/{above}/b.h"') == 1
        assert count(f"etude/{above}/a.h", f'"etude/{below}/b.h"') == 0
    assert count("etude/ops/a.cc", '"etude/ops.h"') == count("etude/nn/a.h", '"etude/ops.h"') == 0
    assert count("etude/autodiff/a.cc", '"etude/ops.h"') == 1
    assert count("etude/io/a.cc", '"etude/etude.h"') == 1
    assert count("tests/a.cc", '"etude/etude.h"') == 0
    assert count("etude/kernels/cpu/a.cc", "<oneapi/dnnl/dnnl.hpp>") == 0
    assert count("etude/kernels/a.cc", "<dnnl.hpp>") == 1
    assert count("etude/data/a.cc", "<tbb/parallel_for.h>") == 1
    assert count("etude/base/a.h", "<fmt/format.h>") == 0
    assert count("etude/base/a.h", "<fmt/format.h>", ["etude/base/a.h"]) == 1

    def named(path, text):
        return len(list(calls_by_name(path, text)))

    for text in ('x = run(op<"add">(), {&x});', 'internal::op("add")', 'Registry::global().at("add")'):
        assert named("etude/stage/a.cc", text) == named("etude/core/a.cc", text) == 1
        assert named("etude/ops/a.cc", text) == named(BY_NAME_HOME, text) == 0
        assert named("etude/core/a_test.cc", text) == named("etude/core/a.cc", "// " + text) == 0
    assert named("etude/core/a.cc", "op(name)") == 0


def main():
    installed = common.installed_headers()
    return [f"{path}:{line}: {message}" for path in common.cpp_files()
            for line, message in [*faults(path, common.read(path), installed),
                                  *calls_by_name(path, common.read(path))]]


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
