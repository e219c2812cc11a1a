// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string_view>

#include "etude/autodiff/gradient_tape.h"
#include "etude/base/warning.h"
#include "etude/ops.h"
#include "etude/version.h"

// Settings of this program hold in the library: inline state exists once.
int main() {
  int warned = 0;
  etude::set_warning_handler([&](std::string_view) { ++warned; });
  const etude::Tensor condition(true);
  const etude::Tensor x(2.0F);
  etude::GradientTape tape;
  tape.watch(condition);
  tape.watch(x);
  tape.gradient(etude::where(condition, x * x, x), condition);
  if (warned != 1) {
    std::fprintf(stderr, "the handler heard %d warnings in place of 1\n", warned);
    return 1;
  }
  std::printf("etude %s\n", etude::version());
}
