#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public layer, model, cell, optimiser, transform, loss, metric, schedule, callback and initialiser has a row in etude/kinds/.

The installed headers of nn, optim and data are read for them (tools/kind_headers.py). That parameters and defaults of rows are
those of the headers is for tests/tools/etude_kinds_test.py, which asks the program etude.
"""
import sys

import check_common as common
import kind_headers

# Classes and functions without a row, and the reason.
OF_PROGRAM = "holds functions and elements of the program, which have no description"
EXEMPT = {
    "nn.keep_best": "borrows a model of the caller's type",
    "optim.lbfgs": "minimises a function of the program; optim.LBFGSOptions has a row",
    "data.Batches": OF_PROGRAM,
    "data.BucketedLoader": OF_PROGRAM,
    "data.Dataset": OF_PROGRAM,
    "data.DatasetIterator": OF_PROGRAM,
    "data.DatasetLoader": OF_PROGRAM,
    "data.Loader": OF_PROGRAM,
}
# Functions of one tensor that are no activations have no rows, so rows of activations are not demanded.
DEMANDED = ("layer", "cell", "optimizer", "transform", "loss", "metric", "schedule", "callback", "initializer", "minimizer",
            "dataset")


def faults(declared, structs, rows, exempt):
    unused = dict(exempt)
    for each in declared:
        if each.group not in DEMANDED or each.name in rows:
            continue
        if unused.pop(each.name, None) is None:
            yield (f"{each.where}: {each.group} {each.name} has no row in etude/kinds/*_rows.cc: add one, "
                   "and nothing else")
    known = {each.name for each in declared} | set(structs)
    for name, path in rows.items():
        if name not in known:
            yield f"{path}: no installed header of nn or optim declares {name}"
    for name in unused:
        yield f"tools/check_kinds.py: {name} has a row, or is not declared: remove its exemption"


def self_test():
    kind_headers.self_test()
    layer = kind_headers.Declared("nn.A", "layer", "", [], "", "a.h:1")
    assert list(faults([layer], {}, {"nn.A": "b.cc"}, {})) == []
    assert ["a.h", "1"] == list(faults([layer], {}, {}, {}))[0].split(":")[:2]
    assert list(faults([layer], {}, {}, {"nn.A": "a reason"})) == []
    assert "remove its exemption" in list(faults([layer], {}, {"nn.A": "b.cc"}, {"nn.A": "a reason"}))[0]
    assert "declares nn.B" in list(faults([], {}, {"nn.B": "b.cc"}, {}))[0]
    assert list(faults([], {"nn.B": {}}, {"nn.B": "b.cc"}, {})) == []


def main():
    declared, structs = kind_headers.read()
    return list(faults(declared, structs, kind_headers.rows(), EXEMPT))


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
