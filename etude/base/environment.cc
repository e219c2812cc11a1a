// SPDX-License-Identifier: Apache-2.0
#include "etude/base/environment.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "etude/base/warning.h"

namespace etude::internal {

int environment_choice(const char* name, std::span<const std::string_view> choices) {
  const char* set = std::getenv(name);
  if (set == nullptr || *set == '\0') return -1;
  const auto found = std::find(choices.begin(), choices.end(), std::string_view(set));
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  warn_once(name, fmt::format("the environment variable {} is '{}', which is ignored. Set it to {}",
                              name, set, fmt::join(choices, " or ")));
  return -1;
}

}  // namespace etude::internal
