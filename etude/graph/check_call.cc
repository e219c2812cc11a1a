// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/check_call.h"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/context/context.h"
#include "etude/core/op/registry.h"
#include "etude/core/op/upgrade.h"

namespace etude::internal {

Types check_call(const Op& op, std::span<const Type* const> given, const Attrs& attrs) {
  Types all;
  for (const Type* type : given) all.push_back(type);
  const std::size_t count = full_count(op, given.size());
  while (all.size() < count) all.push_back(nullptr);
  const std::span<const Type* const> operands(all.data(), all.size());
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

namespace {

// The result of f(), whose errors begin with the name of the op.
template <class F>
auto named_call(const Op& op, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    const std::string prefix = fmt::format("{}: ", op.name());
    if (error.code() == ErrorCode::kInternal || text.starts_with(prefix)) throw;
    throw Error(error.code(), prefix + std::string(text));
  }
}

Types types_of(const GraphBuilder& build, std::span<const GraphBuilder::Draft> operands) {
  Types types;
  for (const auto d : operands) {
    types.push_back(d == GraphBuilder::kNoDraft ? nullptr : build.type(d));
  }
  return types;
}

ReadCall checked(const Op& op, const GraphBuilder& build,
                 std::span<const GraphBuilder::Draft> operands, Attrs attrs) {
  const Types types = types_of(build, operands);
  ReadCall call{std::move(attrs), {}};
  call.results = check_call(op, {types.data(), types.size()}, call.attrs);
  return call;
}

// The operand of an upgraded call in the graph.
GraphBuilder::Draft draft_of(GraphBuilder& build, std::span<const GraphBuilder::Draft> stored,
                             const StoredCall::Operand& operand) {
  if (operand.constant.has_value()) return build.add_constant(operand.constant);
  if (operand.value == StoredCall::Operand::kNoValue) return GraphBuilder::kNoDraft;
  ETUDE_CHECK(operand.value < stored.size(), "an upgrade made up the operand {}", operand.value);
  return stored[operand.value];
}

}  // namespace

ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands, const NamedAttrs& attrs) {
  return named_call(op, [&] { return checked(op, build, operands, op.attrs_by_name(attrs)); });
}

ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands,
                         std::span<const AttrValue> attrs) {
  return named_call(op, [&] { return checked(op, build, operands, op.attrs(attrs)); });
}

ReadCall upgrade_read_call(const Op& op, uint32_t version, GraphBuilder& build,
                           std::span<const GraphBuilder::Draft> operands, const NamedAttrs& attrs) {
  if (version == static_cast<uint32_t>(op.def().version)) {
    ReadCall call = check_read_call(op, build, operands, attrs);
    call.operands.assign(operands.begin(), operands.end());
    return call;
  }
  return named_call(op, [&] {
    StoredCall stored;
    const Types types = types_of(build, operands);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool is_given = operands[i] != GraphBuilder::kNoDraft;
      stored.operands.push_back(
          {types[i], is_given ? static_cast<uint32_t>(i) : StoredCall::Operand::kNoValue});
    }
    for (const auto& [key, value] : attrs) stored.attrs.emplace_back(std::string(key), value);
    upgrade(op, version, stored);
    std::vector<GraphBuilder::Draft> upgraded;
    for (const auto& each : stored.operands) upgraded.push_back(draft_of(build, operands, each));
    NamedAttrs by_name;
    for (const auto& [key, value] : stored.attrs) by_name.emplace_back(key, value);
    ReadCall call = checked(op, build, upgraded, op.attrs_by_name(by_name));
    for (const uint32_t place : stored.results) {
      ETUDE_REQUIRE(place < call.results.size(),
                    "an upgrade from version {} takes result {} of the call, which has {} results",
                    version, place, call.results.size());
    }
    call.operands = std::move(upgraded);
    call.places = std::move(stored.results);
    return call;
  });
}

const Op& find_read_op(std::string_view name) {
  constexpr std::size_t kLongest = 100;  // longer names are compared with no others
  if (const Op* op = Registry::global().find(name)) return *op;
  ETUDE_REQUIRE_CODE(kUnimplemented, name.size() <= kLongest, "no op has so long a name");
  ETUDE_THROW(
      kUnimplemented,
      "{}. A graph of a newer release, or of a program with ops of its own, is read by that "
      "release, or after the program has defined its ops",
      Registry::global().explain_unknown(name));
}

const AttrDef& find_read_attr(const Op& op, uint32_t version, std::string_view name) {
  std::vector<std::string_view> names;
  const auto find = [&](const std::vector<AttrDef>& defs) -> const AttrDef* {
    for (const AttrDef& def : defs) {
      if (def.name == name) return &def;
      names.push_back(def.name);
    }
    return nullptr;
  };
  for (const UpgradeDef& upgrade : op.def().upgrades) {
    if (static_cast<uint32_t>(upgrade.from) < version) continue;
    if (const AttrDef* def = find(upgrade.former)) return *def;
  }
  if (const AttrDef* def = find(op.def().attrs)) return *def;
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
