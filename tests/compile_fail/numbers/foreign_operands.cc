// SPDX-License-Identifier: Apache-2.0
// Operators of tangents are not looked at for operands that are none, where overload resolution
// meets them in namespace etude: texts, iterators, times, paths.
#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "etude/diff.h"

namespace etude {

template <class T>
concept HasFactor = requires {
  typename internal::tangent_factor_t<T>;
};
static_assert(HasFactor<std::vector<double>>);
static_assert(!HasFactor<const char*> && !HasFactor<long> && !HasFactor<std::string>);
static_assert(!HasFactor<std::vector<double>::iterator> && !HasFactor<std::chrono::seconds>);

std::string text(std::string_view view, const char* from, std::string s) {
  s = from + s + 'c' + (from + 1) + std::string(view);
  s += *(from + 2 - 1);
  return s;
}
auto later(std::chrono::seconds by) {
  return std::chrono::steady_clock::now() + 2 * by - by / 2 + std::chrono::milliseconds(4);
}
auto inside(const std::filesystem::path& folder) { return folder / "file"; }
long places(std::vector<std::string>& of) {
  return (std::make_move_iterator(of.end()) - 1) - (std::make_move_iterator(of.begin()) + 0);
}

}  // namespace etude
