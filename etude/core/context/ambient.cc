// SPDX-License-Identifier: Apache-2.0
#include "etude/core/context/ambient.h"

#include <array>
#include <atomic>

#include "etude/base/check.h"
#include "etude/base/philox.h"
#include "etude/base/thread_object.h"

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

namespace {

// Not among the thread's objects, since many calls read it.
thread_local constinit Ambient* of_thread = nullptr;
struct AmbientOfThread {
  Ambient value = new_ambient();
  ~AmbientOfThread() { of_thread = nullptr; }
};
[[gnu::noinline, gnu::cold]] Ambient& make_ambient() {
  of_thread = &internal::ThreadObject<AmbientOfThread>::get().value;
  return *of_thread;
}

}  // namespace

Ambient& ambient() { return of_thread != nullptr ? *of_thread : make_ambient(); }

void set_seed(uint64_t seed) { ambient().generator = Generator(seed); }

namespace internal {

namespace {

// The next key of a source; null: of the generator.
Tensor key_from(KeySource* source) {
  return source != nullptr ? source->next_key() : ambient().generator.next_key();
}

}  // namespace

Tensor next_key() {
  Tensor key = next_key_or_none();
  if (!key.has_value()) throw_refused_draw();
  return key;
}

void throw_refused_draw() {
  ETUDE_THROW(
      kFailedPrecondition,
      "random numbers are drawn inside a vmap that does not say whether its examples share "
      "them. Say vmap(f, {{.randomness = \"different\"}}) for draws that differ by example, "
      "or \"same\" for draws that all examples share; or give the draw a key");
}

Tensor next_key_or_none() { return key_from(ambient().keys); }

Tensor KeyScope::outer_key() const { return key_from(outer_); }

Tensor KeyRecord::next_key() {
  keys.push_back(scope_.outer_key());
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
