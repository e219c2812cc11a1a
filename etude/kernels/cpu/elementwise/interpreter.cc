// SPDX-License-Identifier: Apache-2.0
// The tile interpreter: runs a scalar program block by block for every dtype without its own SIMD
// kernels. One plain loop per (function, element type); float32 has compiled kernels instead, and
// half types take its vector functions.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <iterator>
#include <limits>
#include <string_view>
#include <type_traits>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/kernels/cpu/elementwise/elementwise.h"
#include "etude/kernels/cpu/elementwise/scalar_math.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

using scalar::Fn;
using scalar::Node;
using scalar::Program;

constexpr int64_t kTile = 256;

enum Purpose { kValues = 70, kBools };

template <class T, class F>
void loop(T* out, const T* a, const T* b, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

// Blocks that every number type has.
template <class T>
bool arithmetic_block(Fn fn, T* out, const T* a, const T* b, int64_t n) {
  switch (fn) {
    case Fn::kAdd:
      loop(out, a, b, n, [](T x, T y) { return math_add(x, y); });
      return true;
    case Fn::kSubtract:
      loop(out, a, b, n, [](T x, T y) { return math_subtract(x, y); });
      return true;
    case Fn::kMultiply:
      loop(out, a, b, n, [](T x, T y) { return math_multiply(x, y); });
      return true;
    case Fn::kStrongProduct:
      loop(out, a, b, n,
           [](T x, T y) { return x == T(0) || y == T(0) ? T(0) : math_multiply(x, y); });
      return true;
    case Fn::kNegative:
      loop(out, a, a, n, [](T x, T) { return math_negative(x); });
      return true;
    case Fn::kAbs:
      loop(out, a, a, n, [](T x, T) { return math_abs(x); });
      return true;
    case Fn::kSign:
      loop(out, a, a, n, [](T x, T) { return math_sign(x); });
      return true;
    case Fn::kPow:
      loop(out, a, b, n, [](T x, T y) { return math_pow(x, y); });
      return true;
    default:
      return false;
  }
}

template <class T>
bool value_block(Fn fn, T* out, const T* a, const T* b, int64_t n) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    if (fn == Fn::kPow && std::any_of(b, b + n, [](T e) { return e < 0; })) {
      return report_fault(
          ErrorCode::kInvalidArgument,
          "operand 'x2' has a negative exponent, and powers of integers would not be "
          "integers. Cast the base: astype(x1, float32)");
    }
  }
  if (arithmetic_block(fn, out, a, b, n)) return true;
  if constexpr (std::is_integral_v<T>) {
    return integer_block(fn, out, a, b, n);
  } else if constexpr (std::is_same_v<T, std::complex<float>> ||
                       std::is_same_v<T, std::complex<double>>) {
    return complex_block(fn, out, a, b, n);
  } else {
    return real_block(fn, out, a, b, n);
  }
}

template <class T>
void bool_block(Fn fn, uint8_t* out, const T* a, const T* b, int64_t n) {
  const auto run = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]) ? 1 : 0;
  };
  if (fn == Fn::kEqual) return run([](T x, T y) { return x == y; });
  if (fn == Fn::kNotEqual) return run([](T x, T y) { return !(x == y); });
  if constexpr (!std::is_same_v<T, std::complex<float>> &&
                !std::is_same_v<T, std::complex<double>>) {
    if (fn == Fn::kLess) return run([](T x, T y) { return x < y; });
    if (fn == Fn::kLessEqual) return run([](T x, T y) { return x <= y; });
    if (fn == Fn::kGreater) return run([](T x, T y) { return x > y; });
    if (fn == Fn::kGreaterEqual) return run([](T x, T y) { return x >= y; });
    if (fn == Fn::kSignbit) return run([](T x, T) { return math_signbit(x); });
  }
  if (fn == Fn::kIsnan) return run([](T x, T) { return math_isnan(x); });
  if (fn == Fn::kIsinf) return run([](T x, T) { return math_isinf(x); });
  if (fn == Fn::kIsfinite) return run([](T x, T) { return !math_isnan(x) && !math_isinf(x); });
}

void logical_block(Fn fn, uint8_t* out, const uint8_t* a, const uint8_t* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool x = a[i] != 0, y = b[i] != 0;
    const bool r = fn == Fn::kLogicalAnd   ? x && y
                   : fn == Fn::kLogicalOr  ? x || y
                   : fn == Fn::kLogicalXor ? x != y
                                           : !x;
    out[i] = r ? 1 : 0;
  }
}

// The vector function that float32 kernels have for each function; null: none.
using FloatFn = void (*)(float* out, const float* a, const float* b, std::size_t n);
FloatFn float_function(Fn fn) {
  static const auto functions = [] {
    std::array<FloatFn, std::size(scalar::kFnInfo)> made{};
    for (const etude::internal::MathFn& f :
         etude::internal::math_table(etude::internal::best_isa())) {
      const std::string_view name = std::string_view(f.name) == "neg" ? "negative" : f.name;
      for (std::size_t i = 0; i < made.size(); ++i) {
        if (scalar::kFnInfo[i].on_tensors && scalar::kFnInfo[i].op == name) made[i] = f.run;
      }
    }
    return made;
  }();
  return functions[static_cast<std::size_t>(fn)];
}

