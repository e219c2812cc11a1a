// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/check_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/context/context.h"
#include "etude/core/op/registry.h"

namespace etude::internal {

Types check_call(const Op& op, std::span<const Type* const> operands, const Attrs& attrs) {
  require_count(op, operands.size());
  const Type* shared = nullptr;
  std::size_t shared_at = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Type* type = operands[i];
    if (type == nullptr) {
      ETUDE_REQUIRE(op.operand(i).optional, "{} is absent", operand_text(op, i));
      continue;
    }
    const DTypeSet set = op.operand_dtypes(i);
    ETUDE_REQUIRE(set.contains(type->dtype()), "{} is {}, but must be one of {}",
                  operand_text(op, i), name(type->dtype()), describe(set));
    if (!op.operand(i).dtypes.empty()) continue;
    if (shared == nullptr) {
      shared = type;
      shared_at = i;
    }
    ETUDE_REQUIRE(shared->dtype() == type->dtype(),
                  "{} is {} and {} is {}; in a graph they have one dtype. Cast one with astype",
                  operand_text(op, shared_at), name(shared->dtype()), operand_text(op, i),
                  name(type->dtype()));
  }
  Types results = infer_types(op, operands, attrs);
  for (const Type* type : results) {
    ETUDE_REQUIRE(type == nullptr || type->count() != kAny,
                  "returns {}, with a size that depends on data, which graphs do not support",
                  type->to_string());
  }
  return results;
}

ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands,
                         const std::vector<std::pair<std::string_view, AttrValue>>& attrs) {
  Types types;
  for (const auto d : operands) {
    types.push_back(d == GraphBuilder::kNoDraft ? nullptr : build.type(d));
  }
  try {
    ReadCall call{op.attrs_by_name(attrs), {}};
    call.results = check_call(op, {types.data(), types.size()}, call.attrs);
    return call;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    const std::string prefix = fmt::format("{}: ", op.name());
    if (error.code() == ErrorCode::kInternal || text.starts_with(prefix)) throw;
    throw Error(error.code(), prefix + std::string(text));
  }
}

const Op& find_read_op(std::string_view name) {
  constexpr std::size_t kLongest = 100;  // longer names are compared with no others
  if (const Op* op = Registry::global().find(name)) return *op;
  ETUDE_REQUIRE_CODE(kNotFound, name.size() <= kLongest, "no op has so long a name");
  return Registry::global().at(name);
}

const AttrDef& find_read_attr(const Op& op, std::string_view name) {
  std::vector<std::string_view> names;
  for (const AttrDef& def : op.def().attrs) {
    if (def.name == name) return def;
    names.push_back(def.name);
  }
  const std::string known =
      names.empty() ? "It has none" : fmt::format("It has {}", fmt::join(names, ", "));
  ETUDE_THROW(kInvalidArgument, "{} has no attribute '{}'. {}", op.name(), name, known);
}

GraphRef UniqueGraphs::add(GraphRef graph) {
  const auto [first, last] = by_hash_.equal_range(graph->hash());
  for (auto known = first; known != last; ++known) {
    if (known->second->same(*graph)) return known->second;
  }
  by_hash_.emplace(graph->hash(), graph);
  return graph;
}

}  // namespace etude::internal
