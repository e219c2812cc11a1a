// SPDX-License-Identifier: Apache-2.0
//
// The functions of math_list.inc in double precision, with the error that float32 functions may
// have. For tests.

#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace etude::internal {

struct MathReference {
  const char* name;
  double ulp;  // largest error in units of the last place of float32
  double (*unary)(double) = nullptr;
  double (*binary)(double, double) = nullptr;
  double absolute = 0;  // errors below this are ignored: near zeros that are not floats
};

std::span<const MathReference> math_references();
const MathReference* find_reference(std::string_view name);
std::vector<MathReference> references_of_arity(int arity);

}  // namespace etude::internal
