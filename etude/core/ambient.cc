// SPDX-License-Identifier: Apache-2.0
#include "etude/core/ambient.h"

#include <array>
#include <atomic>

#include "etude/base/check.h"
#include "etude/base/philox.h"

namespace etude {
namespace {

Ambient new_ambient() noexcept {
  static std::atomic<uint64_t> threads{0};
  Ambient ambient;
  ambient.generator.stream = threads.fetch_add(1, std::memory_order_relaxed);
  return ambient;
}

}  // namespace

Tensor Generator::next_key() {
  const PhiloxKey next = fold_in(PhiloxKey{seed, stream}, position++);
  const std::array<uint64_t, 2> key = {next.seed, next.stream};
  return Tensor(std::span<const uint64_t>(key), {2});
}

Ambient& ambient() noexcept {
  thread_local Ambient mine = new_ambient();
  return mine;
}

void set_seed(uint64_t seed) { ambient().generator = Generator(seed); }

namespace internal {

Tensor next_key() {
  Ambient& here = ambient();
  return here.keys != nullptr ? here.keys->next_key() : here.generator.next_key();
}

Tensor KeyRecord::next_key() {
  KeySource* const outer = scope_.outer();
  keys.push_back(outer != nullptr ? outer->next_key() : ambient().generator.next_key());
  return keys.back();
}

Tensor KeyReplay::next_key() {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, next_ < keys_.size(),
                     "a function that is run again for its gradient draws more random numbers than "
                     "it did before ({}). It must do the same in each run",
                     keys_.size());
  return keys_[next_++];
}

}  // namespace internal
}  // namespace etude
