// SPDX-License-Identifier: Apache-2.0
// Requests from Etude to the compiler process (worker.h), as text. Both processes link this code.
// It includes no header of LLVM.
//
// A request is a line such as "object program 2 0 1\n", then the source. The line holds product,
// kind of source, tier, layout and instruction set. The source of a scalar program is a line such
// as "2 5 1\n", then to_string() of the program (base/scalars/scalar_program.h). This line holds
// the number of operands, a bit mask of the bool operands, and the number of parameters.
#pragma once

#include <string>
#include <string_view>

#include "etude/base/scalars/scalar_program.h"
#include "etude/codegen/compile.h"

namespace etude::codegen {

// kArm64Object is an object file for 64-bit Arm with vectors of 4 lanes. The other products are for
// this machine.
enum class Product { kObject, kIr, kOptimizedIr, kAssembly, kArm64Object };

struct Request {
  Product product = Product::kObject;
  std::string kind = "program";  // kind of the source: a row of a table in compiler_main.cc
  CompileOptions options = {.isa = internal::Isa::kPortable};
  std::string source;
};

std::string to_string(const Request& request);
// throws: kInvalidArgument for an invalid text.
Request read_request(std::string_view text);

// request_of() makes the request for a checked program (check_program.h). read_program() reads the
// program back from the source of the request. The returned program computes the same values from
// the same operands, but the order of its nodes may differ.
//
// throws: kInvalidArgument for an invalid text.
Request request_of(Product product, const scalar::Program& program, const CompileOptions& options);
scalar::Program read_program(std::string_view source);

// The name of the only function that an object file defines.
inline constexpr char kKernelName[] = "etude_kernel";
// The names of the functions of large_angles (math_table.h) in object files, one for each
// instruction set.
inline std::string sin_large_name(internal::Isa isa) {
  return "etude_sin_large_" + std::string(internal::name(isa));
}
inline std::string tan_large_name(internal::Isa isa) {
  return "etude_tan_large_" + std::string(internal::name(isa));
}

// Version, compiler and scalar functions, as text. Both processes must have the same text.
std::string build_text();

}  // namespace etude::codegen
