// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/header_text.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"

namespace etude::aot {
namespace {

// Keywords of C and C++.
// clang-format off
constexpr std::string_view kKeywords[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char8_t", "char16_t", "char32_t", "class", "co_await",
    "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval",
    "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
    "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
    "register", "reinterpret_cast", "requires", "restrict", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof",
    "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq"};
// clang-format on
// Names of the headers that ours include, and macros of compilers and of common headers.
constexpr std::string_view kTaken[] = {
    "errno",  "linux",  "main",  "max_align_t", "nullptr_t", "offsetof", "ptrdiff_t",
    "size_t", "stderr", "stdin", "stdout",      "unix",      "EOF",      "NULL"};
// Names in the functions and classes of our headers.
constexpr std::string_view kOwn[] = {"inputs", "outputs", "scratch", "scratch_",
                                     "size",   "state",   "std"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Names of stdint.h: int8_t, uint_fast16_t, INT32_MAX, UINT8_C, SIZE_MAX.
bool is_of_stdint(std::string_view name) {
  const auto has = [&](const auto& starts, const auto& ends) {
    return std::ranges::any_of(starts, [&](auto start) { return name.starts_with(start); }) &&
           std::ranges::any_of(ends, [&](auto end) { return name.ends_with(end); });
  };
  constexpr std::string_view kTypes[] = {"int", "uint"}, kT[] = {"_t"};
  constexpr std::string_view kMacros[] = {"INT",    "UINT",  "SIZE_",      "PTRDIFF_",
                                          "WCHAR_", "WINT_", "SIG_ATOMIC_"};
  constexpr std::string_view kEnds[] = {"_MAX", "_MIN", "_C", "_WIDTH"};
  return has(kTypes, kT) || has(kMacros, kEnds);
}

// C reserves _Bool, __FILE__ and all such names.
bool is_reserved(std::string_view name) {
  return name.size() > 1 && name[0] == '_' &&
         (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z'));
}

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

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Unique names of arguments: characters that C does not allow in a name become _. The names of
// macros are unique, too, so x and X are one name.
class Names {
 public:
  explicit Names(const HeaderFacts& facts) : macros_(upper(facts.name) + "_") {
    reserve(facts.name);
    for (const ModelFacts& model : facts.models) reserve(model.name);
  }

  std::string add(const std::string& name) {
    std::string out;
    for (const char c : name) {
      out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    const bool is_bad = out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0 ||
                        is_taken_in_c(out) || is_one_of(kOwn, out) || functions_.contains(out) ||
                        out.starts_with(macros_) || out.starts_with("ETUDE_");
    if (is_bad) out = "x_" + out;
    const std::string stem = out;
    for (int n = 2; !used_.insert(upper(out)).second; ++n) out = fmt::format("{}_{}", stem, n);
    return out;
  }

 private:
  // A name of a model, which an argument gets a number for, and the names of its functions.
  void reserve(const std::string& model) {
    used_.insert(upper(model));
    for (const char* end : {"_run", "_error", "_state_fits", "_refuse_size"}) {
      functions_.insert(model + end);
    }
  }

  std::string macros_;  // their names begin with this
  std::set<std::string> used_, functions_;
};

// For comments: names come from files, and must not end a comment.
std::string in_comment(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool ends_comment = c == '/' && out.ends_with('*');
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == '\\';
    out += ends_comment || is_control ? ' ' : c;
  }
  return out;
}

struct Argument {
  std::string name, type, note;  // type: of an element, "const float" for an input
  const ModelFacts::Array* array;
};

struct Arguments {
  std::vector<Argument> inputs, outputs;
  // Both, for loops over all.
  std::vector<Argument> all() const {
    std::vector<Argument> out = inputs;
    out.insert(out.end(), outputs.begin(), outputs.end());
    return out;
  }
};
// Of a model of the header.
Arguments arguments(const HeaderFacts& header, const ModelFacts& facts) {
  const std::size_t state = header.state.arrays.size();
  Names names(header);
  const auto list = [&](std::string_view prefix, std::span<const ModelFacts::Array> arrays) {
    std::vector<Argument> out;
    for (const ModelFacts::Array& array : arrays) {
      const CType type = c_type(array.type->dtype());
      out.push_back({names.add(array.name), fmt::format("{}{}", prefix, type.name),
                     std::string(type.note), &array});
    }
    return out;
  };
  Arguments out;
  out.inputs = list("const ", std::span(facts.inputs).first(facts.inputs.size() - state));
  out.outputs = list("", facts.outputs);
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

constexpr char kCHead[] =
    R"(/* Graph '{graph}', compiled ahead of time by Etude for {isa}. Generated.
 *
{arrays} *
 * Arrays are dense, in the order of C, and of {big}_..._COUNT elements; what is written overlaps
 * with nothing that is read. Link with: cc main.c {name}.o -lm -lpthread
 * Calls on several threads at once need scratch memory of their own.
{notes} */
#ifndef ETUDE_MODEL_{big}_H
#define ETUDE_MODEL_{big}_H

#include <stddef.h>
#include <stdint.h>
{includes}
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

)";

constexpr char kCTail[] =
    R"(#ifdef __cplusplus
}
#endif

#endif
)";

// One model: its numbers, and its function.
constexpr char kCModel[] =
    R"({counts}#define {big}_SCRATCH_BYTES ((size_t){scratch}u)

/* An enum etude_status. The arrays in the order above{then_state}. */
int {name}_run(const void* const* inputs, void* const* outputs, void* scratch);

/* Why the latest call of this thread failed; "" if it did not. */
const char* {name}_error(void);

static inline int {name}({params}) {{
  const void* const inputs[] = {{{input_list}}};
  void* const outputs[] = {{{output_list}}};
  return {name}_run(inputs, outputs, scratch);
}}

)";

constexpr char kCState[] =
    R"(/* The state: the content of {name}.state, at an address that is a multiple of 64. At these offsets:
{list} */
#define {big}_STATE_BYTES ((size_t){bytes}u)

/* Whether a file of so many bytes has the state of this model: ETUDE_OK, or ETUDE_REFUSED. Ask once,
 * when the file was read; calls do not. */
static inline int {name}_state_fits(const void* state, size_t bytes) {{
  uint32_t layout = 0;
  if (state == 0) return ETUDE_NULL_POINTER;
  if (bytes != {big}_STATE_BYTES || memcmp(state, "{mark}", 8) != 0) return ETUDE_REFUSED;
  memcpy(&layout, (const unsigned char*)state + 8, sizeof(layout));
  return layout == {layout}u ? ETUDE_OK : ETUDE_REFUSED;
}}

)";

