// SPDX-License-Identifier: Apache-2.0
// Orthogonal factors, eigenvalues and singular values. LAPACK takes a row-major matrix as its
// transpose: x = q r is x^T = r^T q^T, which its LQ computes in place, and the two sides of a
// singular value decomposition are exchanged.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "etude/kernels/cpu/linalg/determinant_terms.h"
#include "etude/kernels/cpu/linalg/linalg.h"
#include "etude/kernels/cpu/linalg/matrices.h"
#include "etude/kernels/cpu/linalg/small_matrices.h"

namespace etude::kernels::cpu {
namespace {

using lapack::Real;

constexpr double kFlopsPerUs = 1000;
constexpr MatrixFault kNotFinite = {"x", "holds infinities or NaN, or takes too many steps"};

template <class T>
bool is_finite(const T* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(std::abs(x[i]))) return false;
  }
  return true;
}

template <class T>
int asked(T first) {
  return std::max(1, static_cast<int>(std::real(first)));
}

template <class T>
void set(const PrepareCall& call, KernelFn run, const etude::internal::RefPtr<MatrixParams>& p,
         double flops) {
  p->us = 1 + flops * (lapack::kIsComplex<T> ? 4 : 1) / kFlopsPerUs;
  call.set(run, p);
}

double flops_of(const MatrixParams& p) {
  return 4.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

// --- q and r ---

template <class T>
bool run_qr(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const int q_columns = p.lower ? m : k;  // `lower`: complete
  return each_matrix(p, {}, [&](int64_t i, std::byte* bytes) {
    WorkParts parts(bytes);
    T* q = parts.take<T>(p.m * std::max(p.m, p.n));  // by columns [n or m, m], as x^T and q^T
    T* tau = parts.take<T>(p.k);
    T* work = parts.take<T>(p.work);
    T* out = static_cast<T*>(call.out[0]) + i * p.m * q_columns;
    T* r = static_cast<T*>(call.out[1]) + i * q_columns * p.n;
    const T* x = static_cast<const T*>(call.in[0]) + i * p.m * p.n;
    if (m == 0) return 0;
    int info = 0;
    const int rows = std::max(n, q_columns);  // of q by columns
    for (int64_t row = 0; row < p.m; ++row)
      std::copy(x + row * p.n, x + (row + 1) * p.n, q + row * rows);
    if (n > 0) p.lapack<T>().gelqf(&n, &m, q, &rows, tau, work, &p.work, &info);
    for (int64_t row = 0; row < q_columns; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        r[row * p.n + column] = column >= row ? q[row * rows + column] : T(0);
      }
    }
    if (q_columns > 0) p.lapack<T>().orglq(&q_columns, &m, &k, q, &rows, tau, work, &p.work, &info);
    for (int64_t row = 0; row < p.m; ++row) {
      std::copy(q + row * rows, q + row * rows + q_columns, out + row * q_columns);
    }
    return info;
  });
}

template <class T>
bool run_small_qr(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const SmallQr size = {p.m, p.n, p.lower ? p.m : p.k};
  return each_small_matrix(p, {}, [&](int64_t i, std::byte* bytes) {
    small_math<T>().qr(static_cast<T*>(call.out[0]) + i * p.m * size.q_columns,
                       static_cast<T*>(call.out[1]) + i * size.q_columns * p.n,
                       static_cast<const T*>(call.in[0]) + i * p.m * p.n, size,
                       reinterpret_cast<T*>(bytes));
    return 0;
  });
}

// --- eigenvalues ---

template <class T, bool kVectors>
bool run_eigh(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int n = static_cast<int>(p.n);
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    if (n == 0) return 0;
    WorkParts parts(bytes);
    T* a = parts.take<T>(p.n * p.n);
    T* work = parts.take<T>(p.work);
    R* real_work = parts.take<R>(p.real_work);
    int* int_work = parts.take<int>(p.int_work);
    const T* x = static_cast<const T*>(call.in[0]) + i * p.n * p.n;
    for (int64_t row = 0; row < p.n; ++row) {
      if (!is_finite(x + row * p.n, row + 1)) return 1;
      std::copy(x + row * p.n, x + row * p.n + row + 1, a + row * p.n);
    }
    R* values = static_cast<R*>(call.out[0]) + i * p.n;
    int info = 0;
    p.lapack<T>().syevd(kVectors ? 'V' : 'N', 'U', n, a, values, work, p.work, real_work,
                        p.real_work, int_work, p.int_work, &info);
    if constexpr (kVectors) {
      T* out = static_cast<T*>(call.out[1]) + i * p.n * p.n;
      transpose_into(out, a, p.n, p.n);
      for (int64_t e = 0; lapack::kIsComplex<T> && e < p.n * p.n; ++e) out[e] = conjugate(out[e]);
    }
    return info;
  });
}

