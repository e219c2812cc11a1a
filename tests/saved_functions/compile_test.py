#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_test.py WRITER READER ETUDE CC CXX: saved functions compiled ahead of time, and called from C and C++: names
of inputs and results, several batch sizes in one object, and state in a file that new weights replace."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from process_test import run, tensors

# Reads a state and rows of x; prints the results for one row, then for all eight. %.9g tells all floats apart.
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

static void* read_file(const char* name, size_t* bytes) {
  FILE* file = fopen(name, "rb");
  void* room = aligned_alloc(64, 1 << 20);
  if (file == NULL || room == NULL) exit(2);
  *bytes = fread(room, 1, 1 << 20, file);
  fclose(file);
  return room;
}

int main(int argc, char** argv) {
  static float scores[NET_8_OUTPUT_COUNT];
  static unsigned char scratch[NET_SCRATCH_BYTES];
  size_t state_bytes, x_bytes;
  if (argc != 3) return 2;
  unsigned char* state = read_file(argv[1], &state_bytes);
  const float* x = read_file(argv[2], &x_bytes);
  if (x_bytes != NET_8_X_COUNT * sizeof(float) || NET_1_X_COUNT * 8 != NET_8_X_COUNT) return 3;
  if (net_state_fits(state, state_bytes) != ETUDE_OK) return 4;
  if (net_state_fits(state, state_bytes - 64) != ETUDE_REFUSED || net_state_fits(0, 64) != ETUDE_NULL_POINTER) return 5;
  state[8] ^= 1;
  if (net_state_fits(state, state_bytes) != ETUDE_REFUSED) return 6;
  state[8] ^= 1;
  if (net(2, x, scores, state, scratch) != ETUDE_REFUSED) return 7;
  if (strcmp(net_error(), "the size is 2, but this function was compiled for 1, 8") != 0) return 10;
  if (net(8, x, scores, NULL, scratch) != ETUDE_NULL_POINTER || strstr(net_8_error(), "null pointer") == NULL) return 8;
  for (int size = 1; size <= 8; size += 7) {
    if (net(size, x, scores, state, scratch) != ETUDE_OK || net_error()[0] != 0) return 9;
    for (int i = 0; i < size * 3; ++i) printf("%.9g ", scores[i]);
  }
  return 0;
}
"""
MAIN_CPP = r"""
#include <cstdio>
#include <vector>
#include "both.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<float> x(8 * 4), scores(8 * 3);
  std::FILE* file = std::fopen(argv[1], "rb");
  if (file == nullptr || std::fread(x.data(), sizeof(float), x.size(), file) != x.size()) return 3;
  std::fclose(file);
  both_model::Model model;
  const auto says = [&](auto call, const char* text) {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return std::string(error.what()) == text;
    }
    return false;
  };
  if (!says([&] { model(2, x, scores); }, "both was compiled for the sizes 1, 8")) return 4;
  if (!says([&] { model(1, x, scores); }, "both_1: the spans have other numbers of elements")) return 5;
  model(8, x, scores);
  for (const float each : scores) std::printf("%.9g ", each);
}
"""


def numbers(text):
    return [struct.unpack("<f", struct.pack("<f", float(word)))[0] for word in text.split()]


def main():
    writer, reader, etude, cc, cxx = sys.argv[1:]
    os.environ["ETUDE_ONEDNN"] = "off"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        net, values = str(folder / "net"), str(folder / "values.safetensors")
        run(writer, net, values)
        known = tensors(values)
        x = folder / "x.bin"
        x.write_bytes(struct.pack("<32f", *known["x"][1]))
        compiling = (etude, "compile", net, "--function", "predict", "-o")

        told = run(*compiling, str(folder / "net"), "--name", "net", "--size", "8,1", "--state-file")
        assert "1 inputs, 1 outputs" in told and f"{folder}/net.state: " in told, told
        header = (folder / "net.h").read_text()
        for part in (" * net_8:\n *   input  x: float32[8,4]\n *   output output: float32[8,3]\n",
                     " *         64 net/hidden/", "#define NET_1_X_COUNT 4\n", "#define NET_8_OUTPUT_COUNT 24\n",
                     "static inline int net(int64_t size, const float* x, float* output, const void* state, void* scratch)"):
            assert part in header, (part, header)
        (folder / "main.c").write_text(MAIN)
        run(cc, "-std=c11", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", str(folder / "main.c"), str(folder / "net.o"), "-lm",
            "-lpthread", "-o", str(folder / "main"))
        got = numbers(run(str(folder / "main"), str(folder / "net.state"), str(x)))
        want = known["scores"][1]
        assert got[3:] == want, (got, want)
        assert got[:3] == want[:3], (got[:3], want[:3])

        # New weights for the same object.
        assert run(reader, net, values) == "same\n"  # trains, and saves again
        told = run(*compiling, str(folder / "new"), "--state-only")
        assert told.startswith(f"{folder}/new.state: ") and not (folder / "new.o").exists(), told
        got = numbers(run(str(folder / "main"), str(folder / "new.state"), str(x)))
        assert got[3:] == known["trained"][1] and got[3:] != want

        # The state in the object, two sizes, from C++.
        run(etude, "compile", "--function", "predict", "--size", "1,8", net, "-o", str(folder / "both"))
        (folder / "main.cc").write_text(MAIN_CPP)
        run(cxx, "-std=c++20", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", str(folder / "main.cc"), str(folder / "both.o"), "-lm",
            "-lpthread", "-o", str(folder / "both_main"))
        assert numbers(run(str(folder / "both_main"), str(x))) == known["trained"][1]

        refused = run(etude, "compile", net, "--function", "train", "--size", "1,8", "-o", name + "/t", status=1)
        assert refused == ("etude: function 'train' has no open size: it takes (x: float32[8,4], labels: int32[8]). Leave "
                           "--size out, or call it with two sizes before it is saved\n"), refused
        refused = run(etude, "compile", net, "--function", "train", "-o", name + "/t", status=1)
        assert refused.startswith("etude: function 'train' changes 'net/hidden/weight', ") and refused.endswith(
            " more, but a compiled function changes no state. Export a function that returns the new values\n"), refused
        assert not (folder / "t.o").exists()
        refused = run(etude, "compile", net, "-o", name + "/t", status=1)
        assert refused == "etude: this folder has 2 functions: predict, train. Choose one by --function\n", refused
        refused = run(etude, "compile", net, "--function", "pred", "-o", name + "/t", status=1)
        assert refused == "etude: this folder has no function 'pred'. There are: predict, train\n", refused
        graph = folder / "double.graph"
        graph.write_text("graph double(x: float32[2]) -> (float32[2])\n  %1 = add(x, x)\n  return %1\n")
        refused = run(etude, "compile", str(graph), "--state-file", "-o", name + "/t", status=1)
        assert refused == (f"etude: '{graph}' is no folder of saved functions: a graph has one size and no state. Leave "
                           "--size, --graph, --state-file and --state-only out\n"), refused
        # A name from a file stays within its comment.
        graph.write_text('graph "d */ int x; /*"(x: float32[2]) -> (float32[2])\n  %1 = add(x, x)\n  return %1\n')
        run(etude, "compile", str(graph), "-o", name + "/quoted")
        assert (folder / "quoted.h").read_text().startswith("/* Graph 'd *  int x; /*', compiled"), (folder / "quoted.h").read_text()
        done = subprocess.run([*compiling, name + "/t", "--size", "8,8"], capture_output=True, text=True, check=False,
                              timeout=60)
        assert done.returncode != 0 and "--size names a size twice" in done.stderr, done


if __name__ == "__main__":
    main()
