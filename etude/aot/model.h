// SPDX-License-Identifier: Apache-2.0
// The data of a model in an object file that was compiled ahead of time. The compiler of models
// writes it (compile_model.cc), and the function of a model reads it (support.cc). Both belong to
// the same build, so they agree on the layout.
#pragma once

#include <cstdint>

#include "etude/core/op/rules.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::aot {

// The status that the function of a model returns; in C it is called etude_status (header_text.cc).
enum class Status : int {
  kOk = 0,
  kNullPointer = 1,  // of an array with elements, or of scratch memory
  kProcessor = 2,    // this machine lacks the instruction set of the model
  kRefused = 3,      // a kernel reported invalid data, such as an index out of range
  kOutOfMemory = 4,  // a kernel found no work memory
  kInternal = 5,     // a bug in Etude
};

enum class Home : uint32_t { kNone, kInput, kConstant, kScratch, kOutput };

// The address of the bytes of a value.
struct ModelPlace {
  Home home = Home::kNone;
  uint32_t index = 0;  // of the input, constant or output
  int64_t offset = 0;  // bytes from there
};

struct ModelStep {
  KernelFn run = nullptr;
  const void* params = nullptr;
  uint32_t first_place = 0;  // results, then operands
  uint32_t results = 0;
  uint32_t operands = 0;
  uint32_t name = 0;  // of names: the prefix of messages
};

// An output that no step writes: it is copied after the last step.
struct ModelCopy {
  uint32_t output = 0;
  uint32_t place = 0;
  uint64_t bytes = 0;
};

struct Model {
  const ModelStep* steps = nullptr;
  const ModelPlace* places = nullptr;
  const ModelCopy* copies = nullptr;
  const void* const* constants = nullptr;
  const char* const* names = nullptr;
  const uint64_t* input_bytes = nullptr;
  const uint64_t* output_bytes = nullptr;
  uint64_t step_count = 0;
  uint64_t copy_count = 0;
  uint64_t most_places = 0;    // of one step
  uint64_t scratch_bytes = 0;  // the arena, without alignment and pointers
  uint64_t inputs = 0, outputs = 0;
  internal::Isa isa = internal::Isa::kPortable;
  bool flushes_denormals = true;
};

inline constexpr uint64_t kScratchAlignment = 64;
// The number of scratch bytes that a caller must provide: a multiple of 64. They may be at any
// address.
constexpr uint64_t whole_scratch_bytes(const Model& model) {
  const uint64_t pointers = (model.most_places * sizeof(void*) + 63) / 64 * 64;
  return model.scratch_bytes + pointers + kScratchAlignment;
}

// Names in support.cc that the compiler of models binds or exports.
inline constexpr char kRunName[] = "etude_aot_run";             // of the model below
inline constexpr char kRunModelName[] = "etude_aot_run_model";  // of the model passed to it
inline constexpr char kErrorName[] = "etude_aot_error";
inline constexpr char kRefuseSizeName[] = "etude_aot_refuse_size";
inline constexpr char kLeftOutName[] = "etude_aot_left_out";  // replaces parts that are not taken
inline constexpr char kModelName[] = "etude_aot_model";

}  // namespace etude::aot
