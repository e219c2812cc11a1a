// SPDX-License-Identifier: Apache-2.0
// Bodies whose instructions are counted, not timed: `guards NAME TURNS`. tools/check_guards.py runs
// each under callgrind for n and 2n turns and compares the difference over n with
// benchmarks/guards.json. No oneDNN in any of them, so that counts do not depend on its version.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "etude/ops.h"
#include "etude/runtime/gradient_tape.h"

namespace {

using namespace etude;  // NOLINT(google-build-using-namespace): a program

struct Pair {
  Tensor a = Tensor({{1.0, 2.0}, {3.0, 4.0}}), b = Tensor({{0.5, 0.25}, {0.125, 1.0}});
};

// What callgrind's --toggle-collect counts: one function that runs a body a number of times.
__attribute__((noinline)) void guard_body(void (*body)(Pair&), Pair& o, long turns) {
  for (long i = 0; i < turns; ++i) body(o);
}

void eager_add(Pair& o) { const Tensor c = o.a + o.b; }
void small_product(Pair& o) { const Tensor c = matmul(o.a, o.b); }
void in_place_update(Pair& o) { o.a += o.b; }
void tensor_made_and_dropped(Pair&) { const Tensor t = 1.0; }
void taped_add(Pair& o) {
  GradientTape tape;
  tape.watch(o.a);
  Tensor y = o.a;
  for (int i = 0; i < 16; ++i) y = y + o.b;
  const Tensor g = tape.gradient(y, o.a);
}

struct Guard {
  const char* name;
  void (*body)(Pair&);
};
constexpr Guard kGuards[] = {
    {"eager_add", eager_add},
    {"small_product", small_product},
    {"in_place_update", in_place_update},
    {"tensor_made_and_dropped", tensor_made_and_dropped},
    {"taped_add_x16", taped_add},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    for (const Guard& guard : kGuards) std::cout << guard.name << "\n";
    return argc == 1 ? 0 : 2;
  }
  for (const Guard& guard : kGuards) {
    if (std::strcmp(guard.name, argv[1]) != 0) continue;
    Pair operands;
    guard_body(guard.body, operands, std::atol(argv[2]));
    return 0;
  }
  std::cerr << "no guard is called " << argv[1] << "\n";
  return 2;
}
