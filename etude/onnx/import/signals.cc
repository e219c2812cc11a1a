// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, and windows of signals.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace signals {
namespace {

using Results = std::vector<Tensor>;

// A sum of cosines: a - b cos(2 pi i / n) + c cos(4 pi i / n).
Results cosines(const NodeCall& n, double a, double b, double c) {
  const int64_t size = n.integer(std::size_t{0});
  n.require(size >= 0 && size < kMaxCount, "the size is {}", size);
  const bool is_periodic = n.integer("periodic", 1) != 0;
  const double length = static_cast<double>(is_periodic ? size : std::max<int64_t>(size - 1, 1));
  const Tensor at = numbered(size, kFloat64);
  const Tensor angle = at * (2 * std::numbers::pi) / length;
  Tensor out = a - b * cos(angle);
  if (c != 0) out = out + c * cos(angle * 2.0);
  return {as_dtype(out, n.dtype("output_datatype", kFloat32))};
}
Results blackman(const NodeCall& n) { return cosines(n, 0.42, 0.5, 0.08); }
Results hamming(const NodeCall& n) { return cosines(n, 25.0 / 46.0, 21.0 / 46.0, 0); }
Results hann(const NodeCall& n) { return cosines(n, 0.5, 0.5, 0); }

// The last axis has the real part, or the real and the imaginary part.
Tensor part(const Tensor& x, int64_t number) {
  return squeeze(span_of(x, x.type()->rank() - 1, number, number + 1), -1);
}
Tensor pair_of(const Tensor& y) { return stack({real(y), imag(y)}, {.axis = -1}); }

// x without its last axis, as a complex tensor.
Tensor complex_of(const Tensor& re, const Tensor& im) {
  const DType dtype = re.dtype() == kFloat64 ? kComplex128 : kComplex64;
  const Tensor turn = sqrt(astype(Tensor(-1.0), dtype));  // the imaginary unit
  return astype(re, dtype) + astype(im, dtype) * turn;
}

Results transform(const NodeCall& n) {
  const Tensor& x = n.x(0);
  const int rank = n.rank(0);
  const Shape shape = n.shape(0);
  n.require(rank >= 2 && (shape[rank - 1] == 1 || shape[rank - 1] == 2),
            "the last axis of {} has neither 1 nor 2 elements", shape.to_string());
  const int64_t given = n.has(2) ? n.integer(2) : n.integer("axis", n.opset() < 20 ? 1 : -2);
  const int64_t axis = n.axis(given, rank);
  n.require(axis < rank - 1, "axis {} has the real and imaginary parts", axis);
  const bool is_inverse = n.integer("inverse", 0) != 0, is_one = n.integer("onesided", 0) != 0;
  const int64_t size = shape[static_cast<int>(axis)];
  const int64_t length = n.has(1) ? n.integer(1) : (is_inverse && is_one ? 2 * (size - 1) : size);
  n.require(length > 0 && length < kMaxCount, "the length is {}", length);
  const bool is_real = shape[rank - 1] == 1;
  if (is_inverse) {
    const Tensor at = complex_of(part(x, 0), is_real ? zeros_like(part(x, 0)) : part(x, 1));
    if (is_one) return {expand_dims(fft::irfft(at, {.n = length, .axis = axis}), -1)};
    return {pair_of(fft::ifft(at, {.n = length, .axis = axis}))};
  }
  if (is_real && is_one) return {pair_of(fft::rfft(part(x, 0), {.n = length, .axis = axis}))};
  const Tensor at = complex_of(part(x, 0), is_real ? zeros_like(part(x, 0)) : part(x, 1));
  const Tensor y = pair_of(fft::fft(at, {.n = length, .axis = axis}));
  if (!is_one) return {y};
  return {span_of(y, axis, 0, length / 2 + 1)};
}

// Transforms of frames: [batch, frames, frequencies, 2].
Results short_time(const NodeCall& n) {
  const Shape shape = n.shape(0);
  n.require(shape.rank() == 2 || shape.rank() == 3, "the signal is {}", shape.to_string());
  const int64_t step = n.integer(1);
  const int64_t length = n.has(3) ? n.integer(3) : n.has(2) ? n.shape(2).count() : shape[1];
  n.require(step > 0 && length > 0 && length <= shape[1],
            "the step is {} and the length of frames {}, for a signal of {}", step, length,
            shape[1]);
  const int64_t frames = (shape[1] - length) / step + 1;
  const Tensor places = on_axis(numbered(frames), 0, 2) * step + on_axis(numbered(length), 1, 2);
  const Tensor x = shape.rank() == 2 ? expand_dims(n.x(0), -1) : n.x(0);
  const bool is_real = x.type()->shape()[2] == 1;
  const auto framed = [&](int64_t number) {
    Tensor out = take(part(x, number), places, {.axis = 1});
    return n.has(2) ? out * n.x(2) : out;
  };
  const bool is_one = n.integer("onesided", 1) != 0;
  if (is_real && is_one) return {pair_of(fft::rfft(framed(0)))};
  const Tensor re = framed(0);
  const Tensor y = pair_of(fft::fft(complex_of(re, is_real ? zeros_like(re) : framed(1))));
  if (!is_one) return {y};
  return {span_of(y, 2, 0, length / 2 + 1)};
}

// Triangles over frequencies, at equal distances on the mel scale.
Results mel_weights(const NodeCall& n) {
  const int64_t bins = n.integer(std::size_t{0}), length = n.integer(std::size_t{1});
  const int64_t rate = n.integer(std::size_t{2});
  const double low = n.real(3), high = n.real(4);
  n.require(bins > 0 && length > 0 && rate > 0 && bins < 65536 && length < (int64_t{1} << 31),
            "it has {} bins, a length of {} and a rate of {}", bins, length, rate);
  const int64_t rows = length / 2 + 1;
  n.importer().need_bytes(n, rows * bins * 8);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  Sizes at;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz =
        700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    const double place =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    n.require(place >= 0 && place < static_cast<double>(rows), "its edges are {} and {} hertz", low,
              high);
    at.push_back(static_cast<int64_t>(place));
  }
  std::vector<double> out(static_cast<std::size_t>(rows * bins), 0);
  const auto set = [&](int64_t row, int64_t column, double value) {
    out[static_cast<std::size_t>(row * bins + column)] = value;
  };
  for (int64_t i = 0; i < bins; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const int64_t left = at[k], center = at[k + 1], right = at[k + 2];
    if (center == left) set(center, i, 1);
    for (int64_t j = left; center > left && j <= center; ++j) {
      set(j, i, static_cast<double>(j - left) / static_cast<double>(center - left));
    }
    for (int64_t j = center; right > center && j < right; ++j) {
      set(j, i, static_cast<double>(right - j) / static_cast<double>(right - center));
    }
  }
  return {astype(Tensor(out, Shape{rows, bins}), n.dtype("output_datatype", kFloat32))};
}

}  // namespace
}  // namespace signals

void add_signal_imports(Imports& to) {
  using namespace signals;
  constexpr std::string_view kWindow = "output_datatype periodic";
  to.insert(to.end(), {{"BlackmanWindow", "size", kWindow, blackman},
                       {"HammingWindow", "size", kWindow, hamming},
                       {"HannWindow", "size", kWindow, hann},
                       {"DFT", "input dft_length? axis?", "axis inverse onesided", transform},
                       {"STFT", "signal frame_step window? frame_length?", "onesided", short_time},
                       {"MelWeightMatrix",
                        "num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz",
                        "output_datatype", mel_weights}});
}

}  // namespace etude::onnx::importing
