// SPDX-License-Identifier: Apache-2.0
// Checks of a single node, for verify.cc and the readers of graphs: parse.cc and binary_reader.cc.
#pragma once

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

// A call whose attributes were read by name.
struct ReadCall {
  Attrs attrs;
  Types results;
};
// throws: as check_call, with the op's name.
ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands,
                         const std::vector<std::pair<std::string_view, AttrValue>>& attrs);
// The op of a name that was read. throws: kNotFound, with similar names.
const Op& find_read_op(std::string_view name);
// The attribute of a name that was read. throws: kInvalidArgument, with the valid names.
const AttrDef& find_read_attr(const Op& op, std::string_view name);

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
