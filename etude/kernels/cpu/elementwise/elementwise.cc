// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/elementwise/elementwise.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/elementwise/fused_program.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kTile = 1024;      // elements expanded at a time; 4 KiB of float32 stays in L1
constexpr int64_t kChunk = 1 << 15;  // elements per parallel chunk

struct ElementwiseParams : KernelParams {
  const scalar::Program* program = nullptr;
  ProgramKernel kernel = nullptr;       // for float32
  const FusedProgram* fused = nullptr;  // for float32 if there is no kernel; null: the interpreter
  bool runs_tiles = false;              // of `fused`, whatever code it has
  DType dtype = kFloat32;               // of the arithmetic
  bool round_nodes = false;
  bool may_fault = false;  // for some values: it could stop half way
  std::vector<double> params;
  int64_t count = 0;
  int64_t out_bytes = 4;  // of one element
  std::vector<int64_t> in_bytes;
  std::vector<BroadcastPlan> plans;  // by operand
  bool broadcasts = false;
  int64_t tile = kTile;
};

bool run_dense(const ElementwiseParams& p, void* out, const void* const* in, int64_t n) {
  if (p.kernel != nullptr) {
    p.kernel(out, in, p.params.data(), static_cast<std::size_t>(n));
    return true;
  }
  if (p.fused != nullptr) {
    const auto size = static_cast<std::size_t>(n);
    if (p.runs_tiles) {
      p.fused->run_tiles(out, in, p.params.data(), size);
    } else {
      p.fused->run(out, in, p.params.data(), size);
    }
    return true;
  }
  return run_program(*p.program, p.dtype, p.round_nodes, out, in, p.params.data(), n);
}

const char* offset(const void* p, int64_t bytes) { return static_cast<const char*>(p) + bytes; }

// Elements [begin, end) with operands that are broadcast expanded tile by tile.
bool run_tiles(const ElementwiseParams& p, char* out, const void* const* in, int64_t begin,
               int64_t end) {
  const std::size_t operands = p.plans.size();
  std::array<const void*, kMaxOperands> at{};
  alignas(64) std::byte storage[kMaxOperands][kTile * 16];
  std::array<bool, kMaxOperands> filled{};
  std::size_t used = 0;
  std::array<std::byte*, kMaxOperands> buffer{};
  for (std::size_t i = 0; i < operands; ++i) {
    if (!p.plans[i].is_dense) buffer[i] = storage[used++];
  }
  for (int64_t tile = begin; tile < end; tile += p.tile) {
    const int64_t n = std::min(p.tile, end - tile);
    for (std::size_t i = 0; i < operands; ++i) {
      const BroadcastPlan& plan = p.plans[i];
      if (plan.is_dense) {
        at[i] = offset(in[i], tile * p.in_bytes[i]);
        continue;
      }
      // An operand whose period divides the tile is expanded once.
      const bool keeps = plan.period > 0 && p.tile % plan.period == 0 && begin % plan.period == 0;
      if (!filled[i] || !keeps) expand(plan, buffer[i], in[i], p.in_bytes[i], tile, n);
      filled[i] = filled[i] || n == p.tile;
      at[i] = buffer[i];
    }
    if (!run_dense(p, out + tile * p.out_bytes, at.data(), n)) return false;
  }
  return true;
}

bool run_small(const KernelCall& call) {
  const auto& p = *static_cast<const ElementwiseParams*>(call.params);
  p.kernel(call.out[0], call.in, p.params.data(), static_cast<std::size_t>(p.count));
  return true;
}

bool run_small_fused(const KernelCall& call) {
  const auto& p = *static_cast<const ElementwiseParams*>(call.params);
  p.fused->run(call.out[0], call.in, p.params.data(), static_cast<std::size_t>(p.count));
  return true;
}

bool run_elementwise(const KernelCall& call) {
  const auto& p = *static_cast<const ElementwiseParams*>(call.params);
  char* out = static_cast<char*>(call.out[0]);
  const int64_t step = kChunk - kChunk % p.tile;
  const int64_t chunks = (p.count + step - 1) / step;
  std::atomic<bool> fine{true};
  const auto run = [&](int64_t chunk) {
    const int64_t begin = chunk * step, end = std::min(p.count, begin + step);
    if (p.broadcasts) {
      if (!run_tiles(p, out, call.in, begin, end)) fine = false;
      return;
    }
    std::array<const void*, kMaxOperands> at{};
    for (std::size_t i = 0; i < p.plans.size(); ++i)
      at[i] = offset(call.in[i], begin * p.in_bytes[i]);
    if (!run_dense(p, out + begin * p.out_bytes, at.data(), end - begin)) fine = false;
  };
  // The interpreter may report a fault, which belongs to the calling thread: it runs there.
  const double us = p.may_fault ? 0 : static_cast<double>(p.count) * 1e-3 * p.program->size * 0.5;
  parallel_for(chunks, us, run);
  return fine;
}

