// SPDX-License-Identifier: Apache-2.0
// Linear algebra, Fourier transforms, attention and images compared with NumPy and SciPy: the rows
// of family_values.inc, which tools/generate/gen_family_values.py writes, on operands that both
// make by one formula.
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/ops.h"

namespace etude {
namespace {

struct FamilyRow {
  const char* name;
  std::vector<double> want;
};
#include "tests/ops/values/family_values.inc"

using Ints = std::vector<int64_t>;

Tensor at(const Shape& shape, int64_t seed) {
  std::vector<double> values;
  for (int64_t k = 0; k < shape.count(); ++k) {
    values.push_back(static_cast<double>((k * 37 + seed * 29 + k * k % 11 * 5) % 97) / 48.5 - 1);
  }
  return reshape(Tensor(values), shape);
}
Tensor complex_of(const Tensor& re, const Tensor& im) {
  return astype(re, kComplex128) + astype(im, kComplex128) * Tensor(std::complex<double>(0, 1));
}
Tensor complex_at(const Shape& shape, int64_t seed) {
  return complex_of(at(shape, seed), at(shape, seed + 1));
}
Tensor positive(const Tensor& x) {
  const int64_t n = x.shape()[x.rank() - 1];
  return matmul(x, conj(matrix_transpose(x))) + 2.0 * eye(n, {.cols = n, .dtype = x.dtype()});
}
Tensor part(const Tensor& x, const Ints& start, const Ints& stop, const Ints& step = {}) {
  return slice(x, start, stop, {.step = step.empty() ? IntList() : IntList(step)});
}

const Tensor& a() {
  static const Tensor x = at({2, 3, 3}, 1);
  return x;
}
const Tensor& tall() {
  static const Tensor x = at({4, 3}, 3);
  return x;
}
Tensor p() { return positive(a()); }
Tensor z() { return complex_at({3, 3}, 5); }
Tensor lower() { return tril(reshape(part(p(), {0, 0, 0}, {1, 3, 3}), {3, 3})); }
Tensor b(int64_t i) { return reshape(part(at({2, 3, 2}, 2), {i, 0, 0}, {i + 1, 3, 2}), {3, 2}); }
Tensor rebuilt(const Tensor& x) {
  const auto f = linalg::svd(x, {.full_matrices = false});
  return matmul(f.u * astype(f.s, x.dtype()), f.vh);
}
Tensor eigh_rebuilt(const Tensor& x) {
  const auto f = linalg::eigh(x);
  return matmul(f.vectors * astype(f.values, x.dtype()), conj(matrix_transpose(f.vectors)));
}
Tensor eig_rebuilt(const Tensor& x) {
  const auto f = linalg::eig(x);
  return matmul(f.vectors * f.values, linalg::inv(f.vectors));
}
Tensor rank_one(int64_t n) { return outer(at({3}, 1), at({n}, 2)); }

Tensor long_signal() { return complex_at({1 << 15}, 3); }
Tensor some(const Tensor& x) {
  return take(x, Tensor(std::vector<int64_t>{0, 1, 777, 20000, (1 << 15) - 1}), {.axis = 0});
}

const Tensor& q() {
  static const Tensor x = at({2, 3, 4}, 1);
  return x;
}
const Tensor& k() {
  static const Tensor x = at({2, 5, 4}, 2);
  return x;
}
const Tensor& v() {
  static const Tensor x = at({2, 5, 2}, 3);
  return x;
}
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v,
              const nn::ScaledDotProductAttentionOptions& options = {}) {
  return nn::scaled_dot_product_attention(q, k, v, options);
}
Tensor long_k() { return 4.0 * at({200, 3}, 2); }
Tensor long_v() { return at({200, 1}, 3); }

const Tensor& x() {
  static const Tensor image = at({1, 5, 4, 2}, 1);
  return image;
}
Tensor filter() { return at({2, 2, 2}, 2); }
Tensor rgb() { return (at({2, 2, 3}, 3) + 1.1) / 2.2; }
Tensor picture(int64_t seed) { return (at({9, 8, 2}, seed) + 1.0) / 2.0; }
Tensor resized(int64_t h, int64_t w, const image::ResizeOptions& options) {
  return image::resize(x(), {h, w}, options);
}

using Make = std::function<Tensor()>;
using Calls = std::vector<std::pair<std::string, Make>>;

Calls system_calls() {
  return {{"diagonal", [] { return linalg::diagonal(tall(), {.offset = 1}); }},
          {"diag", [] { return linalg::diag(at({3}, 7), {.offset = -1}); }},
          {"set_diagonal", [] { return linalg::set_diagonal(tall(), at({3}, 7)); }},
          {"band_part", [] { return linalg::band_part(tall(), 2, 1); }},
          {"trace", [] { return linalg::trace(a()); }},
          {"cholesky", [] { return linalg::cholesky(p()); }},
          {"cholesky upper", [] { return linalg::cholesky(positive(z()), {.upper = true}); }},
          {"triangular_solve",
           [] { return linalg::triangular_solve(lower(), b(0), {.transpose = true}); }},
          {"triangular_solve unit",
           [] {
             return linalg::triangular_solve(matrix_transpose(lower()), b(1),
                                             {.lower = false, .unit = true});
           }},
          {"solve",
           [] {
             return linalg::solve(a(), at({2, 3, 2}, 2));
           }},
          {"solve vector", [] { return linalg::solve(z(), complex_at({3}, 8)); }},
          {"inv", [] { return linalg::inv(a()); }},
          {"inv complex", [] { return linalg::inv(z()); }},
          {"det", [] { return linalg::det(a()); }},
          {"det complex", [] { return linalg::det(z()); }},
          {"slogdet",
           [] {
             const auto f = linalg::slogdet(a());
             return stack({f.sign, f.logabsdet});
           }},
          {"slogdet sign", [] { return linalg::slogdet(z()).sign; }},
          {"logdet", [] { return linalg::logdet(p()); }}};
}

Calls factor_calls() {
  Calls out = {{"qr q", [] { return linalg::qr(tall()).q; }},
               {"qr r", [] { return linalg::qr(tall()).r; }},
               {"qr wide",
                [] {
                  return linalg::qr(at({2, 4}, 4)).r;
                }},
               {"qr complete",
                [] {
                  return part(linalg::qr(tall(), {.mode = "complete"}).q, {0, 0}, {4, 3});
                }},
               {"qr complex", [] { return linalg::qr(z()).q; }},
               {"svd", [] { return linalg::svd(tall()).s; }},
               {"svd rebuilt",
                [] {
                  return rebuilt(complex_at({4, 3}, 9));
                }},
               {"svdvals", [] { return linalg::svdvals(z()); }},
               {"eigh values", [] { return linalg::eigh(p()).values; }},
               {"eigh rebuilt", [] { return eigh_rebuilt(positive(z())); }},
               {"eigvalsh", [] { return linalg::eigvalsh(z()); }},
               {"eig values", [] { return linalg::eig(a()).values; }},
               {"eig rebuilt", [] { return eig_rebuilt(z()); }},
               {"eigvals", [] { return linalg::eigvals(z()); }},
               {"pinv", [] { return linalg::pinv(tall()); }},
               {"pinv of rank 1", [] { return linalg::pinv(rank_one(2), {.rtol = 1e-10}); }},
               {"matrix_power", [] { return linalg::matrix_power(a(), 5); }},
               {"matrix_power -2", [] { return linalg::matrix_power(a(), -2); }},
               {"matrix_rank",
                [] {
                  const Tensor full = reshape(part(a(), {0, 0, 0}, {1, 3, 3}), {3, 3});
                  return linalg::matrix_rank(stack({rank_one(3), full}));
                }},
               {"vector_norm", [] { return linalg::vector_norm(tall(), {.ord = 3, .axis = 0}); }},
               {"cross", [] { return linalg::cross(tall(), at({3}, 9)); }},
               {"lstsq", [] {
                  return linalg::lstsq(tall(), at({4, 2}, 6));
                }}};
  for (const char* ord : {"fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"}) {
    out.emplace_back(std::string("matrix_norm ") + ord,
                     [ord] { return linalg::matrix_norm(a(), {.ord = ord}); });
  }
  return out;
}

Calls complex_fft_calls() {
  Calls out;
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 37, 60}) {
    out.emplace_back("fft " + std::to_string(n), [n] { return fft::fft(complex_at({2, n}, n)); });
  }
  const Calls more = {
      {"fft long", [] { return some(fft::fft(long_signal())); }},
      {"ifft long", [] { return some(fft::ifft(long_signal())); }},
      {"fft prime",
       [] {
         return take(fft::fft(complex_at({1009}, 3)), Tensor(std::vector<int64_t>{0, 1, 500, 1008}),
                     {.axis = 0});
       }},
      {"fft axis",
       [] {
         return fft::fft(at({3, 4, 2}, 1), {.n = 6, .axis = 1, .norm = "ortho"});
       }},
      {"ifft", [] { return fft::ifft(complex_at({9}, 2)); }},
      {"ifft cut", [] { return fft::ifft(complex_at({9}, 2), {.n = 4, .norm = "forward"}); }}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Calls real_fft_calls() {
  return {{"rfft even",
           [] {
             return fft::rfft(at({2, 8}, 1));
           }},
          {"rfft odd",
           [] {
             return fft::rfft(at({7, 2}, 2), {.axis = 0, .norm = "forward"});
           }},
          {"irfft even",
           [] {
             return fft::irfft(complex_at({2, 5}, 3));
           }},
          {"irfft odd", [] { return fft::irfft(complex_at({5}, 4), {.n = 9, .norm = "ortho"}); }},
          {"fftn",
           [] {
             return fft::fftn(complex_at({4, 6}, 1));
           }},
          {"ifftn",
           [] {
             return fft::ifftn(complex_at({4, 3, 5}, 1), {.axes = {0, 2}});
           }},
          {"rfftn",
           [] {
             return fft::rfftn(at({4, 6}, 2), {.s = {4, 4}});
           }},
          {"irfftn",
           [] {
             return fft::irfftn(complex_at({4, 4}, 3));
           }},
          {"hfft", [] { return fft::hfft(complex_at({5}, 1)); }},
          {"ihfft", [] { return fft::ihfft(at({8}, 1)); }},
          {"fftfreq", [] { return fft::fftfreq(7, {.d = 0.25, .dtype = kFloat64}); }},
          {"rfftfreq", [] { return fft::rfftfreq(8, {.d = 2, .dtype = kFloat64}); }},
          {"fftshift",
           [] {
             return fft::fftshift(at({3, 4}, 1));
           }},
          {"ifftshift", [] {
             return fft::ifftshift(at({3, 5}, 1), {.axes = 1});
           }}};
}

Calls attention_calls() {
  return {{"attention", [] { return attend(q(), k(), v()); }},
          {"attention causal", [] { return attend(k(), k(), v(), {.causal = true}); }},
          {"attention mask",
           [] {
             return attend(q(), k(), v(), {.scale = 0.7, .mask = at({3, 5}, 4) > -0.5});
           }},
          {"attention bias",
           [] {
             const Tensor one = reshape(part(k(), {0, 0, 0}, {1, 5, 4}), {5, 4});
             return attend(q(), one, v(), {.bias = at({2, 1, 5}, 5)});
           }},
          {"attention long",
           [] {
             return part(attend(4.0 * at({150, 3}, 1), long_k(), long_v()), {0}, {150}, {30});
           }},
          {"attention long causal", [] {
             return part(attend(long_k(), long_k(), long_v(), {.causal = true}), {0}, {200}, {30});
           }}};
}

Calls image_calls() {
  Calls out;
  const std::vector<std::string> filters = {"bilinear", "bicubic",  "mitchell",
                                            "lanczos3", "lanczos5", "gaussian"};
  for (const char* method : {"nearest", "area"}) {
    out.emplace_back(std::string("resize ") + method,
                     [method] { return resized(8, 7, {.method = method}); });
  }
  for (const std::string& method : filters) {
    out.emplace_back("resize " + method, [method] { return resized(8, 7, {.method = method}); });
  }
  for (const std::string& method : filters) {
    out.emplace_back("resize small " + method,
                     [method] { return resized(2, 3, {.method = method, .antialias = true}); });
  }
  const Calls more = {
      {"resize aligned", [] { return resized(7, 3, {.centers = "aligned"}); }},
      {"resize legacy", [] { return resized(3, 6, {.method = "bicubic", .centers = "legacy"}); }},
      {"depth_to_space",
       [] {
         return image::depth_to_space(at({1, 2, 2, 8}, 1), 2);
       }},
      {"space_to_depth",
       [] {
         const Tensor y = image::space_to_depth(at({1, 4, 2, 3}, 1), 2);
         EXPECT_EQ(y.shape(), (Shape{1, 2, 1, 12}));
         return y;
       }},
      {"dilation2d", [] { return image::dilation2d(x(), filter()); }},
      {"dilation2d rates",
       [] {
         return image::dilation2d(x(), filter(), {.strides = {2, 1}, .dilations = {2, 1}});
       }},
      {"erosion2d", [] { return image::erosion2d(x(), filter()); }},
      {"central_crop", [] { return image::central_crop(x(), 0.6); }},
      {"adjust_contrast", [] { return image::adjust_contrast(x(), 1.5); }},
      {"rgb_to_grayscale", [] { return image::rgb_to_grayscale(rgb()); }},
      {"rgb_to_hsv", [] { return image::rgb_to_hsv(rgb()); }},
      {"hsv_to_rgb", [] { return image::hsv_to_rgb(image::rgb_to_hsv(rgb())); }},
      {"adjust_saturation", [] { return image::adjust_saturation(rgb(), 1.7); }},
      {"adjust_hue", [] { return image::adjust_hue(rgb(), 0.3); }},
      {"psnr", [] { return image::psnr(picture(4), picture(5), {.max_value = 2}); }},
      {"ssim", [] { return image::ssim(picture(4), picture(5), {.filter_size = 5}); }}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// spec: T12.a, T16.a, T22
TEST(FamilyValues, AreThoseOfNumPyAndSciPy) {
  Calls calls = system_calls();
  for (const Calls& more :
       {factor_calls(), complex_fft_calls(), real_fft_calls(), attention_calls(), image_calls()}) {
    calls.insert(calls.end(), more.begin(), more.end());
  }
  ASSERT_EQ(calls.size(), std::size(kFamilyRows));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const FamilyRow& row = kFamilyRows[i];
    SCOPED_TRACE(row.name);
    ASSERT_EQ(calls[i].first, row.name);
    const Tensor y = calls[i].second();
    std::vector<double> got;
    for (const std::complex<double>& value : y.to_vector<std::complex<double>>()) {
      got.push_back(value.real());
      if (is_complex(y.dtype())) got.push_back(value.imag());
    }
    ASSERT_EQ(got.size(), row.want.size()) << y.shape().to_string();
    double largest = 1;
    for (const double want : row.want) largest = std::max(largest, std::abs(want));
    for (std::size_t e = 0; e < got.size(); ++e) {
      EXPECT_NEAR(got[e], row.want[e], 2e-9 * largest) << "element " << e;
    }
  }
}

// Transforms run sixteen at a time where they lie side by side, and others one by one. Each is the
// matrix of roots of unity times its elements, in rows and in columns, there and back.
// spec: T22
TEST(FamilyValues, ManyTransformsAreTheirSums) {
  const std::complex<double> circle(0, -2 * std::acos(-1.0));
  for (const int64_t n : {1, 2, 4, 8, 16, 32, 37, 49, 60, 128, 512}) {
    std::vector<std::complex<double>> roots;
    for (int64_t k = 0; k < n * n; ++k) {
      const int64_t turns = k / n * (k % n) % n;
      roots.push_back(std::exp(circle * (static_cast<double>(turns) / static_cast<double>(n))));
    }
    const Tensor matrix = reshape(Tensor(roots), {n, n});
    const Tensor columns = complex_at({n, 37}, n), rows = matrix_transpose(columns);
    const Tensor want = matmul(matrix, columns);
    for (const DType dtype : {kComplex64, kComplex128}) {
      const double largest = max(abs(want)).item<double>();
      const double limit = largest * (dtype == kComplex64 ? 1e-6 : 1e-14);
      const auto expect_near = [&](const Tensor& got, const Tensor& to, double scale) {
        EXPECT_LT(max(abs(astype(got, kComplex128) - to)).item<double>(), limit * scale)
            << n << ' ' << name(dtype);
      };
      const Tensor x = astype(columns, dtype), y = astype(rows, dtype);
      expect_near(fft::fft(x, {.axis = 0}), want, 1);
      expect_near(fft::fft(y), matrix_transpose(want), 1);
      const double size = static_cast<double>(n);
      expect_near(fft::ifft(x, {.axis = 0}), matmul(conj(matrix), columns) / size, 1 / size);
      expect_near(fft::ifft(astype(want, dtype), {.axis = 0, .norm = "forward"}), columns * size,
                  size);
      expect_near(fft::ifft(y), matrix_transpose(matmul(conj(matrix), columns)) / size, 1 / size);
    }
  }
}

}  // namespace
}  // namespace etude
