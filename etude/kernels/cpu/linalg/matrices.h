// SPDX-License-Identifier: Apache-2.0
// Common parts of kernels on many matrices: sizes, the loop over the matrices with work memory, and
// the report of the first matrix that fails. Used by linalg.cc and decompositions.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <complex>
#include <limits>
#include <string>

#include "etude/base/internal/function_ref.h"
#include "etude/core/op/op.h"
#include "etude/kernels/cpu/lapack/lapack.h"

namespace etude::kernels::cpu {

struct MatrixParams : KernelParams {
  Shape leading;
  int64_t count = 1;               // of the matrices
  int64_t m = 0, n = 0, k = 0;     // operand 0: [m, n]; k right sides, or min(m, n)
  int64_t work_bytes = 0;          // for one matrix
  double us = 0;                   // for one matrix, roughly
  const void* routines = nullptr;  // of LAPACK; null if none is called
  // Options of the kernels.
  bool lower = true, transpose = false, unit = false;
  double rtol = -1;
  int64_t offset = 0;
  int64_t directions = 0;                     // matrices after operand 0
  std::size_t fault = 0;                      // number in the kernel's table of faults
  int work = 0, real_work = 0, int_work = 0;  // elements of LAPACK's work memory

  template <class T>
  const lapack::Routines<T>& lapack() const {
    return *static_cast<const lapack::Routines<T>*>(routines);
  }
};

// The sizes of operand 0 as matrices.
etude::internal::RefPtr<MatrixParams> matrix_params(const PrepareCall& call);
// The same for LAPACK routines. throws: kUnimplemented for sizes beyond int.
etude::internal::RefPtr<MatrixParams> lapack_params(const PrepareCall& call);

// Runs body(matrix, work) for each matrix, on several threads if that pays. A body returns a
// nonzero value if the computation of its matrix fails. The call then reports the first such
// matrix, "operand 'x': matrix 3 of the batch is singular", and returns false.
struct MatrixFault {
  const char* operand = "x";
  const char* what = "";
};
using MatrixBody = etude::internal::FunctionRef<int(int64_t, std::byte*)>;
// Wraps the sequence of matrices that one thread processes.
using AroundMatrices = void (*)(etude::internal::FunctionRef<void()>);
bool each_matrix(const MatrixParams& p, const MatrixFault& fault, MatrixBody body,
                 AroundMatrices around);
// Loops for bodies that call LAPACK.
inline bool each_matrix(const MatrixParams& p, const MatrixFault& fault, MatrixBody body) {
  return each_matrix(p, fault, body, [](etude::internal::FunctionRef<void()> matrices) {
    const lapack::Turn turn;
    matrices();
  });
}
// Loops for other bodies. Such kernels can be compiled ahead of time, since they need no other
// library.
inline bool each_small_matrix(const MatrixParams& p, const MatrixFault& fault, MatrixBody body) {
  return each_matrix(p, fault, body,
                     [](etude::internal::FunctionRef<void()> matrices) { matrices(); });
}

// Parts of work memory, each aligned to 64 bytes.
class WorkParts {
 public:
  explicit WorkParts(std::byte* base) : base_(base) {}
  template <class T>
  T* take(int64_t count) {
    // Without elements there is no memory: the pointer remains null, and no arithmetic is done on
    // it.
    T* out = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return out;
  }
  int64_t bytes() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

// Calls f.operator()<T>() for the dtype, which is float32, float64, complex64 or complex128.
template <class F>
void visit_matrix_dtype(DType dtype, const F& f) {
  switch (dtype) {
    case kFloat32:
      return f.template operator()<float>();
    case kComplex64:
      return f.template operator()<std::complex<float>>();
    case kComplex128:
      return f.template operator()<std::complex<double>>();
    default:
      return f.template operator()<double>();
  }
}

// The transpose of a row-major [rows, columns] matrix.
template <class T>
void transpose_into(T* to, const T* from, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t r1 = std::min(rows, r0 + kTile), c1 = std::min(columns, c0 + kTile);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

inline float conjugate(float x) { return x; }
inline double conjugate(double x) { return x; }
template <class R>
std::complex<R> conjugate(std::complex<R> x) {
  return std::conj(x);
}

}  // namespace etude::kernels::cpu
