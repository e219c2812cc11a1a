// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/header_text.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"

namespace etude::aot {
namespace {

constexpr std::string_view kKeywords[] = {
    "alignas", "and",    "asm",      "auto",     "bool",     "break",   "case",     "catch",
    "char",    "class",  "const",    "continue", "default",  "delete",  "do",       "double",
    "else",    "enum",   "explicit", "export",   "extern",   "false",   "float",    "for",
    "friend",  "goto",   "if",       "inline",   "int",      "long",    "mutable",  "namespace",
    "new",     "not",    "operator", "or",       "private",  "public",  "register", "return",
    "short",   "signed", "sizeof",   "static",   "struct",   "switch",  "template", "this",
    "throw",   "true",   "try",      "typedef",  "typename", "union",   "unsigned", "using",
    "virtual", "void",   "volatile", "while",    "xor",      "scratch", "inputs",   "outputs"};

// The type of an element in C. Half types are their bits; a complex number is two numbers.
struct CType {
  std::string_view name;
  std::string_view note = "";
  int64_t per_element = 1;
};
CType c_type(DType dtype) {
  if (dtype == kFloat32) return {"float"};
  if (dtype == kFloat64) return {"double"};
  if (dtype == kFloat16) return {"uint16_t", ", the bits of each number"};
  if (dtype == kBFloat16) return {"uint16_t", ", the upper half of the bits of a float"};
  if (dtype == kBool) return {"uint8_t", ", 0 or 1"};
  if (dtype == kInt8) return {"int8_t"};
  if (dtype == kInt16) return {"int16_t"};
  if (dtype == kInt32) return {"int32_t"};
  if (dtype == kInt64) return {"int64_t"};
  if (dtype == kUInt8) return {"uint8_t"};
  if (dtype == kUInt16) return {"uint16_t"};
  if (dtype == kUInt32) return {"uint32_t"};
  if (dtype == kUInt64) return {"uint64_t"};
  if (dtype == kComplex64) return {"float", ", real and imaginary parts by turns", 2};
  if (dtype == kComplex128) return {"double", ", real and imaginary parts by turns", 2};
  ETUDE_THROW(kUnimplemented, "an array of {} has no type in C", name(dtype));
}

int64_t count_in_c(const ModelFacts::Array& array) {
  return array.type->count() * c_type(array.type->dtype()).per_element;
}

// Unique names of arguments: characters that C does not allow in a name become _.
class Names {
 public:
  std::string add(const std::string& name) {
    std::string out;
    for (const char c : name) {
      out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    const bool is_bad = out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0 ||
                        std::ranges::find(kKeywords, out) != std::end(kKeywords);
    if (is_bad) out = "x_" + out;
    const std::string stem = out;
    for (int n = 2; !used_.insert(out).second; ++n) out = fmt::format("{}_{}", stem, n);
    return out;
  }

 private:
  std::set<std::string> used_;
};

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

struct Argument {
  std::string name, type, note;
  const ModelFacts::Array* array;
};

struct Arguments {
  std::vector<Argument> inputs, outputs;
};
Arguments arguments(const ModelFacts& facts) {
  Names names;
  names.add(facts.name);
  const auto list = [&](const std::vector<ModelFacts::Array>& arrays) {
    std::vector<Argument> out;
    for (const ModelFacts::Array& array : arrays) {
      const CType type = c_type(array.type->dtype());
      out.push_back(
          {names.add(array.name), std::string(type.name), std::string(type.note), &array});
    }
    return out;
  };
  Arguments out;
  out.inputs = list(facts.inputs);
  out.outputs = list(facts.outputs);
  return out;
}

std::string describe(std::string_view what, const std::vector<Argument>& list) {
  std::string out;
  for (const Argument& each : list) {
    out += fmt::format(" *   {} {}: {}{}\n", what, each.name, each.array->type->to_string(),
                       each.note);
  }
  return out;
}

std::string machine_text(const ModelFacts& facts) {
  const internal::Isa isa = facts.isa;
  if (facts.machine == Machine::kArm64) return "a 64-bit Arm";
  if (isa == internal::Isa::kAvx512) return "a processor with AVX-512";
  if (isa == internal::Isa::kAvx2) return "a processor with AVX2 and FMA";
  return "any processor of its kind";
}

std::string join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

constexpr char kCHeader[] =
    R"(/* Graph '{graph}', compiled ahead of time by Etude for {isa}. Generated.
 *
{inputs}{outputs} *
 * Arrays are dense, in the order of C, and of {big}_..._COUNT elements; what is written overlaps
 * with nothing that is read. Link with: cc main.c {name}.o -lm -lpthread
 * Calls on several threads at once need scratch memory of their own.
 */
#ifndef ETUDE_MODEL_{big}_H
#define ETUDE_MODEL_{big}_H

#include <stddef.h>
#include <stdint.h>

{counts}#define {big}_SCRATCH_BYTES ((size_t){scratch}u)

#ifndef ETUDE_STATUS
#define ETUDE_STATUS
enum etude_status {{
  ETUDE_OK = 0,
  ETUDE_NULL_POINTER = 1,  /* an array or the scratch memory is missing: nothing was done */
  ETUDE_PROCESSOR = 2,     /* this machine lacks an instruction set: nothing was done */
  ETUDE_REFUSED = 3,       /* the data is not what the graph takes, as an index that is outside */
  ETUDE_OUT_OF_MEMORY = 4, /* there was no work memory */
  ETUDE_INTERNAL = 5       /* a bug in Etude */
}};
#endif

#ifdef __cplusplus
extern "C" {{
#endif

/* An enum etude_status. The arrays in the order above. */
int {name}_run(const void* const* inputs, void* const* outputs, void* scratch);

/* Why the latest call of this thread failed; "" if it did not. */
const char* {name}_error(void);

static inline int {name}({params}) {{
  const void* const inputs[] = {{{input_list}}};
  void* const outputs[] = {{{output_list}}};
  return {name}_run(inputs, outputs, scratch);
}}

#ifdef __cplusplus
}}
#endif

#endif
)";

constexpr char kCppHeader[] =
    R"(// Graph '{graph}', compiled ahead of time by Etude for {isa}. Generated; see {name}.h.
#ifndef ETUDE_MODEL_{big}_HPP
#define ETUDE_MODEL_{big}_HPP

#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include "{name}.h"

namespace {name}_model {{

// Holds the scratch memory: one for each thread.
class Model {{
 public:
  // throws: std::runtime_error with what {name}_error() says.
  void operator()({params}) {{
    if (::{name}({pointers}) != ETUDE_OK) throw std::runtime_error(::{name}_error());
  }}

