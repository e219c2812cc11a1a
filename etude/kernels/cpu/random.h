// SPDX-License-Identifier: Apache-2.0
// Kernels of random ops. Operand 0 is a key, uint64[2]: seed and stream of Philox-4x32-10. An
// element depends only on the key and its row-major index. Operand 0 may also hold several keys,
// uint64[k.., 2]. The result then begins with the axes k.., and each key fills the remaining axes
// with the numbers that it would draw alone.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Multiples of the unit of the dtype, in [0, 1).
void prepare_random_uniform(const PrepareCall& call);
// Mean 0 and standard deviation 1, by the Box-Muller method.
void prepare_random_normal(const PrepareCall& call);
// The same, truncated at two standard deviations, by the inverse of the distribution function.
void prepare_random_truncated_normal(const PrepareCall& call);
// Whole numbers in [low, high), attributes "low" and "high".
void prepare_random_integers(const PrepareCall& call);
// A key, uint64[2], for each integer of operand 1: row i is derived from the key and number i. With
// several keys, uint64[k.., 2], operand 1 begins with the axes k.., too.
void prepare_random_fold_in(const PrepareCall& call);
// The numbers 0 .. n - 1 in a random order, as int64.
void prepare_random_permutation(const PrepareCall& call);

}  // namespace etude::kernels::cpu