// Storage of a half type is Stored, arithmetic is in T = float; for all others both are the same.
template <class T, class Stored>
class Interpreter {
 public:
  Interpreter(const Program& program, const double* params, bool round_nodes, bool is_bool)
      : program_(program),
        is_bool_(is_bool),
        round_nodes_(round_nodes && !std::is_same_v<T, Stored>),
        values_(thread_scratch<T, kValues>(program.size * kTile)),
        bools_(thread_scratch<uint8_t, kBools>(program.size * kTile)) {
    for (int k = 0; k < program_.size; ++k) {
      const Node& node = program_.nodes[static_cast<std::size_t>(k)];
      const bool constant = node.fn == Fn::kConstant;
      if (!constant && node.fn != Fn::kParam) continue;
      const double number = constant ? node.constant : params[node.args[0]];
      std::fill_n(value(k), kTile, rounded(constant_of(number)));
    }
  }

  bool run(void* out, const void* const* in, int64_t n) {
    for (int64_t at = 0; at < n; at += kTile) {
      const int64_t count = std::min(kTile, n - at);
      for (int k = 0; k < program_.size; ++k) {
        if (!step(k, in, at, count)) return false;
      }
      store(out, at, count);
    }
    return true;
  }

 private:
  T* value(int k) { return values_ + k * kTile; }
  uint8_t* bools(int k) { return bools_ + k * kTile; }

  static T constant_of(double number) {
    T out{};
    internal::convert_elements(&out, dtype_of<T>, &number, kFloat64, 1);
    return out;
  }
  T rounded(T x) const {
    if constexpr (std::is_same_v<T, Stored>)
      return x;
    else
      return round_nodes_ ? static_cast<T>(Stored(x)) : x;
  }

  bool compute(Fn fn, T* out, const T* a, const T* b, int64_t n) {
    if constexpr (!std::is_same_v<T, Stored>) {
      if (const FloatFn run = float_function(fn); run != nullptr) {
        run(out, a, b, static_cast<std::size_t>(n));
        return true;
      }
    }
    return value_block(fn, out, a, b, n);
  }

  void round_block(T* x, int64_t n) {
    if constexpr (!std::is_same_v<T, Stored>) {
      Stored narrow[kTile];
      narrow_row(narrow, x, n);
      widen_row(x, narrow, n);
    }
  }

  bool step(int k, const void* const* in, int64_t at, int64_t n) {
    const Node& node = program_.nodes[static_cast<std::size_t>(k)];
    const int a = node.args[0], b = scalar::info(node.fn).arity > 1 ? node.args[1] : a;
    switch (node.fn) {
      case Fn::kConstant:
      case Fn::kParam:
        return true;
      case Fn::kOperand:
        load(k, in[a], at, n);
        return true;
      case Fn::kWhere:
        for (int64_t i = 0; i < n; ++i) {
          value(k)[i] = bools(a)[i] != 0 ? value(b)[i] : value(node.args[2])[i];
        }
        return true;
      case Fn::kLogicalAnd:
      case Fn::kLogicalOr:
      case Fn::kLogicalXor:
      case Fn::kLogicalNot:
        logical_block(node.fn, bools(k), bools(a), bools(b), n);
        return true;
      default:
        break;
    }
    if constexpr (std::is_same_v<T, uint8_t>) {
      if (is_bool_ && node.fn == Fn::kBitwiseInvert) {  // of 0 and 1, not of eight bits
        logical_block(Fn::kLogicalNot, value(k), value(a), value(a), n);
        return true;
      }
    }
    if (scalar::info(node.fn).is_bool) {
      bool_block(node.fn, bools(k), value(a), value(b), n);
      return true;
    }
    if (!compute(node.fn, value(k), value(a), value(b), n)) return false;
    if (round_nodes_) round_block(value(k), n);
    return true;
  }

  void load(int k, const void* from, int64_t at, int64_t n) {
    if (program_.is_bool_node(k)) {
      std::copy_n(static_cast<const uint8_t*>(from) + at, n, bools(k));
      return;
    }
    const Stored* p = static_cast<const Stored*>(from) + at;
    load_row(value(k), p, n);
  }

  void store(void* out, int64_t at, int64_t n) {
    const int last = program_.size - 1;
    if (program_.is_bool) {
      std::copy_n(bools(last), n, static_cast<uint8_t*>(out) + at);
      return;
    }
    Stored* p = static_cast<Stored*>(out) + at;
    store_row(p, value(last), n);
  }

  const Program& program_;
  bool is_bool_;
  bool round_nodes_;
  T* values_;
  uint8_t* bools_;
};

template <class T, class Stored>
bool interpret(const Program& program, bool round_nodes, void* out, const void* const* in,
               const double* params, int64_t n, bool is_bool = false) {
  return Interpreter<T, Stored>(program, params, round_nodes, is_bool).run(out, in, n);
}

}  // namespace

bool run_program(const Program& program, DType dtype, bool round_nodes, void* out,
                 const void* const* in, const double* params, int64_t n) {
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return interpret<float, T>(program, round_nodes, out, in, params, n);
    } else if constexpr (std::is_same_v<T, bool>) {  // bytes 0 and 1, also for functions of values
      return interpret<uint8_t, uint8_t>(program, round_nodes, out, in, params, n, true);
    } else {
      return interpret<T, T>(program, round_nodes, out, in, params, n);
    }
  });
}

}  // namespace etude::kernels::cpu
