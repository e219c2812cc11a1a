// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/elementwise/fused_program.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "etude/base/internal/fork_lock.h"
#include "etude/core/op/registry.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu {
namespace {

using scalar::Fn;

constexpr std::size_t kScratch = 32768;  // bytes for the values of all nodes: they stay in L1

// The kernel of the record of a function, if that computes the function and nothing else.
ProgramKernel kernel_of(Fn fn) {
  const scalar::FnInfo& info = scalar::info(fn);
  if (!info.on_tensors) return nullptr;
  const ScalarDef& def = Registry::global().at(info.op).def().scalar;
  if (def.program == nullptr || def.program->size != info.arity + 1) return nullptr;
  const scalar::Node& call = def.program->nodes[static_cast<std::size_t>(info.arity)];
  if (call.fn != fn || def.program->operands != info.arity) return nullptr;
  for (int a = 0; a < info.arity; ++a) {
    const scalar::Node& arg = def.program->nodes[call.args[static_cast<std::size_t>(a)]];
    if (arg.fn != Fn::kOperand || arg.args[0] != a) return nullptr;
  }
  return kernel_for_this_machine(def);
}

bool has_kernels(const scalar::Program& program) {
  const scalar::Node& last = program.nodes[static_cast<std::size_t>(program.size - 1)];
  if (scalar::info(last.fn).arity == 0) return false;
  for (int i = 0; i < program.size; ++i) {
    const Fn fn = program.nodes[static_cast<std::size_t>(i)].fn;
    if (scalar::info(fn).arity > 0 && kernel_of(fn) == nullptr) return false;
  }
  return true;
}

}  // namespace

ProgramKernel kernel_for_this_machine(const ScalarDef& def) {
  auto isa = static_cast<std::size_t>(internal::best_isa());
  while (isa > 0 && def.by_isa[isa] == nullptr) --isa;
  return def.by_isa[isa];
}

const FusedProgram* FusedProgram::of(const ScalarDef& def) {
  static auto& mutex = *new internal::ForkSafeMutex;
  static auto* const all = new std::unordered_map<std::string, const FusedProgram*>;
  const std::lock_guard lock(mutex);
  // Keyed by the text, not the address: programs of tests may end, and others reuse their
  // addresses.
  const auto [at, is_new] = all->try_emplace(scalar::to_string(*def.program), nullptr);
  if (is_new && has_kernels(*def.program)) at->second = new FusedProgram(*def.program);
  return at->second;
}

const FusedProgram* FusedProgram::for_code(const ScalarDef& def) {
  if (const FusedProgram* const known = of(def)) return known;
  static auto& mutex = *new internal::ForkSafeMutex;
  static auto* const all = new std::unordered_map<std::string, const FusedProgram*>;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = all->try_emplace(scalar::to_string(*def.program), nullptr);
  if (is_new) at->second = new FusedProgram(*def.program);
  return at->second;
}

FusedProgram::FusedProgram(const scalar::Program& program)
    : TieredCode(&program_), program_(program) {
  place_nodes();
  constexpr std::size_t kMost = 1024;
  const std::size_t fit = kScratch / (std::max<std::size_t>(slots_, 1) * sizeof(float));
  tile_ = std::min(kMost, fit - fit % 16);
}

// A slot is free again after the last reader of its value. Numbers keep theirs: they are written
// once for all tiles.
void FusedProgram::place_nodes() {
  const auto size = static_cast<std::size_t>(program_.size);
  std::vector<std::size_t> last(size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    const scalar::Node& node = program_.nodes[i];
    for (int a = 0; a < scalar::info(node.fn).arity; ++a)
      last[node.args[static_cast<std::size_t>(a)]] = i;
  }
  std::vector<uint8_t> place(size), free;
  const auto take = [&] {
    if (free.empty()) return static_cast<uint8_t>(slots_++);
    const uint8_t slot = free.back();
    free.pop_back();
    return slot;
  };
  for (std::size_t i = 0; i < size; ++i) {
    const scalar::Node& node = program_.nodes[i];
    if (node.fn == Fn::kOperand) {
      place[i] = static_cast<uint8_t>(kFirstOperand + node.args[0]);
    } else if (node.fn == Fn::kParam || node.fn == Fn::kConstant) {
      place[i] = static_cast<uint8_t>(slots_++);
      const bool is_param = node.fn == Fn::kParam;
      numbers_.push_back({place[i], is_param ? static_cast<int16_t>(node.args[0]) : int16_t{-1},
                          static_cast<float>(node.constant)});
    } else {
      Step step{kernel_of(node.fn), static_cast<uint8_t>(scalar::info(node.fn).arity)};
      for (std::size_t a = 0; a < step.operands; ++a) step.in[a] = place[node.args[a]];
      // The result goes to a slot that none of the operands has: kernels of where would read one
      // array as bytes and write it as floats.
      place[i] = i + 1 == size ? kResult : take();
      step.out = place[i];
      for (std::size_t a = 0; a < step.operands; ++a) {
        const std::size_t arg = node.args[a];
        const bool is_call = scalar::info(program_.nodes[arg].fn).arity > 0;
        if (is_call && last[arg] == i) {
          free.push_back(place[arg]);
          last[arg] = size;  // once, if it is two operands
        }
      }
      steps_.push_back(step);
    }
  }
}

void FusedProgram::run_tiles(void* out, const void* const* in, const double* params,
                             std::size_t n) const {
  alignas(64) std::byte scratch[kScratch];
  const auto slot = [&](uint8_t number) { return scratch + number * tile_ * sizeof(float); };
  for (const Number& number : numbers_) {
    const float value = number.param < 0 ? number.value : static_cast<float>(params[number.param]);
    std::fill_n(reinterpret_cast<float*>(slot(number.slot)), std::min(n, tile_), value);
  }
  for (std::size_t begin = 0; begin < n; begin += tile_) {
    const std::size_t count = std::min(tile_, n - begin);
    const auto operand = [&](uint8_t place) -> const void* {
      if (place < kFirstOperand) return slot(place);
      const std::size_t i = place - kFirstOperand;
      const std::size_t bytes = ((program_.bools >> i) & 1) != 0 ? 1 : sizeof(float);
      return static_cast<const char*>(in[i]) + begin * bytes;
    };
    char* const result = static_cast<char*>(out) + begin * (program_.is_bool ? 1 : sizeof(float));
    for (const Step& step : steps_) {
      const void* args[3] = {};
      for (std::size_t a = 0; a < step.operands; ++a) args[a] = operand(step.in[a]);
      step.run(step.out == kResult ? static_cast<void*>(result) : slot(step.out), args, nullptr,
               count);
    }
  }
}

}  // namespace etude::kernels::cpu
