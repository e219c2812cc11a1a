// SPDX-License-Identifier: Apache-2.0
// What Etude asks of the compiler, which is a process of its own (worker.h), as text: both of them
// are linked with this. No header of LLVM is needed for it.
//
// "object program 2 0 1\n" and the source: what is wanted of it, what it is the text of, tier,
// layout and instruction set. Of a scalar program the source is "2 5 1\n", its operands, which of
// them are truths, and its parameters, and to_string() of it (base/scalars/scalar_program.h).
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
// throws: kInvalidArgument for another text.
Request read_request(std::string_view text);

// The request for a program that is checked (check_program.h), and the way back from its source:
// the same values of the same operands; nodes may come in another order.
//
// throws: kInvalidArgument for another text.
Request request_of(Product product, const scalar::Program& program, const CompileOptions& options);
scalar::Program read_program(std::string_view source);

// The name of the one function that an object file defines.
inline constexpr char kKernelName[] = "etude_kernel";
// The names in it of the functions of large_angles (math_table.h), by instruction set.
inline std::string sin_large_name(internal::Isa isa) {
  return "etude_sin_large_" + std::string(internal::name(isa));
}
inline std::string tan_large_name(internal::Isa isa) {
  return "etude_tan_large_" + std::string(internal::name(isa));
}

// What both processes have to agree on, as text: version, compiler, functions of scalars.
std::string build_text();

}  // namespace etude::codegen
