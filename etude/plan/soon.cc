// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/soon.h"

#include <atomic>
#include <utility>

namespace etude::internal {
namespace {

std::atomic<Soon> the_soon{nullptr};

}  // namespace

void set_soon(Soon soon) noexcept { the_soon.store(soon); }

bool do_soon(std::function<void()> work) noexcept {
  const Soon soon = the_soon.load();
  return soon != nullptr && soon(std::move(work));
}

}  // namespace etude::internal
