// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/rules.h"

#include <regex>

#include "etude/core/op/registry.h"

namespace etude::tests {

std::vector<Rule> all_rules() {
  std::vector<Rule> out;
  for (const Op* op : Registry::global().ops()) {
    for (const RewriteDef& def : op->def().rewrites) out.push_back({op, &def});
  }
  return out;
}

std::vector<DType> dtypes_of(const Rule& rule) {
  std::vector<DType> out;
  for (int d = 0; d < 32; ++d) {
    const auto dtype = static_cast<DType>(d);
    if ((rule.op->def().dtypes & rule.def->dtypes).contains(dtype)) out.push_back(dtype);
  }
  return out;
}

std::string sample_of(const Rule& rule, DType dtype) {
  return std::regex_replace(std::string(rule.def->sample), std::regex("\\bT\\b"),
                            std::string(name(dtype)));
}

}  // namespace etude::tests
