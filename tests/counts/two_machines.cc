// SPDX-License-Identifier: Apache-2.0
// One program of files that are compiled for two machines: two_machines_test.py compiles this one
// three times. Definitions of both parts are one object, and the order of a sum does not depend on
// the vector length.
#include <array>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "etude/diff.h"

namespace parts {
struct Seen {
  std::size_t lanes, bytes;
  double value, slope;
};
Seen narrow();
Seen wide();
}  // namespace parts

#if defined(PART)
parts::Seen parts::PART() {
  std::vector<double> x;
  for (int i = 0; i < 101; ++i) x.push_back(0.01 * i);
  const auto loss = [&](const auto& p) {
    const auto body = [](auto sum, const auto& q, auto at) {
      const auto r = q[0] + at * (q[1] + at * q[2]) - sin(at);
      return sum + r * r + sqrt(r * r + 0.1);
    };
    return etude::scan(x.size(), p[4], std::array{p[0], p[1], p[2]}, body, x);
  };
  const auto [value, slopes] =
      etude::value_with_gradient(loss, std::array{0.1, 0.7, 0.3, 0.0, 0.0});
  using Lanes = etude::internal::LanesOf<double>;
  return {Lanes::kCount, sizeof(Lanes::type), value, slopes[1]};
}
#else
int main() {
  const parts::Seen a = parts::narrow();
  std::printf("narrow: %zu lanes of %zu bytes, %.17g, %.17g\n", a.lanes, a.bytes, a.value, a.slope);
  if (!__builtin_cpu_supports("avx2")) return 0;
  const parts::Seen b = parts::wide();
  std::printf("wide:   %zu lanes of %zu bytes, %.17g, %.17g\n", b.lanes, b.bytes, b.value, b.slope);
  return a.lanes == b.lanes && a.bytes == b.bytes && a.value == b.value && a.slope == b.slope ? 0
                                                                                              : 1;
}
#endif
