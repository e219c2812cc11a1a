#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""models_test.py CASE ETUDE CC CXX ARGS...: compiles graphs ahead of time, and calls them from C and C++.

What a case needs beyond that follows: see CASES. A tool that is not installed skips its part, and says so.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# Products, a softmax, a gather that checks its indices, a sum, and runs of element-wise calls.
MIXED = """graph mixed(x: float32[5,7], w: float32[7,9], rows: int32[4]) -> (float32[4,9], float32[9], bool[5,9])
  %1 = matmul(x, w)
  %2 = constant float32[] 0.5
  %3 = multiply(%1, %2)
  %4 = tanh(%3)
  %5 = softmax(%4)
  %6 = take(%5, rows)  # train.cc:9
  %7 = sum(%4, axis=[0])
  %8 = greater(%4, %5)
  return %6, %7, %8
"""
TYPES = {"F32": ("f", 4), "I32": ("i", 4), "BOOL": ("B", 1)}
MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "mixed.h"

static const char* const wanted[] = {"input 1 is a null pointer", "output 0 is a null pointer",
                                     "the scratch memory is a null pointer"};

static int says(int status, int wanted_status, const char* text) {
  if (status == wanted_status && strstr(mixed_error(), text) != NULL) return 1;
  fprintf(stderr, "status %d, '%s'; want %d, '%s'\n", status, mixed_error(), wanted_status, text);
  return 0;
}

int main(int argc, char** argv) {
  static float x[MIXED_X_COUNT], w[MIXED_W_COUNT], y0[MIXED_Y0_COUNT], y1[MIXED_Y1_COUNT];
  static int32_t rows[MIXED_ROWS_COUNT];
  static uint8_t y2[MIXED_Y2_COUNT];
  static unsigned char scratch[MIXED_SCRATCH_BYTES];
  FILE* file = fopen(argv[1], "rb");
  if (argc != 3 || file == NULL) return 2;
  if (fread(x, sizeof x, 1, file) + fread(w, sizeof w, 1, file) + fread(rows, sizeof rows, 1, file) != 3) return 2;
  fclose(file);
  if (mixed(x, w, rows, y0, y1, y2, scratch) != ETUDE_OK) return 3;
  file = fopen(argv[2], "wb");
  fwrite(y0, sizeof y0, 1, file);
  fwrite(y1, sizeof y1, 1, file);
  fwrite(y2, sizeof y2, 1, file);
  fclose(file);
  if (!says(mixed(x, NULL, rows, y0, y1, y2, scratch), ETUDE_NULL_POINTER, wanted[0])) return 4;
  if (!says(mixed(x, w, rows, NULL, y1, y2, scratch), ETUDE_NULL_POINTER, wanted[1])) return 4;
  if (!says(mixed(x, w, rows, y0, y1, y2, NULL), ETUDE_NULL_POINTER, wanted[2])) return 4;
  rows[2] = 5;
  if (!says(mixed(x, w, rows, y0, y1, y2, scratch), ETUDE_REFUSED, "take at train.cc:9: index 5 is out of range")) return 4;
  rows[2] = 4;
  return says(mixed(x, w, rows, y0, y1, y2, scratch), ETUDE_OK, "") ? 0 : 4;
}
"""
MAIN_CPP = r"""
#include <cstdio>
#include <string>
#include "mixed.hpp"

