// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/switches.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/thread_object.h"
#include "etude/core/op/registry.h"
#include "etude/passes/pipeline.h"

namespace etude {
namespace internal {
namespace {

using Names = std::vector<std::string>;

// The names of the innermost PassScope of this thread.
struct OffHere {
  const Names* names = nullptr;
};
const Names* off_here() {
  const OffHere* here = ThreadObject<OffHere>::find();
  return here == nullptr ? nullptr : here->names;
}

// All names that can be switched off.
Names all_names() {
  Names out;
  for (const Pass& pass : passes()) {
    if (!pass.is_needed) out.emplace_back(pass.name);
  }
  for (const Op* op : Registry::global().ops()) {
    for (const RewriteDef& rule : op->def().rewrites) out.emplace_back(rule.name);
  }
  return out;
}

bool contains(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The names in a list separated by commas, from `origin`.
Names parse(std::string_view list, std::string_view origin) {
  Names all = all_names();
  if (list == "all") return all;
  Names out;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const auto is_it = [&](const Pass& pass) { return pass.name == name; };
    const bool is_needed = std::ranges::any_of(passes(), is_it) && !contains(all, name);
    ETUDE_REQUIRE(!is_needed,
                  "{}: pass '{}' cannot be switched off: plans have no step for what it takes away",
                  origin, name);
    ETUDE_REQUIRE(contains(all, name), "{}: there is no pass or rule '{}'. There are: {}", origin,
                  name, fmt::join(all, ", "));
    out.emplace_back(name);
  }
  return out;
}

// Read once; again if that failed.
const Names& off_in_program() {
  static const auto* const names = [] {  // threads may outlive static objects
    const char* list = std::getenv("ETUDE_PASSES_OFF");
    return new Names(list == nullptr ? Names() : parse(list, "ETUDE_PASSES_OFF"));
  }();
  return *names;
}

}  // namespace

bool is_switched_off(std::string_view name) {
  const Names* here = off_here();
  return (here != nullptr && contains(*here, name)) || contains(off_in_program(), name);
}

bool has_switches_here() { return off_here() != nullptr; }

void check_environment() { off_in_program(); }

}  // namespace internal

PassScope::PassScope(std::string_view off)
    : off_(internal::parse(off, "PassScope")), outer_(internal::off_here()) {
  if (outer_ != nullptr) off_.insert(off_.end(), outer_->begin(), outer_->end());
  internal::ThreadObject<internal::OffHere>::get().names = &off_;
}

PassScope::~PassScope() { internal::ThreadObject<internal::OffHere>::get().names = outer_; }

}  // namespace etude
