// SPDX-License-Identifier: Apache-2.0
// The rewrite rules of all records, for tests.
#pragma once

#include <string>
#include <vector>

#include "etude/core/op/op.h"

namespace etude::tests {

struct Rule {
  const Op* op;
  const RewriteDef* def;
};
std::vector<Rule> all_rules();
// The dtypes for which the rule holds.
std::vector<DType> dtypes_of(const Rule& rule);
// The sample with a dtype in the place of the word T.
std::string sample_of(const Rule& rule, DType dtype);

}  // namespace etude::tests