// The work memory of geev.
template <class T>
struct EigWork {
  EigWork(WorkParts& parts, const MatrixParams& p)
      : a(parts.take<T>(p.n * p.n)),
        vectors(parts.take<T>(p.n * p.n)),
        work(parts.take<T>(p.work)),
        real(parts.take<Real<T>>(2 * p.n)) {}
  T *a, *vectors, *work;
  Real<T>* real;
};

// Vectors of a real matrix as complex rows. A pair of conjugate values has its vectors as a real
// column and an imaginary one.
template <class R>
void unpack_vectors(std::complex<R>* out, const R* columns, const R* imaginary, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const R* real = columns + j * n;
    if (imaginary[j] == 0 || j + 1 == n) {
      for (int64_t row = 0; row < n; ++row) out[row * n + j] = real[row];
      continue;
    }
    for (int64_t row = 0; row < n; ++row) {
      const std::complex<R> element(real[row], real[n + row]);
      out[row * n + j] = element;
      out[row * n + j + 1] = std::conj(element);
    }
    ++j;
  }
}

template <class T>
bool run_eig(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int n = static_cast<int>(p.n);
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    if (n == 0) return 0;
    WorkParts parts(bytes);
    const EigWork<T> w(parts, p);
    const T* x = static_cast<const T*>(call.in[0]) + i * p.n * p.n;
    if (!is_finite(x, p.n * p.n)) return 1;
    transpose_into(w.a, x, p.n, p.n);
    auto* values = static_cast<std::complex<R>*>(call.out[0]) + i * p.n;
    auto* vectors = static_cast<std::complex<R>*>(call.out[1]) + i * p.n * p.n;
    int info = 0;
    p.lapack<T>().geev(n, w.a, values, w.real, w.vectors, w.work, p.work, &info);
    if (info != 0) return info;
    if constexpr (lapack::kIsComplex<T>) {
      transpose_into(vectors, w.vectors, p.n, p.n);
    } else {
      for (int64_t j = 0; j < p.n; ++j) values[j] = {w.real[j], w.real[p.n + j]};
      unpack_vectors(vectors, w.vectors, w.real + p.n, p.n);
    }
    return 0;
  });
}

// --- singular values ---

// The work memory of gesdd.
template <class T>
struct SvdWork {
  SvdWork(WorkParts& parts, const MatrixParams& p)
      : a(parts.take<T>(p.m * p.n)),
        work(parts.take<T>(p.work)),
        real_work(parts.take<Real<T>>(p.real_work)),
        int_work(parts.take<int>(8 * p.k)) {}
  T* a;
  T* work;
  Real<T>* real_work;
  int* int_work;
};

// u s vh of matrix i by rows; `job`: N, S or A. Not 0: it has none.
template <class T>
int svd_one(const MatrixParams& p, char job, const void* in, int64_t i, const SvdWork<T>& w, T* u,
            Real<T>* s, T* vh) {
  const T* x = static_cast<const T*>(in) + i * p.m * p.n;
  if (p.k == 0) return 0;
  if (!is_finite(x, p.m * p.n)) return 1;
  std::memcpy(w.a, x, static_cast<std::size_t>(p.m * p.n) * sizeof(T));
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  int info = 0;
  p.lapack<T>().gesdd(job, n, m, w.a, s, vh, std::max(n, 1), u, job == 'A' ? m : k, w.work, p.work,
                      w.real_work, w.int_work, &info);
  return info;
}

template <class T>
void fill_identity(T* x, int64_t n) {
  std::fill(x, x + n * n, T(0));
  for (int64_t i = 0; i < n; ++i) x[i * (n + 1)] = T(1);
}

template <class T, char kJob>
bool run_svd(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int64_t u_columns = kJob == 'A' ? p.m : p.k, v_rows = kJob == 'A' ? p.n : p.k;
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    WorkParts parts(bytes);
    const SvdWork<T> w(parts, p);
    if constexpr (kJob == 'N') {
      T none{};
      return svd_one<T>(p, 'N', call.in[0], i, w, &none, static_cast<R*>(call.out[0]) + i * p.k,
                        &none);
    } else {
      T* u = static_cast<T*>(call.out[0]) + i * p.m * u_columns;
      T* vh = static_cast<T*>(call.out[2]) + i * v_rows * p.n;
      if (p.k == 0 && kJob == 'A') {
        fill_identity(u, p.m);
        fill_identity(vh, p.n);
      }
      return svd_one<T>(p, kJob, call.in[0], i, w, u, static_cast<R*>(call.out[1]) + i * p.k, vh);
    }
  });
}