int main() {
  static float x[MIXED_X_COUNT], w[MIXED_W_COUNT], y0[MIXED_Y0_COUNT], y1[MIXED_Y1_COUNT];
  static int32_t rows[MIXED_ROWS_COUNT];
  static uint8_t y2[MIXED_Y2_COUNT];
  mixed_model::Model model;
  model(x, w, rows, y0, y1, y2);
  rows[0] = -9;
  try {
    model(x, w, rows, y0, y1, y2);
  } catch (const std::runtime_error& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
"""


def run(*command, code=0, cwd=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}, want {code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def write_tensors(path, tensors):
    head, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        part = struct.pack(f"<{len(values)}{TYPES[dtype][0]}", *values)
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return data


def read_tensors(path):
    """The bytes of each tensor, by name."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    head = json.loads(content[8:8 + size])
    head.pop("__metadata__", None)
    at = {name: each["data_offsets"] for name, each in head.items()}
    return {name: content[8 + size + begin:8 + size + end] for name, (begin, end) in at.items()}


def numbers(count, seed):
    return [((i * 37 + seed) % 101 - 50) / 20 for i in range(count)]


# Inputs whose names mean something in C, in C++ or in the header itself.
NAMES = ["restrict", "_Bool", "NULL", "errno", "taken_run", "taken_error", "taken_state_fits", "taken", "TAKEN", "TAKEN_X_COUNT", "x", "X",
         "uint8_t", "size_t", "INT32_MAX", "ETUDE_OK", "std", "scratch_", "scratch", "constexpr", "nullptr", "linux", "main", "int", "co_await",
         "bool", "state", "size", "typeof", "ETUDE_STATUS", "a/b", "a_b", "7"]


def check_names(etude, cc, cxx, folder):
    """Headers with such names compile, in both languages, after other headers."""
    spelt = [name if re.fullmatch(r"[a-zA-Z_][\w/]*", name) else f'"{name}"' for name in NAMES]
    text = f"graph f({', '.join(name + ': float32[2]' for name in spelt)}) -> (float32[2])\n"
    (folder / "f.graph").write_text(text + "  %1 = add(x, X)\n  return %1\n")
    run(etude, "compile", "f.graph", "-o", "taken", cwd=folder)
    headers = "errno.h stdio.h stdlib.h string.h math.h stdbool.h taken.h".split()
    call = f"int go(float* s) {{ return taken({'s, ' * len(NAMES)}s, s) + (int)TAKEN_X_COUNT; }}\n"
    (folder / "names.c").write_text("".join(f"#include <{h}>\n" for h in headers[:-1]) + '#include "taken.h"\n' + call)
    for standard in ("c99", "gnu11", "gnu2x"):
        run(cc, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-c", "names.c", "-o", "names.o", cwd=folder)
    (folder / "names.cc").write_text('#include <cerrno>\n#include <cstdio>\n#include "taken.hpp"\nint go() { taken_model::Model model; '
                                     'return TAKEN_X_COUNT; }\n')
    run(cxx, "-std=gnu++20", "-Wall", "-Wextra", "-Werror", "-c", "names.cc", "-o", "names.o", cwd=folder)


def make_mixed(etude, folder, isa, *more):
    (folder / "mixed.graph").write_text(MIXED)
    print(run(etude, "compile", "mixed.graph", "-o", "mixed", "--isa", isa, *more, cwd=folder), end="")
    given = write_tensors(folder / "in.safetensors", {"x": ("F32", [5, 7], numbers(35, 1)),
                                                      "w": ("F32", [7, 9], numbers(63, 2)),
                                                      "rows": ("I32", [4], [4, 0, 2, 2])})
    (folder / "in.bytes").write_bytes(given)
    run(etude, "graph", "run", "mixed.graph", "--inputs", "in.safetensors", "--output", "out.safetensors", cwd=folder)
    (folder / "main.c").write_text(MAIN)


def check_bits(folder):
    want = read_tensors(folder / "out.safetensors")
    got = (folder / "out.bytes").read_bytes()
    if got != want["ys/0"] + want["ys/1"] + want["ys/2"]:
        sys.exit("the model gives other bits than the graph")


def case_c(etude, cc, cxx):
    """Strict C, both kinds of linking; what the program needs; every status; valgrind."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for isa in ("portable", "avx2"):
            make_mixed(etude, folder, isa)
            strict = [cc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "main.c", "mixed.o"]
            run(*strict, "-o", "static", "-static", "-lm", "-lpthread", cwd=folder)
            run(*strict, "-o", "main", "-Wl,-z,defs", "-lm", "-lpthread", cwd=folder)
            for program in ("./static", "./main"):
                run(program, "in.bytes", "out.bytes", cwd=folder)
                check_bits(folder)
        check_names(etude, cc, cxx, folder)
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", "main", cwd=folder)))
        if not needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0"}:
            sys.exit(f"the program needs {needed}")
        stack = [line for line in run("readelf", "-lW", "main", cwd=folder).splitlines() if "GNU_STACK" in line]
        if len(stack) != 1 or "RWE" in stack[0]:
            sys.exit("the stack of the program may be run")
        if shutil.which("valgrind") is None:
            print("skipped: valgrind is not installed")
            return
        run("valgrind", "--error-exitcode=9", "--leak-check=full", "./main", "in.bytes", "out.bytes", cwd=folder)
        check_bits(folder)


def case_arm64(etude, cc, cxx, arm64_cxx):
    """The same on a 64-bit Arm, which qemu plays."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_mixed(etude, folder, "best", "--target", "arm64")
        arm64_cc = arm64_cxx.replace("g++", "gcc")
        run(arm64_cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "mixed.o", "-static", "-lm", "-lpthread", "-o",
            "main", cwd=folder)
        if shutil.which("qemu-aarch64") is None:
            print("skipped: qemu-aarch64 is not installed")
            return
        run("qemu-aarch64", "./main", "in.bytes", "out.bytes", cwd=folder)
        check_bits(folder)


def case_cpp(etude, cc, cxx):
    """The class for C++; two models in one program; a shared library."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_mixed(etude, folder, "best")
        run(etude, "compile", "mixed.graph", "-o", "second", cwd=folder)
        (folder / "main.cc").write_text(MAIN_CPP)
        run(cxx, "-std=c++20", "-Wall", "-Wextra", "-Werror", "main.cc", "mixed.o", "second.o", "-o", "main", cwd=folder)
        text = run("./main", cwd=folder)
        if "take" not in text or "-9" not in text:
            sys.exit(f"the exception says '{text}'")
        run(cxx, "-shared", "-Wl,-z,defs", "mixed.o", "second.o", "-o", "both.so", "-lm", cwd=folder)
        if {line.split()[-1] for line in run("nm", "-D", "--defined-only", "both.so", cwd=folder).splitlines()
                } - {"_init", "_fini"} != {"mixed_run", "mixed_error", "second_run", "second_error"}:
            sys.exit("the library shows other names than those of its models")


def case_errors(etude, cc, cxx):
    """What is refused, and what is said of it."""
    rows = [("graph a(x: float32[2]) -> ()\n  %1 = internal.print(x, text=\"{}\")  # train.cc:7\n  return\n", ["-o", "a"],
             "print: has an effect outside of its graph"),
            ("graph a(x: float32[2]) -> (float32[2])\n  return x\n", ["-o", "2a"],
             "a model cannot be called '2a': C takes letters, digits and _"),
            *[("graph a(x: float32[2]) -> (float32[2])\n  return x\n", ["-o", "a", "--name", name],
               f"a model cannot be called '{name}', which is a name of C or C++. Use --name") for name in ("int", "main", "NULL")],
            ("graph a(x: float32[2]) -> (float32[2])\n  return x\n", ["-o", "restrict"], "cannot be called 'restrict'"),
            ("graph a(x: float32[3,3]) -> (float32[3])\n  %1 = svdvals(x)\n  return %1\n", ["-o", "a"],
             "its kernel cannot be compiled ahead of time"),
            ("graph a(", ["-o", "a"], "a.graph: ")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for graph, args, text in rows:
            (folder / "a.graph").write_text(graph)
            said = run(etude, "compile", "a.graph", *args, code=1, cwd=folder)
            if text not in said or (folder / "a.o").exists():
                sys.exit(f"it says\n{said}\nwhich has not\n{text}")
    check_installation(etude)


def check_installation(etude):
    """What is said where a part of the installation is missing."""
    etude = pathlib.Path(etude)
    library = etude.parent.parent / "lib"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "bin").mkdir()
        (folder / "lib").mkdir()
        copy = shutil.copy2(etude, folder / "bin")
        (folder / "a.graph").write_text("graph a(x: float32[2]) -> (float32[2])\n  %1 = tanh(x)\n  return %1\n")

        def refuse(text, *args):
            said = run(copy, "compile", "a.graph", "-o", "a", *args, code=1, cwd=folder)
            if text not in said or (folder / "a.o").exists():
                sys.exit(f"it says\n{said}\nwhich has not\n{text}")

        refuse("the archive of kernels libetude_aot.a was not found next to the program or in its folder lib. Build the target")
        for archive in library.glob("libetude_aot*.a"):
            shutil.copy2(archive, folder / "lib")
        refuse("nothing is compiled ahead of time: etude-codegen was not found beside")
        shutil.copy2(library / "etude-codegen", folder / "lib")
        run(copy, "compile", "a.graph", "-o", "whole", cwd=folder)
        if shutil.which("strip") is None:
            print("skipped: a program without symbols, since there is no strip")
            return
        run("strip", copy)
        refuse(f"reads the names of kernels in {folder}/bin/{etude.name}, which was stripped. Install it with its symbols")
    said = run(etude, "compile", "a.graph", "-o", "a", "--target", "arm64", "--isa", "avx2", code=105)
    if "--isa avx2 is of x86-64, but --target arm64 has portable kernels only: leave --isa out" not in said:
        sys.exit(f"it says\n{said}")


def case_page(etude, cc, cxx, page, *flags):
    """The page, from top to bottom."""
    text = pathlib.Path(page).read_text()
    blocks = {kind: re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("cpp", "sh", "c", "text")}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "write.cc").write_text(blocks["cpp"])
        (folder / "main.c").write_text(blocks["c"])
        run(cxx, "write.cc", "-o", "write", *flags, cwd=folder)
        run("./write", cwd=folder)
        script = f"set -e\netude() {{ command {etude} \"$@\" > made.txt; }}\ncc() {{ command {cc} \"$@\"; }}\n" + blocks["sh"]
        said = run("sh", "-c", script, cwd=folder)
        if said != blocks["text"]:
            sys.exit(f"the program prints\n{said}")


def case_lenet(etude, cc, cxx, lenet):
    """The network of ./dev train: its size, and its bits on a batch, with our products in both."""
    count = 128
    os.environ["ETUDE_ONEDNN"] = "off"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(lenet, "--batch", count, "--output", "lenet.graph", cwd=folder)
        print(run(etude, "compile", "lenet.graph", "-o", "lenet", cwd=folder), end="")
        images = [(i * 31 % 97) / 97 for i in range(count * 28 * 28)]
        write_tensors(folder / "in.safetensors", {"images": ("F32", [count, 28, 28, 1], images)})
        run(etude, "graph", "run", "lenet.graph", "--inputs", "in.safetensors", "--output", "out.safetensors", cwd=folder)
        (folder / "in.bytes").write_bytes(struct.pack(f"<{len(images)}f", *images))
        (folder / "main.c").write_text(r'''
#include <stdio.h>
#include "lenet.h"
static float images[LENET_IMAGES_COUNT], y[LENET_Y_COUNT];
static unsigned char scratch[LENET_SCRATCH_BYTES];
int main(void) {
  if (fread(images, sizeof images, 1, stdin) != 1 || lenet(images, y, scratch) != ETUDE_OK) return 1;
  return fwrite(y, sizeof y, 1, stdout) != 1;
}
''')
        run(cc, "main.c", "lenet.o", "-o", "main", "-lm", "-lpthread", "-s", cwd=folder)
        with (folder / "in.bytes").open("rb") as given:
            got = subprocess.run(["./main"], stdin=given, capture_output=True, cwd=folder, check=True).stdout
        if got != read_tensors(folder / "out.safetensors")["y"]:
            sys.exit("the model gives other bits than the graph")
        size = (folder / "main").stat().st_size
        print(f"LeNet with its weights, stripped: {size} bytes")
        if size > 2_000_000:
            sys.exit("more than 2 MB")


# Functions that change state, and that have graphs for several values of a host argument.
SAVED = r"""
#include "etude/etude.h"
#include "etude/saved/saved.h"

using namespace etude;

int main() {
  const Variable total(zeros({}));
  const auto count = function([&](const Tensor& x) {
    total.assign(total + sum(x));
    return total.read();
  }, {.name = "count", .arg_names = {"x"}});
  count(ones({3}));
  const auto times = function([](const Tensor& x, int64_t n) { return x * static_cast<float>(n); },
                              {.name = "times", .arg_names = {"x", "n"}});
  times(ones({2}), 3);
  times(ones({2}), 4);
  times(ones({3}), 5);
  saved::save("net", {{"count", count}, {"total", total}, {"times", times}});
}
"""


def case_saved(etude, cc, cxx, *flags):
    """Saved functions whose graphs a call by names cannot serve, or cannot choose."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "write.cc").write_text(SAVED)
        run(cxx, "write.cc", "-o", "write", *flags, cwd=folder)
        run("./write", cwd=folder)
        for given, size in (("two", 2), ("three", 3)):
            write_tensors(folder / f"{given}.safetensors", {"x": ("F32", [size], [1.0] * size)})

        def refuse(text, *args):
            said = run(etude, *args, code=1, cwd=folder)
            if said != f"etude: {text}\n":
                sys.exit(f"it says\n{said}\nand not\n{text}")

        refuse("function 'count' changes 'total', but a compiled function changes no state. Export a function that returns the "
               "new values", "compile", "net", "--function", "count", "-o", "count")
        if (folder / "count.o").exists():
            sys.exit("a function that changes state was compiled")

        def choose(more=""):
            return (f"function 'times' has graphs for {3 if more else 2} values of the argument 'n', and tensors do not choose among "
                    f"them. Pass --graph 1 for 3, --graph 2 for 4{more}. `etude inspect net --function times` shows the graphs")

        times = ("net", "--function", "times")
        refuse(choose(), "run", *times, "--inputs", "two.safetensors")
        refuse(choose(), "compile", *times, "-o", "times")
        for file in ("times.txt", "times.onnx", "times.mlir", "times.etude"):
            refuse(choose(", --graph 3 for 5"), "convert", *times, file)
            run(etude, "convert", *times, file, "--graph", "2", cwd=folder)
        run(etude, "compile", *times, "-o", "times", "--graph", "2", cwd=folder)
        refuse("--graph is 4, but function 'times' has 3 graphs", "compile", *times, "-o", "times", "--graph", "4")
        for given, want, *args in (("two", 3, "--graph", "1"), ("two", 4, "--graph", "2"), ("three", 5)):
            run(etude, "run", *times, "--inputs", f"{given}.safetensors", "--output", "y.safetensors", *args, cwd=folder)
            got = set(struct.unpack("<2f", read_tensors(folder / "y.safetensors")["output"][:8]))
            if got != {want}:
                sys.exit(f"it computes {got}, not {want}")


CASES = {"arm64": case_arm64, "c": case_c, "cpp": case_cpp, "errors": case_errors, "page": case_page, "lenet": case_lenet,
         "saved": case_saved}
if __name__ == "__main__":
    CASES[sys.argv[1]](*sys.argv[2:])
