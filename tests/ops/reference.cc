// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/reference.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace etude::matrix {
namespace {

using scalar::Fn;
using Complex = std::complex<double>;
using Wide = __int128;

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x <= 0 && x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
  if (x < 0) return digamma(1 - x) - M_PI / std::tan(M_PI * x);
  double sum = 0;
  for (; x < 20; x += 1) sum -= 1 / x;
  const double i2 = 1 / (x * x);  // asymptotic series, Abramowitz and Stegun 6.3.18
  return sum + std::log(x) - 0.5 / x -
         i2 * (1.0 / 12 - i2 * (1.0 / 120 - i2 * (1.0 / 252 - i2 / 240)));
}

double erfinv(double y) {
  if (!(std::abs(y) < 1)) {
    return std::abs(y) == 1 ? std::copysign(std::numeric_limits<double>::infinity(), y)
                            : std::nan("");
  }
  if (y == 0) return y;
  double low = -6.5, high = 6.5;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    // erfc keeps its digits where erf is almost one.
    const bool below = y >= 0 ? std::erfc(middle) > 1 - y : std::erfc(-middle) < 1 + y;
    (below ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// As Python and NumPy divide: an infinite dividend has no whole part.
double floor_divide(double a, double b) {
  if (b == 0 || std::isnan(a) || std::isnan(b)) return a / b;
  if (std::isinf(a)) return std::nan("");
  if (std::isinf(b)) return a == 0 ? 0 : (a < 0) == (b < 0) ? 0 : -1;
  return std::floor(a / b);
}

double logaddexp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return a + std::log(2.0);  // also two equal infinities
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

double floor_mod(double a, double b) {
  if (std::isinf(b) && std::isfinite(a)) return a == 0 || (a < 0) == (b < 0) ? a : b;
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : std::copysign(r, r == 0 ? b : r);
}

double extreme(double a, double b, bool largest) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return (largest ? a > b : a < b) ? a : b;
}

double sign(double x) { return std::isnan(x) ? x : x > 0 ? 1 : x < 0 ? -1 : x; }

double apply(Fn fn, double a, double b, double c) {
  switch (fn) {
#define ETUDE_CASE(enumerator, expression) \
  case Fn::enumerator:                     \
    return expression;
#include "tests/ops/reference_real.inc"
#undef ETUDE_CASE
    default:
      throw std::logic_error("no real reference for " + std::string(scalar::info(fn).op));
  }
}

Complex apply(Fn fn, Complex a, Complex b, Complex c) {
  switch (fn) {
#define ETUDE_CASE(enumerator, expression) \
  case Fn::enumerator:                     \
    return expression;
#include "tests/ops/reference_complex.inc"
#undef ETUDE_CASE
    default:
      throw std::logic_error("no complex reference for " + std::string(scalar::info(fn).op));
  }
}

Wide power(Wide a, Wide b) {
  auto result = Wide{1};
  for (Wide i = 0; i < b && i < 4096; ++i)
    result = static_cast<int64_t>(static_cast<uint64_t>(result * a));
  return result;
}

Wide floor_quotient(Wide a, Wide b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Wide apply(Fn fn, Wide a, Wide b, Wide c) {
  switch (fn) {
#define ETUDE_CASE(enumerator, expression) \
  case Fn::enumerator:                     \
    return expression;
#include "tests/ops/reference_whole.inc"
#undef ETUDE_CASE
    default:
      throw std::logic_error("no whole reference for " + std::string(scalar::info(fn).op));
  }
}

// A number as `dtype` would hold it.
Wide wrapped(Wide value, DType dtype) {
  switch (dtype) {
    case kBool:
      return value & 1;  // so that ~1 is 0
    case kInt8:
      return static_cast<int8_t>(value);
    case kInt16:
      return static_cast<int16_t>(value);
    case kInt32:
      return static_cast<int32_t>(value);
    case kInt64:
      return static_cast<int64_t>(value);
    case kUInt8:
      return static_cast<uint8_t>(value);
    case kUInt16:
      return static_cast<uint16_t>(value);
    case kUInt32:
      return static_cast<uint32_t>(value);
    default:
      return static_cast<uint64_t>(value);
  }
}

template <class T>
T keep(T value, DType dtype) {
  if constexpr (std::is_same_v<T, Wide>)
    return wrapped(value, dtype);
  else
    return value;
}

// Where element `at` of a result of shape `to` comes from in an operand of shape `from`.
int64_t source(int64_t at, const Shape& from, const Shape& to) {
  int64_t place = 0, stride = 1;
  for (int i = to.rank() - 1; i >= 0; --i) {
    const int64_t coordinate = at % to[i];
    at /= to[i];
    const int axis = i - (to.rank() - from.rank());
    if (axis < 0) continue;
    if (from[axis] != 1) place += coordinate * stride;
    stride *= from[axis];
  }
  return place;
}

template <class T>
std::vector<T> host(const Tensor& x) {
  if constexpr (std::is_same_v<T, Complex>) {
    return x.to_vector<Complex>();
  } else if constexpr (std::is_same_v<T, double>) {
    return x.to_vector<double>();
  } else if (x.dtype() == kUInt64) {
    const auto v = x.to_vector<uint64_t>();
    return {v.begin(), v.end()};
  } else {
    const auto v = x.to_vector<int64_t>();
    return {v.begin(), v.end()};
  }
}

template <class T>
std::vector<T> run(const scalar::Program& program, const std::vector<Tensor>& operands,
                   const std::vector<double>& params, const Shape& result, DType dtype) {
  std::vector<std::vector<T>> in;
  for (const Tensor& x : operands) in.push_back(host<T>(x));
  std::vector<T> out, nodes(static_cast<std::size_t>(program.size));
  for (int64_t at = 0; at < result.count(); ++at) {
    for (int k = 0; k < program.size; ++k) {
      const scalar::Node& node = program.nodes[static_cast<std::size_t>(k)];
      T& value = nodes[static_cast<std::size_t>(k)];
      const auto arg = [&](int i) {
        return i < scalar::info(node.fn).arity ? nodes[node.args[static_cast<std::size_t>(i)]]
                                               : T(0);
      };
      if (node.fn == Fn::kOperand) {
        const Tensor& x = operands[node.args[0]];
        value = in[node.args[0]][static_cast<std::size_t>(source(at, x.shape(), result))];
      } else if (node.fn == Fn::kConstant || node.fn == Fn::kParam) {
        const double number = node.fn == Fn::kParam ? params[node.args[0]] : node.constant;
        // A number too large for a float is infinite for the kernels too.
        value = T(std::isfinite(number) && real_dtype(dtype) != kFloat64 && is_floating(dtype)
                      ? static_cast<double>(static_cast<float>(number))
                      : number);
      } else {
        value = apply(node.fn, arg(0), arg(1), arg(2));
        if constexpr (std::is_same_v<T, double>) {  // the next number depends on the dtype
          const bool is_next = node.fn == Fn::kNextafter && dtype == kFloat32;
          if (is_next)
            value = std::nextafter(static_cast<float>(arg(0)), static_cast<float>(arg(1)));
        }
        if (!scalar::info(node.fn).is_bool) value = keep<T>(value, dtype);
      }
    }
    out.push_back(nodes.back());
  }
  return out;
}

// The distance to the next number of `dtype` away from zero.
double spacing(double value, DType dtype) {
  value = std::abs(value);
  const auto steps = [&](int digits, double smallest) {
    const int exponent = value == 0 ? -2000 : std::ilogb(value);
    return std::max(std::ldexp(1.0, exponent + 1 - digits), smallest);
  };
  switch (dtype) {
    case kFloat16:
      return steps(11, 0x1p-24);
    case kBFloat16:
      return steps(8, 0x1p-126);
    case kFloat32:
      return steps(24, 0x1p-126);  // results below the normal range may be flushed
    default:
      return steps(53, 0x1p-1022);
  }
}

bool is_close(Complex got, Complex want, DType dtype, double ulp) {
  if (is_complex(dtype)) {
    if (std::isnan(want.real()) || std::isnan(want.imag()))
      return true;  // left open by the standard
    const double eps = dtype == kComplex64 ? 2e-5 : 1e-11;
    if (!std::isinf(want.real()) && !std::isinf(want.imag()))
      return std::abs(got - want) <= eps * (1 + std::abs(want));
    const auto fits = [eps](double g, double w) {
      return g == w || (!std::isinf(w) && std::abs(g - w) <= eps * (1 + std::abs(w)));
    };
    return fits(got.real(), want.real()) && fits(got.imag(), want.imag());
  }
  const double g = got.real(), w = want.real();
  if (std::isnan(w) || std::isnan(g)) return std::isnan(w) && std::isnan(g);
  if (g == w) return true;
  const double largest = dtype == kFloat16   ? 65504.0
                         : dtype == kFloat64 ? std::numeric_limits<double>::max()
                                             : 3.3e38;
  if (std::isinf(g)) return std::abs(w) >= largest * (1 - 1e-3) && (g > 0) == (w > 0);
  if (std::isinf(w)) return false;
  const double allowed = dtype == kFloat64 ? 4096 : dtype == kFloat32 ? ulp : 0.5 + ulp / 16;
  return std::abs(g - w) <= allowed * spacing(w, dtype);
}

}  // namespace

Expected evaluate(const scalar::Program& program, const std::vector<Tensor>& operands,
                  const std::vector<double>& params, const Shape& result) {
  DType dtype = kBool;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (((program.bools >> i) & 1) == 0) dtype = operands[i].dtype();
  }
  Expected out;
  if (is_complex(dtype)) {
    out.values = run<Complex>(program, operands, params, result, dtype);
  } else if (is_floating(dtype)) {
    for (const double v : run<double>(program, operands, params, result, dtype))
      out.values.emplace_back(v);
  } else {
    for (const Wide v : run<Wide>(program, operands, params, result, dtype)) {
      out.integers.push_back(static_cast<int64_t>(static_cast<uint64_t>(v)));
    }
  }
  return out;
}

std::string compare(const Tensor& got, const Expected& want, double ulp) {
  if (!want.integers.empty()) {
    const auto g = host<Wide>(got);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const auto bits = static_cast<int64_t>(static_cast<uint64_t>(g[i]));
      if (bits != want.integers[i])
        return fmt::format("element {}: got {}, want {}", i, bits, want.integers[i]);
    }
    return "";
  }
  if (got.dtype() == kBool) {
    const auto g = got.to_vector<uint8_t>();
    for (std::size_t i = 0; i < g.size(); ++i) {
      if ((g[i] != 0) != (want.values[i] != 0.0))
        return fmt::format("element {}: got {}, want {}", i, g[i], want.values[i].real());
    }
    return "";
  }
  const auto g = got.to_vector<Complex>();
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (is_close(g[i], want.values[i], got.dtype(), ulp)) continue;
    return fmt::format(
        "element {}: got {}{:+}i, want {}{:+}i, {:.3} ulp", i, g[i].real(), g[i].imag(),
        want.values[i].real(), want.values[i].imag(),
        std::abs(g[i] - want.values[i]) / spacing(want.values[i].real(), real_dtype(got.dtype())));
  }
  return "";
}

}  // namespace etude::matrix