// The least singular value that is not taken for 0.
template <class R>
R cutoff(const MatrixParams& p, const R* s) {
  const double rtol = p.rtol >= 0 ? p.rtol
                                  : static_cast<double>(std::max(p.m, p.n)) *
                                        static_cast<double>(std::numeric_limits<R>::epsilon());
  return p.k > 0 ? static_cast<R>(rtol * static_cast<double>(s[0])) : R(0);
}

template <class T>
bool run_rank(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    WorkParts parts(bytes);
    const SvdWork<T> w(parts, p);
    R* s = parts.take<R>(p.k);
    T none{};
    const int info = svd_one<T>(p, 'N', call.in[0], i, w, &none, s, &none);
    const R least = cutoff(p, s);
    static_cast<int64_t*>(call.out[0])[i] =
        std::count_if(s, s + p.k, [&](R v) { return v > least; });
    return info;
  });
}

// out [columns of vh, rows of u] = vh^H diag(factors) u^H.
template <class T, class F>
void sandwich(const MatrixParams& p, const T* u, const T* vh, const F& factor, T* out) {
  std::fill(out, out + p.n * p.m, T(0));
  for (int64_t j = 0; j < p.k; ++j) {
    const T f = factor(j);
    for (int64_t c = 0; c < p.n; ++c) {
      const T left = conjugate(vh[j * p.n + c]) * f;
      for (int64_t r = 0; r < p.m; ++r) out[c * p.m + r] += left * conjugate(u[r * p.k + j]);
    }
  }
}

template <class T>
bool run_pinv(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    WorkParts parts(bytes);
    const SvdWork<T> w(parts, p);
    R* s = parts.take<R>(p.k);
    T* u = parts.take<T>(p.m * p.k);
    T* vh = parts.take<T>(p.k * p.n);
    const int info = svd_one<T>(p, 'S', call.in[0], i, w, u, s, vh);
    if (info != 0) return info;
    const R least = cutoff(p, s);
    sandwich(
        p, u, vh, [&](int64_t j) { return s[j] > least ? T(R(1) / s[j]) : T(0); },
        static_cast<T*>(call.out[0]) + i * p.n * p.m);
    return 0;
  });
}

// Of u s vh, the derivative of the determinant by x is det(u) det(vh) times the matrix whose
// singular values are the products of all others: right also where the determinant is 0.
template <class T>
T determinant(const MatrixParams& p, T* a, int* pivots) {
  const int n = static_cast<int>(p.n);
  int info = 0;
  p.lapack<T>().getrf(&n, &n, a, &n, pivots, &info);
  T det(1);
  for (int64_t d = 0; d < p.n; ++d)
    det *= pivots[d] != d + 1 ? -a[d * (p.n + 1)] : a[d * (p.n + 1)];
  return det;
}

// det(u) det(vh).
template <class T>
T phase_of(const MatrixParams& p, const SvdWork<T>& w, const T* u, const T* vh) {
  std::copy(u, u + p.n * p.n, w.a);
  const T left = determinant(p, w.a, w.int_work);
  std::copy(vh, vh + p.n * p.n, w.a);
  return left * determinant(p, w.a, w.int_work);
}

template <class T>
bool run_cofactor(const KernelCall& call) {
  using R = Real<T>;
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    WorkParts parts(bytes);
    const SvdWork<T> w(parts, p);
    R* s = parts.take<R>(p.k);
    T* u = parts.take<T>(p.n * p.n);
    T* vh = parts.take<T>(p.n * p.n);
    const int info = svd_one<T>(p, 'S', call.in[0], i, w, u, s, vh);
    if (info != 0 || p.n == 0) return info;
    T* inverse = parts.take<T>(p.n * p.n);
    const T phase = phase_of(p, w, u, vh);
    const auto others = [&](int64_t j) {
      R product = 1;
      for (int64_t k = 0; k < p.n; ++k) product *= k == j ? R(1) : s[k];
      return phase * product;
    };
    sandwich(p, u, vh, others, inverse);  // the transposed one
    transpose_into(static_cast<T*>(call.out[0]) + i * p.n * p.n, inverse, p.n, p.n);
    return 0;
  });
}

