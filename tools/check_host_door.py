#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code outside of kernels, aot and codegen reads elements on the host through one header.

Tensors of other devices have addresses that the host must not follow. etude/core/internal/host_door.h copies them
first, or refuses them. ALLOWED are the files that hand addresses to kernels or to memories, and look at no element;
a file without such a use any more is a fault as well.
"""
import re
import sys

import check_common as common
import cpp_functions

EXEMPT_FOLDERS = ("etude/kernels/", "etude/aot/", "etude/codegen/")
KERNEL_ARGUMENTS = "passes addresses to kernels"
ALLOWED = {
    "etude/core/tensor.cc": "makes tensors, and copies them by the memory of their device",
    "etude/core/tensor_inline.h": "defines the access",
    "etude/core/host_door.cc": "the door itself",
    "etude/core/internal/host_door.h": "the door itself",
    "etude/core/context/pending.cc": "asks whether there are elements",
    "etude/eager/eager.cc": KERNEL_ARGUMENTS,
    "etude/eager/together.cc": KERNEL_ARGUMENTS,
    "etude/lazy/context.cc": "asks whether there are elements",
    "etude/lazy/cut.cc": "publishes the address of elements",
    "etude/lazy/trace.cc": "publishes the address of elements",
    "etude/ops/graph/row_scan.cc": KERNEL_ARGUMENTS,
    "etude/ops/graph/while_loop.cc": KERNEL_ARGUMENTS,
    "etude/ops/shape/transfer.cc": "copies by the memories of both devices",
    "etude/passes/merge.cc": "compares addresses",
    "etude/plan/plan.cc": KERNEL_ARGUMENTS,
    "etude/plan/plan_frames.cc": KERNEL_ARGUMENTS,
    "etude/plan/plan_late.cc": "passes addresses to the memory of their device",
}
ADVICE = "read elements by etude/core/internal/host_door.h, or list the file in tools/check_host_door.py with a reason"

ACCESS = re.compile(r"\bTensorAccess::(?:data|writable)\s*\(|\bTensorAccess::rep\([^()]*\)\s*->\s*data\b"
                    r"|\brep_?\s*->\s*data\b")


def accesses(text):
    """Offsets of direct uses of the address of elements."""
    text = cpp_functions.blank(text)
    return [match.start() for match in ACCESS.finditer(text)]


def faults(sources, allowed):
    """What is wrong with {path: text}."""
    unused = dict(allowed)
    for path, text in sources.items():
        found = accesses(text)
        if found:
            unused.pop(path, None)
        if path in allowed:
            continue
        for offset in found:
            yield f"{path}:{text.count(chr(10), 0, offset) + 1}: host code takes the address of elements: {ADVICE}"
    for path in unused:
        yield f"tools/check_host_door.py: {path} takes no address of elements any more: remove it from ALLOWED"


def self_test():
    assert len(accesses("const void* p = TensorAccess::data(x);")) == 1
    assert len(accesses("std::memcpy(TensorAccess::writable(x), y, n);")) == 1
    assert len(accesses("void* p = TensorAccess::rep(out)->data;")) == 1
    assert len(accesses("if (rep->data != nullptr) f(rep_->data);")) == 2
    assert accesses("// TensorAccess::data(x)\nTensorAccess::has_elements(x); buffer->data; host_elements(x);") == []
    source = {"a.cc": "\nf(TensorAccess::data(x));"}
    assert [fault.split(":")[:2] for fault in faults(source, {})] == [["a.cc", "2"]]
    assert list(faults(source, {"a.cc": "a test"})) == []
    assert len(list(faults({"a.cc": ""}, {"a.cc": "a test"}))) == 1


def main():
    paths = [path for path in common.cpp_files() if path.startswith("etude/")]
    sources = {path: common.read(path) for path in paths
               if not path.startswith(EXEMPT_FOLDERS) and not path.endswith(("_test.cc", "_bench.cc"))
               and "/test_" not in path}
    return list(faults(sources, ALLOWED))


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
