// SPDX-License-Identifier: Apache-2.0
// Fourier transforms along one axis.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

// kind: FFT, IFFT, RFFT, IRFFT, over the last axis. `n` is the number of elements in time.
Term transform(const Term& x, std::string_view kind, int64_t n, const Type* result) {
  return x.writer->add(fmt::format("stablehlo.fft {}, type = {}, length = [{}] : ({}) -> {}",
                                   x.name, kind, n, type_text(x.type), type_text(result)),
                       result);
}

// The factor of a transform that sums `n` elements; the record counts its divisors.
double factor_of(const Call& call, int64_t n) {
  const int64_t divides = call.attrs.integer("divides");
  const auto length = static_cast<double>(n);
  return divides == 0 ? 1 : divides == 1 ? 1 / length : 1 / std::sqrt(length);
}
Term scaled(const Term& x, double factor) {
  return factor == 1 ? x : x * x.writer->number(factor, x.dtype());
}

Terms fourier(Call& call) {
  const Sizes last = last_swapped(call.rank(0), call.axis());
  const Term x = transpose(call.in(0), last);
  const int64_t n = x.shape()[x.rank() - 1];
  const bool is_inverse = call.attrs.flag("inverse");
  const Term y = transform(x, is_inverse ? "IFFT" : "FFT", n, x.type);
  const double undone = is_inverse ? static_cast<double>(n) : 1;  // IFFT divides
  return {transpose(scaled(y, undone * factor_of(call, n)), last)};
}

// Half a spectrum with the numbers that represent two of the whole multiplied.
Term with_pairs(const Term& half, int64_t n, double factor) {
  const int64_t size = half.shape()[half.rank() - 1];
  const Term place = counted(*half.writer, Shape{size}, 0, kInt64);
  const Term mirrored = half.writer->number(static_cast<double>(n), kInt64) - place;
  const Term is_lone = (place == 0.0) | (place == mirrored);
  return half * where(is_lone, half.writer->number(1, half.dtype()),
                      half.writer->number(factor, half.dtype()));
}

Terms fourier_of_real(Call& call) {
  const Sizes last = last_swapped(call.rank(0), call.axis());
  const Term x = transpose(call.in(0), last);
  const int64_t n = x.shape()[x.rank() - 1];
  Shape shape = x.shape();
  shape.set(x.rank() - 1, n / 2 + 1);
  Term y = transform(x, "RFFT", n, intern_type(call.result().dtype(), shape));
  if (call.attrs.flag("doubles")) y = with_pairs(y, n, 2);
  return {transpose(scaled(y, factor_of(call, n)), last)};
}

Terms fourier_to_real(Call& call) {
  const Sizes last = last_swapped(call.rank(0), call.axis());
  Term x = transpose(call.in(0), last);
  const int64_t n = call.attrs.integer("n");
  Shape shape = x.shape();
  shape.set(x.rank() - 1, n);
  if (!call.attrs.flag("doubles")) x = with_pairs(x, n, 0.5);
  const Term y = transform(x, "IRFFT", n, intern_type(call.result().dtype(), shape));
  return {transpose(scaled(y, static_cast<double>(n) * factor_of(call, n)), last)};
}

// x with n elements along an axis: cut, or with zeros at the end.
Terms fit_axis(Call& call) {
  const Term x = call.in(0);
  Sizes low(static_cast<std::size_t>(x.rank()), 0), high = low;
  high[static_cast<std::size_t>(call.axis())] =
      call.attrs.integer("n") - x.shape()[static_cast<int>(call.axis())];
  return {pad(x, call.number(0), low, high, Sizes(low.size(), 0))};
}

}  // namespace

void add_fourier_conversions(Conversions& to) {
  to.insert(to.end(),
            {{.op = "internal.fourier", .dtypes = kComplex, .write = fourier},
             {.op = "internal.fourier_of_real", .dtypes = kFull, .write = fourier_of_real},
             {.op = "internal.fourier_to_real", .dtypes = kComplex, .write = fourier_to_real},
             {.op = "internal.fit_axis", .write = fit_axis}});
}

}  // namespace etude::stablehlo::internal
