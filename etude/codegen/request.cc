// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/request.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "etude/base/check.h"
#include "etude/base/scalars/check_program.h"
#include "etude/base/scalars/program_text.h"
#include "etude/version.h"

namespace etude::codegen {
namespace {

constexpr std::array<std::string_view, 5> kProducts = {"object", "ir", "optimized_ir", "assembly",
                                                       "arm64_object"};

// Words of one line; then the rest of a text.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  std::string_view word() {
    const std::size_t end = text_.find_first_of(" \n");
    ETUDE_REQUIRE(end != std::string_view::npos && end > 0,
                  "a request to the compiler ends within its line");
    const std::string_view out = text_.substr(0, end);
    is_over_ = text_[end] == '\n';
    text_.remove_prefix(end + 1);
    return out;
  }
  uint32_t number(uint32_t most) {
    const std::string_view digits = word();
    uint32_t out = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    ETUDE_REQUIRE(
        read.ec == std::errc() && read.ptr == digits.data() + digits.size() && out <= most,
        "a request to the compiler has '{}' where a number up to {} is needed", digits, most);
    return out;
  }
  std::string_view rest() const {
    ETUDE_REQUIRE(is_over_, "a request to the compiler has more words than are read");
    return text_;
  }

 private:
  std::string_view text_;
  bool is_over_ = false;
};

}  // namespace

std::string build_text() {
  return fmt::format("{} {} {}", ETUDE_VERSION, __VERSION__, std::size(scalar::kFnInfo));
}

std::string to_string(const Request& request) {
  return fmt::format("{} {} {} {} {}\n{}", kProducts[static_cast<std::size_t>(request.product)],
                     request.kind, static_cast<int>(request.options.tier),
                     static_cast<int>(request.options.layout),
                     static_cast<int>(request.options.isa), request.source);
}

Request read_request(std::string_view text) {
  Line line(text);
  Request out;
  const std::string_view product = line.word();
  const auto* const known = std::ranges::find(kProducts, product);
  ETUDE_REQUIRE(known != kProducts.end(), "the compiler does not make '{}'", product);
  out.product = static_cast<Product>(known - kProducts.begin());
  out.kind = line.word();
  const uint32_t tier = line.number(2);
  ETUDE_REQUIRE(tier > 0, "a request to the compiler is for tier 0");
  out.options.tier = static_cast<Tier>(tier);
  out.options.layout = static_cast<Layout>(line.number(1));
  out.options.isa = static_cast<internal::Isa>(line.number(2));
  out.source = line.rest();
  return out;
}

Request request_of(Product product, const scalar::Program& program, const CompileOptions& options) {
  return {
      product, "program", options,
      fmt::format("{} {} {}\n{}", program.operands, program.bools & ((1u << program.operands) - 1),
                  program.params, scalar::to_string(program))};
}

scalar::Program read_program(std::string_view source) {
  Line line(source);
  const uint32_t operands = line.number(8), bools = line.number(255);
  const uint32_t params = line.number(65535);
  const auto read = scalar::parse_program(line.rest());
  ETUDE_REQUIRE(read.has_value(), "the compiler received an invalid program: {}", line.rest());
  scalar::Program out = *read;
  ETUDE_REQUIRE(
      static_cast<int>(operands) >= out.operands && static_cast<int>(params) >= out.params,
      "the compiler was sent a program of {} operands and {} parameters that reads more: "
      "{}",
      operands, params, line.rest());
  out.operands = static_cast<int>(operands);
  out.params = static_cast<int>(params);
  out.bools = bools;
  out.is_bool = out.is_bool_node(out.size - 1);
  scalar::check_program(out, static_cast<int>(operands));
  return out;
}

}  // namespace etude::codegen