// The work memory of the derivative of cofactors, besides the decomposition.
template <class T>
struct CofactorWork {
  CofactorWork(WorkParts& parts, const MatrixParams& p)
      : s(parts.take<Real<T>>(p.n)),
        u(parts.take<T>(p.n * p.n)),
        vh(parts.take<T>(p.n * p.n)),
        half(parts.take<T>(p.n * p.n)),
        minors(parts.take<T>(p.n * p.n)),
        along(parts.take<T>(p.directions * p.n * p.n)),
        chosen(parts.take<int64_t>(p.directions + 1)),
        order(parts.take<int64_t>(p.directions + 1)) {}
  Real<T>* s;
  T *u, *vh, *half, *minors, *along;
  int64_t *chosen, *order;
};

// out [n, n] = x y, of elements x(i, k) and y(k, j).
template <class T, class X, class Y>
void fill_product(T* out, int64_t n, const X& x, const Y& y) {
  std::fill(out, out + n * n, T(0));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) {
      const T factor = x(i, k);
      for (int64_t j = 0; j < n; ++j) out[i * n + j] += factor * y(k, j);
    }
  }
}

// With x = u s vh, it derives det(u) det(vh) times the determinant of s + u^H e vh^H.
template <class T>
bool run_cofactor_along(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  const int64_t n = p.n, slots = p.directions + 1;
  return each_matrix(p, kNotFinite, [&](int64_t i, std::byte* bytes) {
    T* out = static_cast<T*>(call.out[0]) + i * n * n;
    std::fill(out, out + n * n, T(0));
    if (slots > n) return 0;
    WorkParts parts(bytes);
    const SvdWork<T> w(parts, p);
    const CofactorWork<T> c(parts, p);
    const int info = svd_one<T>(p, 'S', call.in[0], i, w, c.u, c.s, c.vh);
    if (info != 0) return info;
    const auto u = [&](int64_t a, int64_t b) { return conjugate(c.u[a * n + b]); };
    const auto vh = [&](int64_t a, int64_t b) { return conjugate(c.vh[a * n + b]); };
    const auto half = [&](int64_t a, int64_t b) { return c.half[a * n + b]; };
    for (int64_t d = 0; d < p.directions; ++d) {
      const T* e = static_cast<const T*>(call.in[static_cast<std::size_t>(d + 1)]) + i * n * n;
      fill_product(
          c.half, n, [&](int64_t a, int64_t b) { return u(b, a); },
          [&](int64_t a, int64_t b) { return e[a * n + b]; });
      fill_product(c.along + d * n * n, n, half, [&](int64_t a, int64_t b) { return vh(b, a); });
    }
    std::fill(c.minors, c.minors + n * n, T(0));
    DeterminantTerms<T>{n, slots, c.s, c.along, c.minors, c.chosen, c.order}.add();
    fill_product(c.half, n, u, [&](int64_t a, int64_t b) { return c.minors[a * n + b]; });
    fill_product(out, n, half, vh);
    const T phase = phase_of(p, w, c.u, c.vh);
    for (int64_t j = 0; j < n * n; ++j) out[j] *= phase;
    return 0;
  });
}

// Queries the work memory of gesdd, and adds the memory of a kernel of this dtype.
template <class T>
void plan_svd(MatrixParams& p, char job, int64_t more) {
  p.routines = &lapack::routines<T>();
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  if (k > 0) {
    T first{}, none{};
    Real<T> real{};
    int info = 0, ints = 0;
    p.lapack<T>().gesdd(job, n, m, &none, &real, &none, n, &none, job == 'A' ? m : k, &first, -1,
                        &real, &ints, &info);
    p.work = asked(first);
  }
  const int64_t wide = std::max(p.m, p.n);
  if (lapack::kIsComplex<T>) {
    p.real_work = static_cast<int>(p.k * std::max(5 * p.k + 7, 2 * wide + 2 * p.k + 1) + 1);
  }
  WorkParts parts(nullptr);
  SvdWork<T>(parts, p);
  parts.take<Real<T>>(p.k);
  p.work_bytes = parts.bytes() + (more * static_cast<int64_t>(sizeof(T)) + 192);
}

}  // namespace

