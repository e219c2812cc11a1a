// SPDX-License-Identifier: Apache-2.0
// Upgrades: calls of older versions of an op, as files hold them, become calls of the present
// version. Readers of graphs run them; authors of records write them.
//
//   // Version 2 has another default: calls of version 1 keep theirs.
//   .version = 2,
//   .upgrades = {{1, [](StoredCall& call) { call.set_missing("epsilon", 0.001); }}},
//
// Files are not trusted: an upgrade reads operands by at(), and values of attributes by std::get.
// An exception becomes an error that names the place in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A call as a file holds it: operands, and attributes by name. Text and container version 1 leave
// out attributes that had their defaults; container version 2 lists all of them.
struct StoredCall {
  // An operand of the stored call; or a constant that an upgrade adds; or, without both, an absent
  // operand. Upgrades copy, move and remove operands as a whole.
  struct Operand {
    static constexpr uint32_t kNoValue = ~uint32_t{0};

    const Type* type = nullptr;  // null for an absent operand
    uint32_t value = kNoValue;   // the index in the stored call
    Tensor constant = {};        // must have elements
  };
  std::vector<Operand> operands;
  std::vector<std::pair<std::string, AttrValue>> attrs;
  // Maps results of the old version to results of the new version: entry i is the new index of old
  // result i. Empty: the results are unchanged.
  std::vector<uint32_t> results;

  // The value of an attribute; null if the call has none of that name. Valid until the next change.
  const AttrValue* find(std::string_view name) const;
  // Adds an attribute or replaces its value.
  void set(std::string_view name, AttrValue value);
  // Adds an attribute unless the call has one of that name. Used to store the default of the old
  // version.
  void set_missing(std::string_view name, AttrValue value);
  // Does nothing if the call has no attribute `from`.
  void rename(std::string_view from, std::string_view to);
  // Removes an attribute and returns its value; absent if the call has none of that name.
  AttrValue remove(std::string_view name);
};

namespace internal {

// Runs the upgrades from `version` to the present version of the op.
// throws: kUnimplemented, naming the op, the version and the readable versions, for a version that
//         is newer than the record or older than its first upgrade.
void upgrade(const Op& op, uint32_t version, StoredCall& call);
// Makes the same checks without a call.
void require_readable(const Op& op, uint32_t version);

}  // namespace internal
}  // namespace etude
