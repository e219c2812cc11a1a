// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/tape/escaped.h"

#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "etude/base/internal/fork_lock.h"
#include "etude/base/permanent.h"
#include "etude/base/warning.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/tensor.h"

namespace etude::internal {
namespace {

constexpr std::size_t kMostNoted = 1 << 16;

struct Escaped {
  ForkSafeMutex mutex;
  std::unordered_map<uint64_t, std::string> made;  // "multiply at train.cc:12"
  std::deque<uint64_t> order;                      // oldest first
};
Escaped& escaped() {
  static Permanent<Escaped> noted;
  return *noted;
}

std::string find_escaped(uint64_t id) {
  const std::lock_guard lock(escaped().mutex);
  const auto found = escaped().made.find(id);
  return found == escaped().made.end() ? std::string() : found->second;
}

}  // namespace

void note_escaped(uint64_t id, std::string_view op, CallSite made) {
  Escaped& noted = escaped();
  const std::lock_guard lock(noted.mutex);
  if (!noted.made.emplace(id, fmt::format("{} at {}:{}", op, made.file, made.line)).second) return;
  noted.order.push_back(id);
  if (noted.order.size() <= kMostNoted) return;
  noted.made.erase(noted.order.front());
  noted.order.pop_front();
}

void warn_escaped(Operands in, CallSite where) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor& x = in[i];
    if (!x.has_value()) continue;
    const std::string made = find_escaped(TensorAccess::id_or_zero(x));
    if (made.empty()) continue;
    const CallSite use = user_line(where);
    diagnose(
        diagnostics().escaped_value, fmt::format("escaped {} {}:{}", made, use.file, use.line),
        [&] {
          return fmt::format(
              "a tensor of a derivative that has ended ({}) is used in another one at {}:{}: it "
              "is a constant there. Return it, pass it as an argument, or store "
              "stop_gradient() of it",
              made, use.file, use.line);
        });
  }
}

}  // namespace etude::internal
