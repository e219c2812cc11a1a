// SPDX-License-Identifier: Apache-2.0
// Triangles, systems and determinants. LAPACK takes a row-major matrix as its transpose, and each
// routine gets the options for that: no square matrix is transposed. Small real matrices have loops
// of their own (small_matrices.h).
#include "etude/kernels/cpu/linalg/linalg.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/linalg/matrices.h"
#include "etude/kernels/cpu/linalg/small_matrices.h"

namespace etude::kernels::cpu {
namespace {

using lapack::Real;

constexpr double kFlopsPerUs = 2000;  // of one matrix, small or large, to choose chunks by

template <class T>
std::size_t bytes_of(int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(T);
}

constexpr MatrixFault kNotPositive = {
    "x", "is not positive definite. Add a small number to its diagonal"};
// The error of a singular matrix for each op that solves systems, by number MatrixParams::fault.
struct Singular {
  std::string_view of;
  MatrixFault fault;
};
constexpr Singular kSingular[] = {
    {"solve",
     {"a",
      "is singular, so the system has no solution or many. Take linalg::lstsq, or add a small "
      "number to its diagonal"}},
    {"inv",
     {"a",
      "is singular, so it has no inverse. Take linalg::pinv, or add a small number to its "
      "diagonal"}},
    {"matrix_power",
     {"x",
      "is singular, so it has no negative powers. Take powers of linalg::pinv, or add a small "
      "number to its diagonal"}},
    {"gradient of slogdet",
     {"x",
      "is singular: the logarithm of its determinant is -infinity, and has no derivative. Take "
      "linalg::det, or add a small number to its diagonal"}},
    {"gradient of eig",
     {"x",
      "has fewer independent eigenvectors than rows, so that its eigenvalues have no derivative"}}};

template <class T>
bool run_small_cholesky(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_small_matrix(p, kNotPositive, [&](int64_t i, std::byte* bytes) {
    return small_math<T>().cholesky(static_cast<T*>(call.out[0]) + i * p.n * p.n,
                                    static_cast<const T*>(call.in[0]) + i * p.n * p.n, p.n,
                                    reinterpret_cast<T*>(bytes));
  });
}

template <class T>
bool run_small_solve(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_small_matrix(p, kSingular[p.fault].fault, [&](int64_t i, std::byte* bytes) {
    return small_math<T>().solve(static_cast<T*>(call.out[0]) + i * p.n * p.k,
                                 static_cast<const T*>(call.in[0]) + i * p.n * p.n,
                                 static_cast<const T*>(call.in[1]) + i * p.n * p.k, p.n, p.k,
                                 p.transpose, reinterpret_cast<T*>(bytes));
  });
}

// x = l l^H: the lower half of x by rows is the upper half by columns, and so is l.
template <class T>
bool run_cholesky(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int n = static_cast<int>(p.n);
  return each_matrix(p, kNotPositive, [&](int64_t i, std::byte*) {
    const T* x = static_cast<const T*>(call.in[0]) + i * p.n * p.n;
    T* out = static_cast<T*>(call.out[0]) + i * p.n * p.n;
    for (int64_t row = 0; row < p.n; ++row) {
      std::copy(x + row * p.n, x + row * p.n + row + 1, out + row * p.n);
      std::fill(out + row * p.n + row + 1, out + (row + 1) * p.n, T(0));
    }
    int info = 0;
    if (n > 0) p.lapack<T>().potrf("U", &n, out, &n, &info, 1);
    return info;
  });
}

// The right sides by columns, and back.
template <class T>
const T* columns_of(T* work, const T* b, int64_t n, int64_t k) {
  if (k == 1 || n == 1)
    std::copy(b, b + n * k, work);
  else
    transpose_into(work, b, n, k);
  return work;
}

template <class T>
bool run_solve(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  return each_matrix(p, kSingular[p.fault].fault, [&](int64_t i, std::byte* bytes) {
    if (n == 0 || k == 0) return 0;
    WorkParts work(bytes);
    T* a = work.take<T>(p.n * p.n);
    T* b = work.take<T>(p.n * p.k);
    int* pivots = work.take<int>(p.n);
    std::memcpy(a, static_cast<const T*>(call.in[0]) + i * p.n * p.n, bytes_of<T>(p.n * p.n));
    int info = 0;
    p.lapack<T>().getrf(&n, &n, a, &n, pivots, &info);
    if (info != 0) return info;
    columns_of(b, static_cast<const T*>(call.in[1]) + i * p.n * p.k, p.n, p.k);
    p.lapack<T>().getrs(p.transpose ? "N" : "T", &n, &k, a, &n, pivots, b, &n, &info, 1);
    columns_of(static_cast<T*>(call.out[0]) + i * p.n * p.k, b, p.k, p.n);
    return info;
  });
}

template <class T>
bool run_triangular(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  return each_matrix(
      p, {"a", "is singular: its diagonal has a zero"}, [&](int64_t i, std::byte* bytes) {
        if (n == 0 || k == 0) return 0;
        WorkParts work(bytes);
        T* b = work.take<T>(p.n * p.k);
        columns_of(b, static_cast<const T*>(call.in[1]) + i * p.n * p.k, p.n, p.k);
        int info = 0;
        p.lapack<T>().trtrs(p.lower ? "U" : "L", p.transpose ? "N" : "T", p.unit ? "U" : "N", &n,
                            &k, static_cast<const T*>(call.in[0]) + i * p.n * p.n, &n, b, &n, &info,
                            1, 1, 1);
        columns_of(static_cast<T*>(call.out[0]) + i * p.n * p.k, b, p.k, p.n);
        return info;
      });
}

// Factors of a copy of matrix i; whether a pivot is 0.
template <class T>
bool factor(const MatrixParams& p, const void* in, int64_t i, T* a, int* pivots) {
  const int n = static_cast<int>(p.n);
  int info = 0;
  std::memcpy(a, static_cast<const T*>(in) + i * p.n * p.n, bytes_of<T>(p.n * p.n));
  if (n > 0) p.lapack<T>().getrf(&n, &n, a, &n, pivots, &info);
  return info != 0;
}

bool is_odd(const int* pivots, int64_t n) {
  bool odd = false;
  for (int64_t i = 0; i < n; ++i) odd ^= pivots[i] != i + 1;
  return odd;
}

template <class T>
bool run_determinant(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_matrix(p, {}, [&](int64_t i, std::byte* bytes) {
    WorkParts work(bytes);
    T* a = work.take<T>(p.n * p.n);
    int* pivots = work.take<int>(p.n);
    T det(1);
    if (factor(p, call.in[0], i, a, pivots)) {
      det = T(0);
    } else {
      for (int64_t d = 0; d < p.n; ++d) det *= a[d * p.n + d];
      if (is_odd(pivots, p.n)) det = -det;
    }
    static_cast<T*>(call.out[0])[i] = det;
    return 0;
  });
}

template <class T>
bool run_log_determinant(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_matrix(p, {}, [&](int64_t i, std::byte* bytes) {
    WorkParts work(bytes);
    T* a = work.take<T>(p.n * p.n);
    int* pivots = work.take<int>(p.n);
    T sign(1);
    R log = 0;
    if (factor(p, call.in[0], i, a, pivots)) {
      sign = T(0);
      log = -std::numeric_limits<R>::infinity();
    } else {
      for (int64_t d = 0; d < p.n; ++d) {
        const R size = std::abs(a[d * p.n + d]);
        sign *= a[d * p.n + d] / size;
        log += std::log(size);
      }
      if (is_odd(pivots, p.n)) sign = -sign;
    }
    static_cast<T*>(call.out[0])[i] = sign;
    static_cast<R*>(call.out[1])[i] = log;
    return 0;
  });
}

template <class T>
void set(const PrepareCall& call, KernelFn run, const etude::internal::RefPtr<MatrixParams>& p,
         double flops) {
  p->routines = &lapack::routines<T>();
  p->us = 0.3 + flops * (lapack::kIsComplex<T> ? 4 : 1) / kFlopsPerUs;
  call.set(run, p);
}

// For loops of our own: as `set`, without a library. Vectors of float do twice as many.
template <class T>
void set_small(const PrepareCall& call, KernelFn run,
               const etude::internal::RefPtr<MatrixParams>& p, double flops) {
  p->us = 0.1 + flops * (sizeof(T) / 4.0) / (2 * kFlopsPerUs);
  call.set(run, p);
}
bool is_small(const MatrixParams& p) { return std::max(p.m, p.n) <= kSmallMatrix; }

// Work memory for a matrix, right sides and pivots.
template <class T>
int64_t square_work(const MatrixParams& p, int64_t right) {
  WorkParts work(nullptr);
  work.take<T>(p.n * p.n);
  work.take<T>(p.n * right);
  work.take<int>(p.n);
  return work.bytes();
}

double cube(int64_t n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

}  // namespace

void prepare_cholesky(const PrepareCall& call) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (!lapack::kIsComplex<T>) {
      if (is_small(*p)) {
        p->work_bytes = static_cast<int64_t>(sizeof(T)) * p->n * small_row(p->n);
        return set_small<T>(call, run_small_cholesky<T>, p, cube(p->n) / 3);
      }
    }
    set<T>(call, run_cholesky<T>, p, cube(p->n) / 3);
  });
}

