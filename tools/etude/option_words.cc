// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/option_words.h"

#include <cstddef>

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

}  // namespace etude::tools
