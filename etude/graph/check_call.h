// SPDX-License-Identifier: Apache-2.0
// Checks of a single node, for verify.cc and the readers of graphs: parse.cc and binary_reader.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/graph/builder.h"

namespace etude::internal {

// The maximum nesting of graphs: destroying, comparing and running a graph uses stack for each
// level.
inline constexpr int kMaxGraphDepth = 100;

// The result types of a call in a graph. Unlike a user's call, its operands already have one dtype
// where the record shares one, and no result size depends on data.
// throws: kInvalidArgument or the errors of the type rule, without the op's name.
Types check_call(const Op& op, std::span<const Type* const> operands, const Attrs& attrs);

// A call that was read, as it is appended to a graph.
struct ReadCall {
  Attrs attrs;
  Types results;
  // Of a call of an older version (StoredCall): its operands now, and its results among `results`.
  std::vector<GraphBuilder::Draft> operands = {};
  std::vector<uint32_t> places = {};
};
using NamedAttrs = std::vector<std::pair<std::string_view, AttrValue>>;
// A call of the present version, by names of attributes, or by values in the order of the record,
// where an absent value is the default.
// throws: as check_call, with the op's name.
ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands, const NamedAttrs& attrs);
ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands,
                         std::span<const AttrValue> attrs);
// A call of any version. Constants that its upgrades add go to `build`.
// throws: as check_read_call and upgrade().
ReadCall upgrade_read_call(const Op& op, uint32_t version, GraphBuilder& build,
                           std::span<const GraphBuilder::Draft> operands, const NamedAttrs& attrs);
// The op of a name that was read. throws: kNotFound, with similar names.
const Op& find_read_op(std::string_view name);
// The attribute of a name that was read from a call of this version. throws: kInvalidArgument, with
// the valid names.
const AttrDef& find_read_attr(const Op& op, uint32_t version, std::string_view name);

// Merges equal graphs during reading. Otherwise comparing two graphs with many equal subgraphs
// could take exponential time.
class UniqueGraphs {
 public:
  // The first equal graph, or this graph.
  GraphRef add(GraphRef graph);

 private:
  std::unordered_multimap<uint64_t, GraphRef> by_hash_;
};

}  // namespace etude::internal