void prepare_solve(const PrepareCall& call, bool transpose, std::string_view of) {
  auto p = lapack_params(call);
  const auto* known =
      std::find_if(std::begin(kSingular), std::end(kSingular), [&](auto& s) { return s.of == of; });
  ETUDE_REQUIRE(known != std::end(kSingular),
                "`of` is \"{}\", but must be solve, inv, matrix_power, gradient of slogdet or "
                "gradient of eig",
                of);
  p->fault = static_cast<std::size_t>(known - kSingular);
  p->k = call.shape(1)[call.shape(1).rank() - 1];
  p->transpose = transpose;
  const double flops = cube(p->n) + 2.0 * static_cast<double>(p->n * p->n * p->k);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (!lapack::kIsComplex<T>) {
      if (is_small(*p) && p->k <= kSmallMatrix) {
        p->work_bytes =
            static_cast<int64_t>(sizeof(T)) * p->n * (small_row(p->n) + small_row(p->k));
        return set_small<T>(call, run_small_solve<T>, p, flops);
      }
    }
    p->work_bytes = square_work<T>(*p, p->k);
    set<T>(call, run_solve<T>, p, flops);
  });
}

void prepare_triangular_solve(const PrepareCall& call, const Triangle& triangle) {
  auto p = lapack_params(call);
  p->k = call.shape(1)[call.shape(1).rank() - 1];
  p->lower = triangle.lower;
  p->transpose = triangle.transpose;
  p->unit = triangle.unit;
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    p->work_bytes = static_cast<int64_t>(sizeof(T)) * p->n * p->k + 64;
    set<T>(call, run_triangular<T>, p, static_cast<double>(p->n * p->n * p->k));
  });
}