constexpr char kCSizes[] =
    R"(/* The most that a size needs. */
#define {big}_SCRATCH_BYTES ((size_t){scratch}u)

/* Why the latest call of this thread failed; "" if it did not. */
const char* {name}_error(void);
/* Sets the text of {name}_error(). Returns ETUDE_REFUSED. */
int {name}_refuse_size(long long size, const char* sizes);

/* Calls {name}_SIZE for one of the sizes {sizes}; ETUDE_REFUSED for another. */
static inline int {name}(int64_t size, {params}) {{
  switch (size) {{
{cases}    default:
      return {name}_refuse_size(size, "{sizes}");
  }}
}}

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
{calls}
 private:
  std::vector<std::byte> scratch_ = std::vector<std::byte>({big}_SCRATCH_BYTES);
}};

}}  // namespace {name}_model

#endif
)";

constexpr char kCppCall[] =
    R"(  // throws: std::runtime_error with the text of {name}_error().
  void operator()({params}) {{
    if (::{name}({pointers}) != ETUDE_OK) throw std::runtime_error(::{name}_error());
  }}
)";

// Sizes are known only at the call.
constexpr char kCppSizes[] =
    R"(  // throws: std::invalid_argument for a size that is none of {sizes}, and for spans of other
  //         numbers of elements; std::runtime_error with the text of {name}_SIZE_error().
  void operator()(std::int64_t size, {params}) {{
    switch (size) {{
{cases}      default:
        throw std::invalid_argument("{name} was compiled for the sizes {sizes}");
    }}
  }}
)";

