// SPDX-License-Identifier: Apache-2.0
// The name of a type for messages.
#pragma once

#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The name of T in the compiler's spelling.
template <class T>
constexpr std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  return text.substr(0, text.find_first_of(";]"));
}

}  // namespace internal
}  // namespace etude
