// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/test_programs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "etude/base/check.h"
#include "etude/core/op/registry.h"

namespace etude::codegen {
namespace {

using scalar::Fn;
using scalar::Program;
using scalar::Symbol;

bool is_logical(Fn fn) { return fn >= Fn::kLogicalAnd && fn <= Fn::kLogicalNot; }

// The compiled kernel of the op that is this one function.
ProgramKernel kernel_of(Fn fn, internal::Isa isa) {
  const std::string name(scalar::info(fn).op);
  const Op* op = Registry::global().find(name);
  if (op == nullptr) op = Registry::global().find("internal." + name);
  ETUDE_CHECK(op != nullptr, "no op is called {}", name);
  const ScalarDef& def = op->def().scalar;
  ETUDE_CHECK(def.program != nullptr && def.program->nodes[def.program->size - 1].fn == fn &&
                  def.program->size == scalar::info(fn).arity + 1,
              "op {} is not one call of its function", name);
  auto at = static_cast<std::size_t>(isa);
  while (def.by_isa[at] == nullptr) --at;  // left out of sanitized builds
  return def.by_isa[at];
}

Bytes filled(double number, std::size_t count) {
  const std::vector<float> values(count, static_cast<float>(number));
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + count * sizeof(float)};
}

// Grows one random program.
class ProgramGrower {
 public:
  explicit ProgramGrower(std::mt19937& random)
      : random_(random), builder_(nodes_.data(), nodes_.size()) {
    for (int i = 0; i < 3; ++i) values_.push_back(scalar::operand(builder_, i));
    bools_.push_back(scalar::operand(builder_, 3));
    for (int i = 0; i < 2; ++i) values_.push_back(scalar::param(builder_, i));
  }

  void add_call(const std::vector<Fn>& functions) {
    constexpr std::array kPlain = {Fn::kAdd, Fn::kSubtract, Fn::kMultiply, Fn::kDivide, Fn::kWhere};
    const Fn fn = random_() % 2 == 0 ? kPlain[random_() % kPlain.size()]
                                     : functions[random_() % functions.size()];
    if (is_logical(fn)) {
      bools_.push_back(fn == Fn::kLogicalNot ? note(fn, boolean())
                                             : note(fn, boolean(), boolean()));
    } else if (fn == Fn::kWhere) {
      values_.push_back(where(boolean(), value(), value()));
    } else if (scalar::info(fn).is_bool) {
      const Symbol x = fn == Fn::kSignbit ? operand() : value();
      bools_.push_back(scalar::info(fn).arity == 1 ? note(fn, x) : note(fn, x, value()));
    } else {
      values_.push_back(call(fn));
    }
  }

  Program finish() {
    const Symbol result = random_() % 4 == 0 ? bools_.back() : values_.back();
    return scalar::finish(builder_, result.node_in(builder_), 4, 2, true);
  }
  std::size_t size() const { return builder_.size(); }

 private:
  Symbol call(Fn fn) {
    const Symbol x = value();
    const Symbol number = std::ldexp(static_cast<double>(random_() % 1000) - 500, -7);
    if (fn == Fn::kCopysign) return note(fn, x, operand());
    if (scalar::info(fn).arity == 1) return note(fn, x);
    const Symbol y = random_() % 4 == 0 ? number : value();
    if (fn == Fn::kAdd) return x + y;
    if (fn == Fn::kSubtract) return y - x;
    if (fn == Fn::kMultiply) return x * y;
    if (fn == Fn::kDivide) return x / y;
    return note(fn, x, y);
  }
  // Young ones rather than old ones, so that programs get deep. None is a constant.
  Symbol value() {
    const std::size_t back = std::min(random_() % values_.size(), random_() % values_.size());
    return values_[values_.size() - 1 - back];
  }
  Symbol operand() { return values_[random_() % 3]; }
  Symbol boolean() { return bools_[random_() % bools_.size()]; }

  std::mt19937& random_;
  std::array<scalar::Node, scalar::kMaxRawNodes> nodes_;
  scalar::Builder builder_;
  std::vector<Symbol> values_, bools_;
};

}  // namespace

std::vector<internal::Isa> isas() {
  std::vector<internal::Isa> all;
  for (int k = 0; k <= static_cast<int>(internal::best_isa()); ++k) {
    all.push_back(static_cast<internal::Isa>(k));
  }
  return all;
}

std::string isa_of(const testing::TestParamInfo<internal::Isa>& info) {
  return std::string(internal::name(info.param));
}

std::vector<Fn> float_functions() {
  std::vector<Fn> all;
  for (std::size_t k = static_cast<std::size_t>(Fn::kWhere); k < std::size(scalar::kFnInfo); ++k) {
    const scalar::FnInfo& info = scalar::kFnInfo[k];
    if (info.on_tensors && !info.op.starts_with("bitwise_")) all.push_back(static_cast<Fn>(k));
  }
  return all;
}

Program program_of(Fn fn) {
  std::array<scalar::Node, scalar::kMaxRawNodes> nodes;
  scalar::Builder builder(nodes.data(), nodes.size());
  const int arity = scalar::info(fn).arity;
  scalar::Node call{fn, {}, 0};
  for (int i = 0; i < arity; ++i) {
    call.args[static_cast<std::size_t>(i)] = scalar::operand(builder, i).node_in(builder);
  }
  return scalar::finish(builder, builder.add(call), arity, 0, true);
}

