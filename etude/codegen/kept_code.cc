// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/kept_code.h"

#include <map>
#include <mutex>

namespace etude::codegen {
namespace {

struct Kept {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<const KeptCode>> by_entry;
  bool is_on = false;
};
Kept& kept() {
  static auto* const out = new Kept;  // code may be linked while statics are destroyed
  return *out;
}

}  // namespace

void keep_code() noexcept {
  const std::lock_guard lock(kept().mutex);
  kept().is_on = true;
}

void note_code(const void* entry, const Request& request, const std::string& object) {
  const std::lock_guard lock(kept().mutex);
  if (!kept().is_on) return;
  kept().by_entry[entry] = std::make_shared<const KeptCode>(KeptCode{request, object});
}

std::shared_ptr<const KeptCode> kept_code(const void* entry) {
  const std::lock_guard lock(kept().mutex);
  const auto found = kept().by_entry.find(entry);
  return found == kept().by_entry.end() ? nullptr : found->second;
}

}  // namespace etude::codegen