void prepare_determinant(const PrepareCall& call) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    p->work_bytes = square_work<T>(*p, 0);
    set<T>(call, run_determinant<T>, p, cube(p->n));
  });
}

void prepare_log_determinant(const PrepareCall& call) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    p->work_bytes = square_work<T>(*p, 0);
    set<T>(call, run_log_determinant<T>, p, cube(p->n));
  });
}

// --- diagonals: any dtype, by the size of an element ---

namespace {

// The first element of diagonal `offset` in a matrix of n columns. An empty diagonal has none, and
// any offset.
int64_t diagonal_start(const MatrixParams& p) {
  if (p.k == 0) return 0;
  return p.offset >= 0 ? p.offset : -p.offset * p.n;
}

template <class T>
bool run_diagonal(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  for (int64_t i = 0; i < p.count; ++i) {
    const T* x = static_cast<const T*>(call.in[0]) + i * p.m * p.n + diagonal_start(p);
    T* y = static_cast<T*>(call.out[0]) + i * p.k;
    for (int64_t d = 0; d < p.k; ++d) y[d] = x[d * (p.n + 1)];
  }
  return true;
}

template <class T>
bool run_set_diagonal(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int64_t size = p.m * p.n;
  if (call.out[0] != call.in[0] && p.count * size > 0)
    std::memcpy(call.out[0], call.in[0], bytes_of<T>(p.count * size));
  for (int64_t i = 0; i < p.count; ++i) {
    const T* v = static_cast<const T*>(call.in[1]) + i * p.k;
    T* y = static_cast<T*>(call.out[0]) + i * size + diagonal_start(p);
    for (int64_t d = 0; d < p.k; ++d) y[d * (p.n + 1)] = v[d];
  }
  return true;
}

struct Pair {
  uint64_t a, b;
};

template <template <class> class Run>
void set_by_size(const PrepareCall& call, const etude::internal::RefPtr<MatrixParams>& p) {
  switch (itemsize(call.dtype(0))) {
    case 1:
      return call.set(Run<uint8_t>::run, p);
    case 2:
      return call.set(Run<uint16_t>::run, p);
    case 4:
      return call.set(Run<uint32_t>::run, p);
    case 8:
      return call.set(Run<uint64_t>::run, p);
    default:
      return call.set(Run<Pair>::run, p);
  }
}
template <class T>
struct Diagonal {
  static bool run(const KernelCall& call) { return run_diagonal<T>(call); }
};
template <class T>
struct SetDiagonal {
  static bool run(const KernelCall& call) { return run_set_diagonal<T>(call); }
};

}  // namespace

void prepare_diagonal(const PrepareCall& call, int64_t offset) {
  auto p = matrix_params(call);
  p->offset = offset;
  p->k = call.out.results[0]->shape()[call.out.results[0]->rank() - 1];
  set_by_size<Diagonal>(call, p);
}

void prepare_set_diagonal(const PrepareCall& call, int64_t offset) {
  auto p = matrix_params(call);
  p->offset = offset;
  p->k = call.shape(1)[call.shape(1).rank() - 1];
  set_by_size<SetDiagonal>(call, p);
  call.out.in_place = 1;
}

}  // namespace etude::kernels::cpu