Program chain_of(Fn fn, int times) {
  std::array<scalar::Node, scalar::kMaxRawNodes> nodes;
  scalar::Builder builder(nodes.data(), nodes.size());
  const Symbol x = scalar::operand(builder, 0);
  Symbol y = x;
  for (int k = 0; k < times; ++k) y = note(fn, y * 0.9) + x;
  return scalar::finish(builder, y.node_in(builder), 1, 0, true);
}

Program random_program(std::mt19937& random, int calls) {
  ProgramGrower grower(random);
  const std::vector<Fn> functions = float_functions();
  constexpr std::size_t kRoom = 3;  // a call is a node and perhaps a constant; the result is one
  for (int k = 0; k < calls && grower.size() + kRoom <= scalar::kMaxNodes; ++k) {
    grower.add_call(functions);
  }
  return grower.finish();
}

std::vector<float> special_values() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> all = {0.0f, inf, std::numeric_limits<float>::quiet_NaN()};
  for (float x : {1e-45f,     1e-40f,       1.17549435e-38f,
                  1e-30f,     0x1p-26f,     0x1p-12f,
                  0.01f,      0.1f,         0.25f,
                  0.5f,       0.625f,       0.921875f,
                  1.0f,       1.5f,         2.0f,
                  2.5f,       3.0f,         3.95f,
                  4.5f,       7.0f,         8.5f,
                  10.0f,      38.5f,        45.0f,
                  87.5f,      88.7228f,     103.97f,
                  128.0f,     150.0f,       131072.0f,
                  8388608.0f, 16777216.0f,  1e10f,
                  1e30f,      3.4028235e38f}) {
    for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, inf)}) all.push_back(y);
  }
  const std::size_t half = all.size();
  for (std::size_t i = 0; i < half; ++i) {
    if (!std::isnan(all[i])) all.push_back(-all[i]);
  }
  return all;
}

std::vector<float> random_values(std::mt19937& random, std::size_t count) {
  static const std::vector<float> special = special_values();
  std::vector<float> values(count);
  for (float& v : values) {
    const auto pick = random();
    v = pick % 16 == 0  ? special[random() % special.size()]
        : pick % 2 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                        : static_cast<float>(static_cast<int32_t>(random())) * 0x1p-28f;
    if (std::isnan(v)) v = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

std::vector<Bytes> random_operands(const Program& program, std::mt19937& random,
                                   std::size_t count) {
  std::vector<Bytes> out;
  for (int i = 0; i < program.operands; ++i) {
    const bool is_bool = ((program.bools >> i) & 1) != 0;
    if (is_bool) {
      out.emplace_back(count);
      for (std::byte& b : out.back()) b = std::byte(random() & 1);
      continue;
    }
    const std::vector<float> values = random_values(random, count);
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    out.emplace_back(bytes, bytes + count * sizeof(float));
  }
  return out;
}

std::vector<const void*> pointers(const std::vector<Bytes>& operands) {
  std::vector<const void*> out;
  for (const Bytes& operand : operands) out.push_back(operand.data());
  return out;
}

std::size_t element_bytes(bool is_bool) { return is_bool ? 1 : sizeof(float); }

Bytes run_precompiled(const Program& program, internal::Isa isa, const std::vector<Bytes>& operands,
                      const std::vector<double>& params, std::size_t count) {
  std::vector<Bytes> values;
  for (int k = 0; k < program.size; ++k) {
    const scalar::Node& node = program.nodes[static_cast<std::size_t>(k)];
    if (node.fn == Fn::kOperand) {
      values.push_back(operands[node.args[0]]);
    } else if (node.fn == Fn::kParam) {
      values.push_back(filled(params[node.args[0]], count));
    } else if (node.fn == Fn::kConstant) {
      values.push_back(filled(node.constant, count));
    } else {
      std::vector<const void*> in;
      for (int a = 0; a < scalar::info(node.fn).arity; ++a) {
        in.push_back(values[node.args[static_cast<std::size_t>(a)]].data());
      }
      Bytes out(count * element_bytes(program.is_bool_node(k)));
      kernel_of(node.fn, isa)(out.data(), in.data(), nullptr, count);
      values.push_back(std::move(out));
    }
  }
  return values.back();
}

Bytes run_compiled(const Program& program, const CompileOptions& options,
                   const std::vector<Bytes>& operands, const std::vector<double>& params,
                   std::size_t count) {
  Bytes out(count * element_bytes(program.is_bool));
  const CompiledProgram code = compile(program, options);
  const std::vector<const void*> in = pointers(operands);
  if (options.layout == Layout::kDense) {
    code.dense()(out.data(), in.data(), params.data(), count);
  } else {
    const std::vector<std::size_t> strides(operands.size(), 1);
    code.strided()(out.data(), in.data(), strides.data(), params.data(), count);
  }
  return out;
}

std::ptrdiff_t first_difference(const Bytes& a, const Bytes& b, bool is_bool) {
  const std::size_t bytes = element_bytes(is_bool);
  for (std::size_t i = 0; i * bytes < a.size(); ++i) {
    if (std::memcmp(a.data() + i * bytes, b.data() + i * bytes, bytes) == 0) continue;
    if (is_bool) return static_cast<std::ptrdiff_t>(i);
    float x, y;
    std::memcpy(&x, a.data() + i * bytes, bytes);
    std::memcpy(&y, b.data() + i * bytes, bytes);
    if (!std::isnan(x) || !std::isnan(y)) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace etude::codegen