// Whether some integers make the program fail: division by zero, a negative power, a function that
// integers lack.
bool has_faults(const scalar::Program& program, DType dtype) {
  using scalar::Fn;
  constexpr Fn kSafe[] = {Fn::kOperand,    Fn::kParam,     Fn::kConstant,   Fn::kAdd,
                          Fn::kSubtract,   Fn::kMultiply,  Fn::kNegative,   Fn::kAbs,
                          Fn::kSign,       Fn::kMaximum,   Fn::kMinimum,    Fn::kWhere,
                          Fn::kBitwiseAnd, Fn::kBitwiseOr, Fn::kBitwiseXor, Fn::kBitwiseInvert};
  if (!is_integer(dtype)) return false;
  return std::any_of(
      program.nodes.begin(), program.nodes.begin() + program.size, [&](const scalar::Node& node) {
        const bool safe = std::find(std::begin(kSafe), std::end(kSafe), node.fn) != std::end(kSafe);
        return !safe && !scalar::info(node.fn).is_bool;
      });
}

int64_t tile_for(const std::vector<BroadcastPlan>& plans) {
  for (const BroadcastPlan& plan : plans) {
    if (plan.period > 1 && plan.period <= kTile / 2) return kTile - kTile % plan.period;
  }
  return kTile;
}

// Chooses the kernel of a program on float32: its own kernel, or machine code made since.
void choose_kernel(ElementwiseParams& p, const ScalarDef& def) {
  if (CodeScope::is_open()) {
    p.kernel = FusedProgram::for_code(def)->code(Tier::kBest);
    if (p.kernel != nullptr) return;
  }
  p.kernel = kernel_for_this_machine(def);
  if (p.kernel != nullptr) return;
  p.fused = FusedProgram::of(def);
  const std::optional<Tier> tier = internal::fixed_tier();
  if (p.fused == nullptr || !tier) return;
  p.runs_tiles = *tier == Tier::kNone;
  if (!p.runs_tiles) p.kernel = p.fused->code(*tier);
}

void prepare(const PrepareCall& call, const ScalarDef& def, std::vector<double> params,
             bool round_nodes) {
  ETUDE_CHECK(call.types.size() <= kMaxOperands, "{} operands, but kernels take {}",
              call.types.size(), kMaxOperands);
  auto p = internal::make_ref<ElementwiseParams>();
  const Type* result = call.out.results[0];
  p->program = def.program;
  p->params = std::move(params);
  p->round_nodes = round_nodes;
  p->count = result->count();
  p->out_bytes = itemsize(result->dtype());
  p->dtype = kBool;
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    const Type* type = call.types[i];
    const bool is_bool = (def.program->bools >> i) & 1;
    if (!is_bool) p->dtype = type->dtype();
    p->in_bytes.push_back(itemsize(type->dtype()));
    p->plans.push_back(plan_broadcast(type->shape(), result->shape()));
    p->broadcasts = p->broadcasts || !p->plans.back().is_dense;
  }
  p->may_fault = has_faults(*def.program, p->dtype);
  call.out.never_faults = !p->may_fault;
  for (std::size_t i = 0; i < call.types.size() && !p->may_fault; ++i) {
    // Writing over an operand is safe element by element.
    if (call.types[i] == result) call.out.in_place |= uint64_t{1} << i;
  }
  const bool vector = p->dtype == kFloat32 || (p->dtype == kBool && !def.program->is_bool);
  if (vector && p->dtype == kFloat32) choose_kernel(*p, def);
  p->tile = tile_for(p->plans);
  const bool small = !p->broadcasts && p->count <= kChunk;
  const bool runs_code = p->fused != nullptr && p->kernel == nullptr && !p->runs_tiles;
  call.set(!small                 ? run_elementwise
           : p->kernel != nullptr ? run_small
           : runs_code            ? run_small_fused
                                  : run_elementwise,
           p);
}

}  // namespace

bool describe_elementwise(const Prepared& call, SmallCall& out) {
  if (call.run != run_small && call.run != run_small_fused && call.run != run_elementwise) {
    return false;
  }
  const auto& p = *static_cast<const ElementwiseParams*>(call.state.params);
  const scalar::Program& program = *p.program;
  if (p.dtype != kFloat32 || (p.kernel == nullptr && p.fused == nullptr)) return false;
  const auto bytes = [](bool is_bool) { return is_bool ? 1 : int64_t{sizeof(float)}; };
  if (p.out_bytes != bytes(program.is_bool)) return false;
  for (std::size_t i = 0; i < p.in_bytes.size(); ++i) {
    if (p.in_bytes[i] != bytes(((program.bools >> i) & 1) != 0)) return false;
  }
  out.kind = SmallCall::Kind::kProgram;
  out.program = std::make_shared<scalar::Program>(program);
  out.params = p.params;
  std::array<uint16_t, SmallCall::kMostDescribed> numbers;
  std::iota(numbers.begin(), numbers.end(), uint16_t{0});
  for (const BroadcastPlan& plan : p.plans) {
    SmallCall::List& list = out.at.emplace_back();
    if (plan.is_dense) continue;
    list.resize(static_cast<std::size_t>(p.count));
    expand(plan, list.data(), numbers.data(), sizeof(uint16_t), 0, p.count);
  }
  return true;
}

void prepare_elementwise(const PrepareCall& call) {
  std::vector<double> params;
  for (const AttrValue& value : call.attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) params.push_back(*number);
  }
  prepare(call, call.op.def().scalar, std::move(params), false);
}

void prepare_fused(const PrepareCall& call, const ScalarDef& def) {
  prepare(call, def, call.attrs.reals("params"), true);
}

}  // namespace etude::kernels::cpu