// C has no arrays without elements.
std::string array(const std::vector<std::string>& list) {
  return list.empty() ? std::string("0") : join(list);
}

// The parameters of the function for one size, without the scratch memory.
std::vector<std::string> c_parameters(const Arguments& args, bool has_state) {
  std::vector<std::string> out;
  for (const Argument& each : args.all())
    out.push_back(fmt::format("{}* {}", each.type, each.name));
  if (has_state) out.emplace_back("const void* state");
  return out;
}
std::vector<std::string> c_arguments(const Arguments& args, bool has_state) {
  std::vector<std::string> out;
  for (const Argument& each : args.all()) out.push_back(each.name);
  if (has_state) out.emplace_back("state");
  return out;
}

std::string c_model(const HeaderFacts& facts, const ModelFacts& model) {
  const StateFacts& state = facts.state;
  const Arguments args = arguments(facts, model);
  const std::string big = upper(model.name);
  std::string counts;
  for (const Argument& each : args.all()) {
    counts +=
        fmt::format("#define {}_{}_COUNT {}\n", big, upper(each.name), count_in_c(*each.array));
  }
  std::vector<std::string> params = c_parameters(args, !state.arrays.empty()), inputs, outputs;
  params.emplace_back("void* scratch");
  for (const Argument& each : args.inputs) inputs.push_back(each.name);
  for (const Argument& each : args.outputs) outputs.push_back(each.name);
  for (const StateFacts::Array& each : state.arrays) {
    inputs.push_back(fmt::format("state ? (const unsigned char*)state + {} : 0", each.offset));
  }
  return fmt::format(
      fmt::runtime(kCModel), fmt::arg("counts", counts), fmt::arg("big", big),
      fmt::arg("scratch", model.scratch_bytes), fmt::arg("name", model.name),
      fmt::arg("then_state", state.arrays.empty() ? "" : ", then those of the state"),
      fmt::arg("params", join(params)), fmt::arg("input_list", array(inputs)),
      fmt::arg("output_list", array(outputs)));
}

std::string c_state(const std::string& name, const StateFacts& state) {
  std::string list;
  for (const StateFacts::Array& each : state.arrays) {
    list += fmt::format(" *   {:>8} {}: {}\n", each.offset, in_comment(each.path),
                        each.type->to_string());
  }
  return fmt::format(fmt::runtime(kCState), fmt::arg("name", name), fmt::arg("big", upper(name)),
                     fmt::arg("list", list), fmt::arg("bytes", state.bytes),
                     fmt::arg("layout", state.layout), fmt::arg("mark", kStateMark));
}

uint64_t most_scratch(const HeaderFacts& facts) {
  uint64_t most = 0;
  for (const ModelFacts& model : facts.models) most = std::max(most, model.scratch_bytes);
  return most;
}

std::string c_sizes(const HeaderFacts& facts) {
  const bool has_state = !facts.state.arrays.empty();
  const Arguments args = arguments(facts, facts.models[0]);
  std::vector<std::string> params = c_parameters(args, has_state);
  std::vector<std::string> passed = c_arguments(args, has_state);
  params.emplace_back("void* scratch");
  passed.emplace_back("scratch");
  std::string cases;
  for (std::size_t i = 0; i < facts.sizes.size(); ++i) {
    cases += fmt::format("    case {}:\n      return {}({});\n", facts.sizes[i],
                         facts.models[i].name, join(passed));
  }
  return fmt::format(fmt::runtime(kCSizes), fmt::arg("big", upper(facts.name)),
                     fmt::arg("scratch", most_scratch(facts)), fmt::arg("name", facts.name),
                     fmt::arg("sizes", fmt::format("{}", fmt::join(facts.sizes, ", "))),
                     fmt::arg("params", join(params)), fmt::arg("cases", cases));
}

