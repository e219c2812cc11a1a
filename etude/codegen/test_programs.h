// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: programs, operands, and the results of the precompiled kernels of
// the records.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/scalars/scalar_program.h"
#include "etude/codegen/compile.h"

namespace etude::codegen {

using Bytes = std::vector<std::byte>;

// The instruction sets that this machine, and ETUDE_ISA, allow.
std::vector<internal::Isa> isas();
// The name of the instruction set that parametrises a test.
std::string isa_of(const testing::TestParamInfo<internal::Isa>& info);

// Every function with a float32 kernel; without constants and operands.
std::vector<scalar::Fn> float_functions();

// fn(x1, ...): a program of one call.
scalar::Program program_of(scalar::Fn fn);

// Starts with y = x1 and computes y = fn(0.9 y) + x1 `times` times, so that each call depends on
// the previous call.
scalar::Program chain_of(scalar::Fn fn, int times);

// A program with at most `calls` calls, on four operands (the last is a bool) and two parameters.
// Signs of NaN, which depend on the order of operands, do not reach its result.
scalar::Program random_program(std::mt19937& random, int calls);

// Zeros, infinities, NaN, denormals, neighbours of points where functions change their formulas.
std::vector<float> special_values();
// `count` floats, some special, half of all exponents, half of moderate size.
std::vector<float> random_values(std::mt19937& random, std::size_t count);
// Operands of the program, `count` elements each: floats, or bytes 0 and 1.
std::vector<Bytes> random_operands(const scalar::Program& program, std::mt19937& random,
                                   std::size_t count);

std::vector<const void*> pointers(const std::vector<Bytes>& operands);
// Bytes of one element.
std::size_t element_bytes(bool is_bool);

// The result node by node, each computed by the precompiled kernel of the op of its function.
Bytes run_precompiled(const scalar::Program& program, internal::Isa isa,
                      const std::vector<Bytes>& operands, const std::vector<double>& params,
                      std::size_t count);
Bytes run_compiled(const scalar::Program& program, const CompileOptions& options,
                   const std::vector<Bytes>& operands, const std::vector<double>& params,
                   std::size_t count);

// The index of the first difference, or -1. All NaNs count as equal.
std::ptrdiff_t first_difference(const Bytes& a, const Bytes& b, bool is_bool);

}  // namespace etude::codegen
