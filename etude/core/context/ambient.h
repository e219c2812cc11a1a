// SPDX-License-Identifier: Apache-2.0
// Thread-local state on which calls depend besides their operands: phase, random generator, default
// dtype, promotion, devices. Scopes change the state and restore it, also on an exception; the
// first scope of a thread may throw std::bad_alloc. Layers, random functions and operand checks read
// the state; op rules and kernels do not.
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

// The promotion of operands of different kinds in one call: bools, integers, and floats with
// complex numbers.
enum class Promotion : uint8_t {
  kKinds,   // the dtype of the highest kind wins: int64 with float16 is float16. A real host number
            // with integers or bools makes the default dtype
  kStrict,  // an error with the cast to write; dtypes of one kind still promote
};

// A sequence of random keys, as a value: a copy produces the same keys as the original.
// Philox-4x32-10; streams of one seed are independent.
struct Generator {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t position = 0;  // number of keys drawn so far

  Generator() = default;
  explicit Generator(uint64_t seed_, uint64_t stream_ = 0) : seed(seed_), stream(stream_) {}
  // Returns the key of one draw, uint64[2], and advances by one.
  Tensor next_key();
  friend bool operator==(const Generator&, const Generator&) = default;
};

namespace internal {

struct Placement;

// A source of keys that replaces the generator. Used during a trace, since each run of the graph
// needs new keys; during a rerun that needs the keys of the first run; and inside a vmap.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Returns an absent key to refuse the draw, as inside a vmap with the option randomness =
  // "error".
  virtual Tensor next_key() = 0;
};

}  // namespace internal

struct Ambient {
  Phase phase = Phase::kInference;
  bool is_phase_set = false;  // whether a PhaseScope is open
  Generator generator;        // seed 0; the stream counts threads, so that threads differ
  DType default_dtype = kFloat32;
  Promotion promotion = Promotion::kKinds;
  internal::KeySource* keys = nullptr;         // replaces the generator; borrowed
  const internal::Placement* place = nullptr;  // of the innermost DeviceScope; borrowed
};

// The state of this thread. throws: std::bad_alloc at the thread's first use.
Ambient& ambient();

inline bool is_training() { return ambient().phase == Phase::kTraining; }
// Restarts the random sequence of this thread. The draws repeat if their order does, with any
// compiler. C++ orders statements and lists in braces, but not the arguments of one call, as in
// f(random::normal({2}), random::normal({2})).
void set_seed(uint64_t seed);

namespace internal {
// The key of the next draw on this thread. throws: kFailedPrecondition if draws are refused.
Tensor next_key();
// The same for a loop or a branch, which needs a key before its body is known to draw or not.
// Returns an absent tensor if draws are refused.
Tensor next_key_or_none();
// throws: kFailedPrecondition, the error of a refused draw.
[[noreturn, gnu::cold]] void throw_refused_draw();

// While alive, keys come from `source`, or from the generator if `source` is null.
// threads: confined to its thread.
class KeyScope {
 public:
  explicit KeyScope(KeySource* source) : outer_(std::exchange(ambient().keys, source)) {}
  KeyScope(const KeyScope&) = delete;
  KeyScope& operator=(const KeyScope&) = delete;
  ~KeyScope() { ambient().keys = outer_; }
  // The next key of the enclosing source.
  Tensor outer_key() const;

 private:
  KeySource* outer_;
};
}  // namespace internal

// While alive, layers run in this phase. Without a scope layers run as in inference, and a gradient
// prints a warning (nn/internal/phase.h).
// threads: confined to the thread that made it.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase) : saved_(ambient().phase), was_set_(ambient().is_phase_set) {
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

// While alive, draws use the given generator. Afterwards the outer sequence continues as if nothing
// had been drawn.
// threads: confined to the thread that made it.
class SeedScope {
 public:
  explicit SeedScope(uint64_t seed) : SeedScope(Generator(seed)) {}
  explicit SeedScope(const Generator& generator) : saved_(ambient().generator), keys_(nullptr) {
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

// Records the keys drawn while alive, from any source.
// threads: confined to its thread.
class KeyRecord final : public KeySource {
 public:
  Tensor next_key() override;

  std::vector<Tensor> keys;

 private:
  KeyScope scope_{this};
};

// While alive, draws get these keys in turn, to rerun a function with the same draws.
// threads: confined to its thread.
class KeyReplay final : public KeySource {
 public:
  explicit KeyReplay(const std::vector<Tensor>& keys) : keys_(keys) {}
  // throws: kFailedPrecondition if no key is left.
  Tensor next_key() override;

 private:
  const std::vector<Tensor>& keys_;
  std::size_t next_ = 0;
  KeyScope scope_{this};
};

}  // namespace internal

}  // namespace etude
