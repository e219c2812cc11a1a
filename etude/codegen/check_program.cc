// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/check_program.h"

#include <bit>
#include <cstring>

#include "etude/base/check.h"
#include "etude/base/scalars/check_program.h"
#include "etude/kernels/cpu/elementwise/elementwise.h"

namespace etude::codegen {
namespace {

using scalar::Fn;
using scalar::Node;
using scalar::Program;

// Functions of bits are for integers, and some of <cmath> have no op.
bool has_float_kernel(const scalar::FnInfo& info) {
  return info.on_tensors && !info.op.starts_with("bitwise_");
}

}  // namespace

void check_program(const Program& program) {
  scalar::check_program(program, static_cast<int>(kernels::cpu::kMaxOperands));
  for (int i = 0; i < program.size; ++i) {
    const scalar::FnInfo& info = scalar::info(program.nodes[static_cast<std::size_t>(i)].fn);
    ETUDE_REQUIRE_CODE(kUnimplemented, has_float_kernel(info),
                       "node {} of the program calls '{}', which has no kernel for float32", i,
                       info.op);
  }
}

void check_options(const CompileOptions& options) {
  ETUDE_REQUIRE(options.isa >= internal::Isa::kPortable && options.isa <= internal::best_isa(),
                "code for {} was requested, but this machine, or ETUDE_ISA, allows {} at most",
                options.isa > internal::Isa::kAvx512 ? "an unknown instruction set"
                                                     : internal::name(options.isa),
                internal::name(internal::best_isa()));
  ETUDE_REQUIRE(options.tier == Tier::kFast || options.tier == Tier::kBest,
                "tier {} was requested, but there are 1 and 2", static_cast<int>(options.tier));
  ETUDE_REQUIRE(options.layout == Layout::kDense || options.layout == Layout::kStrided,
                "layout {} was requested, but there are 0, dense, and 1, strided",
                static_cast<int>(options.layout));
}

std::string key_of(const Program& program, const CompileOptions& options) {
  std::string key;
  const auto add = [&key](const auto& value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    key.append(bytes, sizeof value);
  };
  add(options.tier);
  add(options.layout);
  add(options.isa);
  add(program.size);
  add(program.bools & ((1u << program.operands) - 1));
  for (int i = 0; i < program.size; ++i) {
    const Node& node = program.nodes[static_cast<std::size_t>(i)];
    add(node.fn);
    const int arity = scalar::info(node.fn).arity;
    const bool is_numbered = node.fn == Fn::kOperand || node.fn == Fn::kParam;
    for (int a = 0; a < (is_numbered ? 1 : arity); ++a) add(node.args[static_cast<std::size_t>(a)]);
    if (node.fn == Fn::kConstant) add(std::bit_cast<uint64_t>(node.constant));
  }
  return key;
}

}  // namespace etude::codegen