 private:
  std::vector<std::byte> scratch_ = std::vector<std::byte>({big}_SCRATCH_BYTES);
}};

}}  // namespace {name}_model

#endif
)";

}  // namespace

std::string c_header(const ModelFacts& facts) {
  const Arguments args = arguments(facts);
  const std::string& name = facts.name;
  const std::string big = upper(name);
  std::string counts;
  std::vector<std::string> params, inputs, outputs;
  for (const auto* list : {&args.inputs, &args.outputs}) {
    const bool is_input = list == &args.inputs;
    for (const Argument& each : *list) {
      counts +=
          fmt::format("#define {}_{}_COUNT {}\n", big, upper(each.name), count_in_c(*each.array));
      params.push_back(fmt::format("{}{}* {}", is_input ? "const " : "", each.type, each.name));
      (is_input ? inputs : outputs).push_back(each.name);
    }
  }
  params.emplace_back("void* scratch");
  // C has no arrays without elements.
  const auto array = [](const std::vector<std::string>& list) {
    return list.empty() ? std::string("0") : join(list);
  };
  return fmt::format(
      fmt::runtime(kCHeader), fmt::arg("graph", facts.graph), fmt::arg("isa", machine_text(facts)),
      fmt::arg("inputs", describe("input ", args.inputs)),
      fmt::arg("outputs", describe("output", args.outputs)), fmt::arg("big", big),
      fmt::arg("name", name), fmt::arg("counts", counts), fmt::arg("scratch", facts.scratch_bytes),
      fmt::arg("params", join(params)), fmt::arg("input_list", array(inputs)),
      fmt::arg("output_list", array(outputs)));
}

std::string cpp_header(const ModelFacts& facts) {
  const Arguments args = arguments(facts);
  std::vector<std::string> params, pointers;
  for (const auto* list : {&args.inputs, &args.outputs}) {
    for (const Argument& each : *list) {
      params.push_back(fmt::format("std::span<{}{}, {}> {}", list == &args.inputs ? "const " : "",
                                   each.type, count_in_c(*each.array), each.name));
      pointers.push_back(each.name + ".data()");
    }
  }
  pointers.emplace_back("scratch_.data()");
  return fmt::format(fmt::runtime(kCppHeader), fmt::arg("graph", facts.graph),
                     fmt::arg("isa", machine_text(facts)), fmt::arg("name", facts.name),
                     fmt::arg("big", upper(facts.name)), fmt::arg("params", join(params)),
                     fmt::arg("pointers", join(pointers)));
}

}  // namespace etude::aot
