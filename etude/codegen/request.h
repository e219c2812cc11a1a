// SPDX-License-Identifier: Apache-2.0
// Requests of Etude to the compiler, a separate process (worker.h), as text; both are linked with
// this. It needs no header of LLVM.
//
// "object program 2 0 1\n" and the source: product, kind of source, tier, layout and instruction
// set. The source of a scalar program is "2 5 1\n", the number of its operands, which of them are
// bools, and its number of parameters, followed by to_string() of it
// (base/scalars/scalar_program.h).
#pragma once

#include <string>
#include <string_view>

#include "etude/base/scalars/scalar_program.h"
#include "etude/codegen/compile.h"

namespace etude::codegen {

// kArm64Object: for 64-bit Arm, of 4 lanes; the others are for this machine.
enum class Product { kObject, kIr, kOptimizedIr, kAssembly, kArm64Object };

struct Request {
  Product product = Product::kObject;
  std::string kind = "program";  // of source: a row of the table in compiler_main.cc
  CompileOptions options = {.isa = internal::Isa::kPortable};
  std::string source;
};

std::string to_string(const Request& request);
// throws: kInvalidArgument for an invalid text.
Request read_request(std::string_view text);

// The request for a checked program (check_program.h), and the reverse, from its source: the same
// values of the same operands; the order of nodes may differ.
//
// throws: kInvalidArgument for an invalid text.
Request request_of(Product product, const scalar::Program& program, const CompileOptions& options);
scalar::Program read_program(std::string_view source);

// The name of the only function that an object file defines.
inline constexpr char kKernelName[] = "etude_kernel";
// The names in object files of the functions of large_angles (math_table.h), by instruction set.
inline std::string sin_large_name(internal::Isa isa) {
  return "etude_sin_large_" + std::string(internal::name(isa));
}
inline std::string tan_large_name(internal::Isa isa) {
  return "etude_tan_large_" + std::string(internal::name(isa));
}

// The facts on which both processes must agree, as text: version, compiler, scalar functions.
std::string build_text();

}  // namespace etude::codegen
