// SPDX-License-Identifier: Apache-2.0
// Derivatives of the determinant of a diagonal matrix, as polynomials. They need no division, so
// elements may be 0 or equal. Used by decompositions.cc, which reduces all matrices to that form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "etude/kernels/cpu/lapack/lapack.h"

namespace etude::kernels::cpu {

// The derivative of det(diag(s)) along matrices e_0 .. e_k is the sum, over distinct i_0 .. i_k and
// permutations p of 0 .. k, of
//
//   sign(p) (product of the other elements of s) prod_r e_r[i_r, i_p(r)].
//
// add() adds to out [n, n] the factors of the elements of e_0.
// cost: n^(k+1) (k+1)! (k + n).
template <class T>
struct DeterminantTerms {
  int64_t n = 0, slots = 0;  // slots: k + 1
  const lapack::Real<T>* s = nullptr;
  const T* along = nullptr;  // e_1 .. e_k, [k, n, n]
  T* out = nullptr;
  int64_t *chosen = nullptr, *order = nullptr;  // work memory, [slots] each

  void add(int64_t slot = 0) const {
    if (slot == slots) return add_permutations();
    for (int64_t i = 0; i < n; ++i) {
      if (is_chosen(i, slot)) continue;
      chosen[slot] = i;
      add(slot + 1);
    }
  }

 private:
  bool is_chosen(int64_t i, int64_t count) const {
    return std::find(chosen, chosen + count, i) != chosen + count;
  }
  bool is_odd() const {
    bool odd = false;
    for (int64_t i = 0; i < slots; ++i) {
      for (int64_t j = 0; j < i; ++j) odd ^= order[j] > order[i];
    }
    return odd;
  }
  void add_permutations() const {
    lapack::Real<T> others = 1;
    for (int64_t i = 0; i < n; ++i) {
      if (!is_chosen(i, slots)) others *= s[i];
    }
    if (others == 0) return;
    std::iota(order, order + slots, int64_t{0});
    do {
      T term(is_odd() ? -others : others);
      for (int64_t r = 1; r < slots; ++r) {
        term *= along[((r - 1) * n + chosen[r]) * n + chosen[order[r]]];
      }
      out[chosen[0] * n + chosen[order[0]]] += term;
    } while (std::next_permutation(order, order + slots));
  }
};

}  // namespace etude::kernels::cpu
