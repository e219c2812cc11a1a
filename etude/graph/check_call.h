// SPDX-License-Identifier: Apache-2.0
// What must hold for a node by itself, for verify.cc and for readers of graphs: parse.cc and
// binary_reader.cc.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/graph/builder.h"

namespace etude::internal {

// Graphs that are destroyed, compared or run take stack for each level of graphs that they carry.
inline constexpr int kMaxGraphDepth = 100;

// The result types of a call that a graph may hold. Unlike a call of a user it has operands of one
// dtype where the record shares one, and no result with a size that data tells.
// throws: kInvalidArgument or what the type rule throws, without the op's name.
Types check_call(const Op& op, std::span<const Type* const> operands, const Attrs& attrs);

// A call whose attributes were read by their names.
struct ReadCall {
  Attrs attrs;
  Types results;
};
// throws: as check_call, with the op's name.
ReadCall check_read_call(const Op& op, const GraphBuilder& build,
                         std::span<const GraphBuilder::Draft> operands,
                         const std::vector<std::pair<std::string_view, AttrValue>>& attrs);
// The op of a name that was read. throws: kNotFound, with the nearest names.
const Op& find_read_op(std::string_view name);
// The attribute of a name that was read. throws: kInvalidArgument, with those that there are.
const AttrDef& find_read_attr(const Op& op, std::string_view name);

// Makes equal graphs one while they are read: else comparing two that hold many equal ones could
// take forever.
class UniqueGraphs {
 public:
  // The first that was the same, or this one.
  GraphRef add(GraphRef graph);

 private:
  std::unordered_multimap<uint64_t, GraphRef> by_hash_;
};

}  // namespace etude::internal
