// SPDX-License-Identifier: Apache-2.0
// The table of op records; there is no other. Filled by register_all_ops() (etude/startup.cc) on
// first use. Users may add records.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "etude/base/internal/fork_lock.h"
#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// threads: thread-safe: records may be added during lookups. Records are never removed.
class Registry {
 public:
  // The process-wide registry, with all ops of the library.
  static Registry& global();

  // Adds a record.
  // throws: kFailedPrecondition if the name is taken; kInvalidArgument, naming the op and the
  // field, if a field that the kind requires is missing, or if upgrades do not lead to `version`.
  const Op& define(OpDef def);
  // The op with that name ("matmul", or "nn.relu" with its namespace); null if there is none.
  const Op* find(std::string_view name) const;
  // The same. throws: kNotFound, with similar names.
  const Op& at(std::string_view name) const;
  // The text of that error, for a name that no op has.
  std::string explain_unknown(std::string_view name) const;
  // All ops in order of definition.
  std::vector<const Op*> ops() const;

 private:
  mutable internal::ForkSafeSharedMutex mutex_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::unordered_map<std::string_view, const Op*> by_name_;
};

// Adds the ops of all families of the library. Defined in etude/startup.cc.
void register_all_ops(Registry& registry);

}  // namespace etude