void prepare_qr(const PrepareCall& call, bool complete) {
  auto p = lapack_params(call);
  p->lower = complete;
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (!lapack::kIsComplex<T>) {
      if (std::max(p->m, p->n) <= kSmallMatrix) {
        const SmallQr size = {p->m, p->n, complete ? p->m : p->k};
        p->work_bytes = static_cast<int64_t>(sizeof(T)) * small_qr_work(size);
        p->us = 0.2 + flops_of(*p) * sizeof(T) / 4e4;
        return call.set(run_small_qr<T>, p);
      }
    }
    p->routines = &lapack::routines<T>();
    const int m = static_cast<int>(p->m), n = static_cast<int>(p->n), k = static_cast<int>(p->k);
    const int q_columns = complete ? m : k, rows = std::max({n, q_columns, 1});
    T first{}, second{}, none{};
    int info = 0;
    const int ask = -1;
    if (k > 0) {
      p->lapack<T>().gelqf(&n, &m, &none, &rows, &none, &first, &ask, &info);
      p->lapack<T>().orglq(&q_columns, &m, &k, &none, &rows, &none, &second, &ask, &info);
    }
    p->work = std::max({asked(first), asked(second), m, n});
    WorkParts parts(nullptr);
    parts.take<T>(p->m * std::max(p->m, p->n));
    parts.take<T>(p->k);
    parts.take<T>(p->work);
    p->work_bytes = parts.bytes();
    set<T>(call, run_qr<T>, p, flops_of(*p));
  });
}

void prepare_eigh(const PrepareCall& call, bool vectors) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    p->routines = &lapack::routines<T>();
    const int n = std::max(1, static_cast<int>(p->n));
    T none{}, first{};
    Real<T> value{}, first_real{};
    int first_int = 0, info = 0;
    p->lapack<T>().syevd(vectors ? 'V' : 'N', 'U', n, &none, &value, &first, -1, &first_real, -1,
                         &first_int, -1, &info);
    p->work = asked(first);
    p->real_work = lapack::kIsComplex<T> ? asked(first_real) : 0;
    p->int_work = std::max(1, first_int);
    WorkParts parts(nullptr);
    parts.take<T>(p->n * p->n);
    parts.take<T>(p->work);
    parts.take<Real<T>>(p->real_work);
    parts.take<int>(p->int_work);
    p->work_bytes = parts.bytes();
    set<T>(call, vectors ? run_eigh<T, true> : run_eigh<T, false>, p, 2 * flops_of(*p));
  });
}

void prepare_eig(const PrepareCall& call) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    p->routines = &lapack::routines<T>();
    T none{}, first{};
    std::complex<Real<T>> value{};
    Real<T> real[2] = {};
    int info = 0;
    const int n = std::max(1, static_cast<int>(p->n));
    p->lapack<T>().geev(n, &none, &value, real, &none, &first, -1, &info);
    p->work = asked(first);
    WorkParts parts(nullptr);
    EigWork<T>(parts, *p);
    p->work_bytes = parts.bytes();
    set<T>(call, run_eig<T>, p, 6 * flops_of(*p));
  });
}

void prepare_svd(const PrepareCall& call, SvdResults results) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    const char job = results == SvdResults::kThin ? 'S' : results == SvdResults::kFull ? 'A' : 'N';
    plan_svd<T>(*p, job, 0);
    set<T>(call,
           job == 'S'   ? run_svd<T, 'S'>
           : job == 'A' ? run_svd<T, 'A'>
                        : run_svd<T, 'N'>,
           p, 4 * flops_of(*p));
  });
}

void prepare_pinv(const PrepareCall& call, double rtol) {
  auto p = lapack_params(call);
  p->rtol = rtol;
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    plan_svd<T>(*p, 'S', (p->m + p->n) * p->k);
    set<T>(call, run_pinv<T>, p, 5 * flops_of(*p));
  });
}

void prepare_rank(const PrepareCall& call, double rtol) {
  auto p = lapack_params(call);
  p->rtol = rtol;
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    plan_svd<T>(*p, 'N', 0);
    set<T>(call, run_rank<T>, p, 4 * flops_of(*p));
  });
}

void prepare_cofactor(const PrepareCall& call) {
  auto p = lapack_params(call);
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    plan_svd<T>(*p, 'S', 3 * p->n * p->n);
    set<T>(call, run_cofactor<T>, p, 5 * flops_of(*p));
  });
}

void prepare_cofactor_along(const PrepareCall& call) {
  auto p = lapack_params(call);
  p->directions = static_cast<int64_t>(call.types.size()) - 1;
  double terms = 1;
  for (int64_t slot = 1; slot <= p->directions + 1; ++slot) {
    terms *= static_cast<double>(p->n * slot);
  }
  visit_matrix_dtype(call.dtype(0), [&]<class T>() {
    plan_svd<T>(*p, 'S', 0);
    WorkParts parts(nullptr);
    CofactorWork<T>(parts, *p);
    p->work_bytes += parts.bytes();
    const double moves = 8.0 * static_cast<double>(p->n * p->n * p->n * (p->directions + 1));
    set<T>(call, run_cofactor_along<T>, p, 5 * flops_of(*p) + moves + 4 * terms);
  });
}

}  // namespace etude::kernels::cpu
