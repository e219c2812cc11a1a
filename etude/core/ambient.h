// SPDX-License-Identifier: Apache-2.0
// What calls on this thread depend on besides their operands: phase, generator, default dtype,
// promotion. Scopes change it and put it back, also when an exception passes. Layers, random
// functions and the checks of operands read it; op rules and kernels do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class Phase : uint8_t {
  kInference,  // dropout is the identity, normalisation uses running statistics
  kTraining,
};

// How operands of several kinds meet in one call: bools, integers, and floats with complex numbers.
enum class Promotion : uint8_t {
  kKinds,   // in the dtype of the highest kind: int64 with float16 is float16. A real host number
            // beside integers or bools makes them the default dtype
  kStrict,  // an error that says how to cast; precisions of one kind promote all the same
};

// A sequence of random keys: a value, so a copy repeats what the original gives. Philox-4x32-10;
// streams of one seed are independent.
struct Generator {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t position = 0;  // keys given so far

  Generator() = default;
  explicit Generator(uint64_t seed_, uint64_t stream_ = 0) : seed(seed_), stream(stream_) {}
  // The key of one draw, uint64[2], and a step forward.
  Tensor next_key();
  friend bool operator==(const Generator&, const Generator&) = default;
};

namespace internal {

// Where keys come from instead of the generator: while a function is traced, whose runs each need
// new keys; while it runs again with the keys of its first run; and inside a vmap.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // An absent key refuses the draw: a vmap with the option randomness = "error" is around.
  virtual Tensor next_key() = 0;
};

}  // namespace internal

struct Ambient {
  Phase phase = Phase::kInference;
  bool is_phase_set = false;  // whether a PhaseScope is open
  Generator generator;        // seed 0; the stream counts threads, so that threads differ
  DType default_dtype = kFloat32;
  Promotion promotion = Promotion::kKinds;
  internal::KeySource* keys = nullptr;  // replaces the generator; borrowed
};

// Of this thread. throws: std::bad_alloc at the thread's first use.
Ambient& ambient();

inline bool is_training() { return ambient().phase == Phase::kTraining; }
// Starts the sequence of this thread anew: what follows repeats what followed the last such call,
// whatever compiler made the program, where C++ orders the draws: those in one expression,
// f(random::normal({2}), random::normal({2})), it does not; statements and lists in braces it does.
void set_seed(uint64_t seed);

namespace internal {
// The key of the next draw on this thread. throws: kFailedPrecondition where draws are refused.
Tensor next_key();
// The same for a loop or a branch, which needs a key before it is known whether its body draws.
// Absent where draws are refused.
Tensor next_key_or_none();
// throws: kFailedPrecondition, the error of a draw that is refused.
[[noreturn, gnu::cold]] void throw_refused_draw();

// While alive, keys come from `source`; from the generator if that is null. confined to its thread.
class KeyScope {
 public:
  explicit KeyScope(KeySource* source) noexcept : outer_(std::exchange(ambient().keys, source)) {}
  KeyScope(const KeyScope&) = delete;
  KeyScope& operator=(const KeyScope&) = delete;
  ~KeyScope() { ambient().keys = outer_; }
  // The next key of the source around this scope.
  Tensor outer_key() const;

 private:
  KeySource* outer_;
};
}  // namespace internal

// While alive, layers work as in this phase. Where none is open they work as in inference, and a
// gradient that is taken then is told of in a warning (nn/phase.h). confined to the thread that
// made it.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase) noexcept
      : saved_(ambient().phase), was_set_(ambient().is_phase_set) {
    ambient().phase = phase;
    ambient().is_phase_set = true;
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;
  ~PhaseScope() {
    ambient().phase = saved_;
    ambient().is_phase_set = was_set_;
  }

 private:
  Phase saved_;
  bool was_set_;
};

// Draws inside come from the given generator; the sequence outside goes on afterwards as if nothing
// had been drawn. confined to the thread that made it.
class SeedScope {
 public:
  explicit SeedScope(uint64_t seed) noexcept : SeedScope(Generator(seed)) {}
  explicit SeedScope(const Generator& generator) noexcept
      : saved_(ambient().generator), keys_(nullptr) {
    ambient().generator = generator;
  }
  SeedScope(const SeedScope&) = delete;
  SeedScope& operator=(const SeedScope&) = delete;
  ~SeedScope() { ambient().generator = saved_; }

 private:
  Generator saved_;
  internal::KeyScope keys_;
};

namespace internal {

// Notes the keys that are drawn while it lives, wherever they come from. confined to its thread.
class KeyRecord final : public KeySource {
 public:
  Tensor next_key() override;

  std::vector<Tensor> keys;

 private:
  KeyScope scope_{this};
};

// While alive, draws get these keys in turn: how a function runs again as it was. confined to its
// thread.
class KeyReplay final : public KeySource {
 public:
  explicit KeyReplay(const std::vector<Tensor>& keys) noexcept : keys_(keys) {}
  // throws: kFailedPrecondition if there are no more.
  Tensor next_key() override;

 private:
  const std::vector<Tensor>& keys_;
  std::size_t next_ = 0;
  KeyScope scope_{this};
};

}  // namespace internal

}  // namespace etude
