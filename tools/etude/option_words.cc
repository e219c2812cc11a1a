// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/option_words.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "tools/etude/name_text.h"

namespace etude::tools {
namespace {

struct Words {
  std::string_view cpp, option;
};

// A row is tried where no earlier one fits.
constexpr Words kWords[] = {
    {"Set SaveOptions::opset to ", "Pass --opset "},
    {"Set SaveOptions::open_sizes to false: ", "Pass --fixed-sizes: "},
    {"Name one in SaveOptions::function", "Name one by --function"},
    {"or set SaveOptions::training", "or pass --training"},
    {"SaveOptions::sizes", "--size"},
    {"LoadOptions::sizes = {{\"", "--size \""},
    {"\", 8}}", "\"=8"},
    {"LoadOptions::sizes", "--size"},
    {"LoadOptions::shapes = {{\"", "--shape \""},
    {"\", {kAny, 3}}}", "\"=?,3"},
    {"LoadOptions::shapes", "--shape"},
    {"for these inputs of the model: LoadOptions::constants = {{\"",
     "for these inputs of the model in a file, by --constants FILE.safetensors: \""},
    {"that the condition depends on: LoadOptions::constants = {{\"",
     "that the condition depends on in a file, by --constants FILE.safetensors: \""},
    {"\", ...}, {\"", "\", \""},
    {"\", ...}}", "\""},
    {"LoadOptions::constants", "--constants"},
    {"LoadOptions::function", "--function"},
    {"(LoadOptions::max_loop_steps)", "(--max-loop-steps)"},
};

}  // namespace

std::string in_options(std::string_view message) {
  std::string out(message);
  for (const auto& [cpp, option] : kWords) {
    for (std::size_t at = out.find(cpp); at != std::string::npos;
         at = out.find(cpp, at + option.size())) {
      out.replace(at, cpp.size(), option);
    }
  }
  return out;
}

CLI::Validator whole_number(int64_t least) {
  return CLI::Validator(
      [least](std::string& text) {
        int64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number);
        if (read.ec == std::errc() && read.ptr == end && number >= least) return std::string();
        return fmt::format("'{}' is no whole number from {} to {}", shown(text), least,
                           std::numeric_limits<int64_t>::max());
      },
      "");
}

CLI::Validator number_from_0() {
  return CLI::Validator(
      [](std::string& text) {
        double number = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number);
        const bool is_number = read.ec == std::errc() && read.ptr == end;
        if (is_number && std::isfinite(number) && number >= 0) return std::string();
        return fmt::format("'{}' is no finite number of 0 or more, such as 1e-6", shown(text));
      },
      "");
}

}  // namespace etude::tools
