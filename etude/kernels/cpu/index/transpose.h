// SPDX-License-Identifier: Apache-2.0
// Transposes one matrix of four-byte elements, in squares that fit the registers. copy.h loops over
// the axes of a tensor and splits work over threads.
#pragma once

#include <cstdint>

#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu {

// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns; steps are in elements.
// Bits are copied unchanged. The two do not overlap. Runs on the calling thread.
void transpose_matrix(float* to, int64_t to_row, const float* from, int64_t from_row, int64_t rows,
                      int64_t columns);
// The same with the instruction set given, for tests. The machine must have it.
void transpose_matrix(internal::Isa isa, float* to, int64_t to_row, const float* from,
                      int64_t from_row, int64_t rows, int64_t columns);

}  // namespace etude::kernels::cpu