std::string cpp_call(const HeaderFacts& facts) {
  const Arguments args = arguments(facts, facts.models[0]);
  std::vector<std::string> params, pointers;
  for (const Argument& each : args.all()) {
    params.push_back(
        fmt::format("std::span<{}, {}> {}", each.type, count_in_c(*each.array), each.name));
    pointers.push_back(each.name + ".data()");
  }
  if (!facts.state.arrays.empty()) {
    params.emplace_back("const void* state");
    pointers.emplace_back("state");
  }
  pointers.emplace_back("scratch_.data()");
  return fmt::format(fmt::runtime(kCppCall), fmt::arg("name", facts.name),
                     fmt::arg("params", join(params)), fmt::arg("pointers", join(pointers)));
}

std::string cpp_sizes(const HeaderFacts& facts) {
  std::string cases;
  std::vector<std::string> params;
  for (std::size_t i = 0; i < facts.sizes.size(); ++i) {
    const std::string& name = facts.models[i].name;
    const Arguments args = arguments(facts, facts.models[i]);
    std::vector<std::string> pointers, wrong;
    params.clear();
    for (const Argument& each : args.all()) {
      params.push_back(fmt::format("std::span<{}> {}", each.type, each.name));
      pointers.push_back(each.name + ".data()");
      wrong.push_back(fmt::format("{}.size() != {}", each.name, count_in_c(*each.array)));
    }
    if (!facts.state.arrays.empty()) {
      params.emplace_back("const void* state");
      pointers.emplace_back("state");
    }
    pointers.emplace_back("scratch_.data()");
    cases += fmt::format(
        "      case {0}:\n        if ({1}) {{\n          throw std::invalid_argument(\"{2}: the "
        "spans have other numbers of elements\");\n        }}\n        if (::{2}({3}) != ETUDE_OK) "
        "throw std::runtime_error(::{2}_error());\n        break;\n",
        facts.sizes[i], wrong.empty() ? "false" : fmt::format("{}", fmt::join(wrong, " || ")), name,
        join(pointers));
  }
  return fmt::format(fmt::runtime(kCppSizes), fmt::arg("name", facts.name),
                     fmt::arg("sizes", fmt::format("{}", fmt::join(facts.sizes, ", "))),
                     fmt::arg("params", join(params)), fmt::arg("cases", cases));
}

std::string array_lines(const HeaderFacts& facts) {
  std::string out;
  for (const ModelFacts& model : facts.models) {
    const Arguments args = arguments(facts, model);
    if (!facts.sizes.empty()) out += fmt::format(" * {}:\n", model.name);
    out += describe("input ", args.inputs) + describe("output", args.outputs);
  }
  return out;
}

}  // namespace

bool is_taken_in_c(std::string_view name) {
  return is_one_of(kKeywords, name) || is_one_of(kTaken, name) || is_of_stdint(name) ||
         is_reserved(name);
}

std::string c_header(const HeaderFacts& facts) {
  const bool has_state = !facts.state.arrays.empty();
  const std::string big = upper(facts.name);
  std::string out = fmt::format(
      fmt::runtime(kCHead), fmt::arg("graph", in_comment(facts.models[0].graph)),
      fmt::arg("isa", machine_text(facts.models[0])), fmt::arg("arrays", array_lines(facts)),
      fmt::arg("big", big), fmt::arg("name", facts.name),
      fmt::arg("notes", has_state ? " * The state may be used by several threads at once.\n" : ""),
      fmt::arg("includes", has_state ? "#include <string.h>\n" : ""));
  if (has_state) out += c_state(facts.name, facts.state);
  for (const ModelFacts& model : facts.models) out += c_model(facts, model);
  if (!facts.sizes.empty()) out += c_sizes(facts);
  return out + kCTail;
}

std::string cpp_header(const HeaderFacts& facts) {
  return fmt::format(fmt::runtime(kCppHeader), fmt::arg("graph", in_comment(facts.models[0].graph)),
                     fmt::arg("isa", machine_text(facts.models[0])), fmt::arg("name", facts.name),
                     fmt::arg("big", upper(facts.name)),
                     fmt::arg("calls", facts.sizes.empty() ? cpp_call(facts) : cpp_sizes(facts)));
}

}  // namespace etude::aot
