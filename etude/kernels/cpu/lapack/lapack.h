// SPDX-License-Identifier: Apache-2.0
// The LAPACK routines that kernels call. Their library is loaded when the first call that needs it
// is prepared, so a program without decompositions does not load it. Only this folder knows the
// library. Callers split work over matrices with parallel_for; a routine runs on the calling
// thread.
#pragma once

#include <complex>
#include <cstddef>
#include <mutex>
#include <type_traits>

#include "etude/kernels/cpu/onednn/one_thread.h"

namespace etude::kernels::cpu::lapack {

template <class T>
struct RealOf {
  using Type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using Type = R;
};
template <class T>
using Real = typename RealOf<T>::Type;
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

// The routines for elements T = float, double or complex ones, with LAPACK's names and arguments.
// Matrices are column-major. The lengths of texts come last, as Fortran passes them.
template <class T>
struct Routines {
  using R = Real<T>;
  using N = const int*;   // a size
  using C = const char*;  // a choice, one letter
  using L = std::size_t;  // length of a choice: 1

  void (*potrf)(C uplo, N n, T* a, N lda, int* info, L);
  void (*getrf)(N m, N n, T* a, N lda, int* pivots, int* info);
  void (*getrs)(C trans, N n, N nrhs, const T* a, N lda, const int* pivots, T* b, N ldb, int* info,
                L);
  void (*trtrs)(C uplo, C trans, C diag, N n, N nrhs, const T* a, N lda, T* b, N ldb, int* info, L,
                L, L);
  void (*gelqf)(N m, N n, T* a, N lda, T* tau, T* work, N lwork, int* info);
  void (*orglq)(N m, N n, N k, T* a, N lda, const T* tau, T* work, N lwork, int* info);

  // `rwork` is used for complex elements only.
  void gesdd(char job, int m, int n, T* a, R* s, T* u, int ldu, T* vt, int ldvt, T* work, int lwork,
             R* rwork, int* iwork, int* info) const {
    if constexpr (kIsComplex<T>) {
      using F = void (*)(C, N, N, T*, N, R*, T*, N, T*, N, T*, N, R*, int*, int*, L);
      reinterpret_cast<F>(gesdd_)(&job, &m, &n, a, &m, s, u, &ldu, vt, &ldvt, work, &lwork, rwork,
                                  iwork, info, 1);
    } else {
      using F = void (*)(C, N, N, T*, N, R*, T*, N, T*, N, T*, N, int*, int*, L);
      reinterpret_cast<F>(gesdd_)(&job, &m, &n, a, &m, s, u, &ldu, vt, &ldvt, work, &lwork, iwork,
                                  info, 1);
    }
  }
  // lwork = -1 queries the sizes of work memory, which are written to the first element of each.
  void syevd(char job, char uplo, int n, T* a, R* w, T* work, int lwork, R* rwork, int lrwork,
             int* iwork, int liwork, int* info) const {
    if constexpr (kIsComplex<T>) {
      using F = void (*)(C, C, N, T*, N, R*, T*, N, R*, N, int*, N, int*, L, L);
      reinterpret_cast<F>(syevd_)(&job, &uplo, &n, a, &n, w, work, &lwork, rwork, &lrwork, iwork,
                                  &liwork, info, 1, 1);
    } else {
      using F = void (*)(C, C, N, T*, N, R*, T*, N, int*, N, int*, L, L);
      reinterpret_cast<F>(syevd_)(&job, &uplo, &n, a, &n, w, work, &lwork, iwork, &liwork, info, 1,
                                  1);
    }
  }

  // Right vectors alone. `values` is used for complex elements only; `real` has 2 n elements, for
  // real matrices the real parts of the values, then the imaginary parts.
  void geev(int n, T* a, std::complex<R>* values, R* real, T* vectors, T* work, int lwork,
            int* info) const {
    const char no = 'N', yes = 'V';
    const int one = 1;
    T none{};
    if constexpr (kIsComplex<T>) {
      using F = void (*)(C, C, N, T*, N, T*, T*, N, T*, N, T*, N, R*, int*, L, L);
      reinterpret_cast<F>(geev_)(&no, &yes, &n, a, &n, values, &none, &one, vectors, &n, work,
                                 &lwork, real, info, 1, 1);
    } else {
      using F = void (*)(C, C, N, T*, N, R*, R*, T*, N, T*, N, T*, N, int*, L, L);
      reinterpret_cast<F>(geev_)(&no, &yes, &n, a, &n, real, lwork < 0 ? real : real + n, &none,
                                 &one, vectors, &n, work, &lwork, info, 1, 1);
    }
  }

  void (*gesdd_)();
  void (*syevd_)();
  void (*geev_)();
};

// While alive, this thread may call routines, and they run on this thread only. If the library can
// serve only one thread at a time, other threads wait.
class Turn {
 public:
  // throws: kResourceExhausted if the library cannot have its work memory.
  Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

 private:
  onednn::OneThread one_;
  std::unique_lock<std::mutex> lock_;
};

// The first call loads the library.
// throws: kUnimplemented if there is none, with the package to install; kResourceExhausted if there
// is no memory to load it. threads: thread-safe.
template <class T>
const Routines<T>& routines();

}  // namespace etude::kernels::cpu::lapack
