// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/convert_command.h"

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/saved.h"
#include "tools/etude/saved_command.h"

namespace etude::tools {
namespace {

struct ConvertOptions {
  std::string from, to, function;
  onnx::SaveOptions save;
  bool fixed_sizes = false;
  std::vector<std::string> sizes;
  int64_t max_loop_steps = 0;
  // Options of one direction: of models that are read, and of models that are written.
  std::vector<const CLI::Option*> of_read, of_written;
};

// throws: for an option that the other direction has.
void require_none_of(const std::vector<const CLI::Option*>& others, const std::string& from,
                     const char* direction) {
  for (const CLI::Option* option : others) {
    ETUDE_REQUIRE(option->count() == 0,
                  "{} is an option for the conversion {}, but '{}' is converted the other way. "
                  "Leave it out",
                  option->get_name(), direction, from);
  }
}

// "batch=8" as a name and a size.
std::pair<std::string, int64_t> size_of(const std::string& text) {
  const std::size_t at = text.rfind('=');
  int64_t size = -1;
  const char* const end = text.data() + text.size();
  const bool is_number = at != std::string::npos && at > 0 &&
                         std::from_chars(text.data() + at + 1, end, size).ptr == end && size >= 0;
  ETUDE_REQUIRE(is_number, "--size is '{}', but a name and a size are needed, such as batch=8",
                text);
  return {text.substr(0, at), size};
}

void convert_model(const ConvertOptions& options) {
  onnx::LoadOptions load;
  if (!options.function.empty()) load.function = options.function;
  for (const std::string& text : options.sizes) load.sizes.insert(size_of(text));
  load.max_loop_steps = options.max_loop_steps;
  const saved::Program program = onnx::load(options.from, load, CallSite{});
  saved::save(options.to, program, CallSite{});
  fmt::print("{}", program.to_string());
}

void convert(ConvertOptions options) {
  const std::filesystem::path from = options.from, to = options.to;
  if (from.extension() == ".onnx") {
    ETUDE_REQUIRE(to.extension().empty(),
                  "'{}' has the extension '{}', but models of ONNX convert to folders only",
                  options.to, to.extension().string());
    require_none_of(options.of_written, options.from, "of a folder to a model of ONNX");
    convert_model(options);
    return;
  }
  ETUDE_REQUIRE(to.extension() == ".onnx",
                "'{}' has the extension '{}', but saved functions convert to .onnx only",
                options.to, to.extension().string());
  require_none_of(options.of_read, options.from, "of a model of ONNX to a folder");
  options.save.open_sizes = !options.fixed_sizes;
  const saved::Program program = saved::load(options.from);
  onnx::save(to, chosen_function(program, options.function), options.save, CallSite{});
  fmt::print("{}: {} bytes\n", options.to, std::filesystem::file_size(to));
}

}  // namespace

void add_convert_command(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "writes a saved function as a model of ONNX, or a model as a saved function");
  command->add_option("FROM", options->from, "a folder of saved::save(), or FILE.onnx")->required();
  command->add_option("--to", options->to, "FILE.onnx, or a folder")->required();
  command->add_option("--function", options->function,
                      "which function, if there are several; of a model: its name");
  options->of_written = {
      command->add_option("--opset", options->save.opset, "the version of ONNX's ops, 17 to 21")
          ->capture_default_str(),
      command->add_option("--graph", options->save.graph,
                          "its number in `etude inspect --function`"),
      command->add_option("--doc", options->save.doc, "a text for readers of the model"),
      command->add_flag("--training", options->save.training, "the graph of the training phase"),
      command->add_flag("--fixed-sizes", options->fixed_sizes, "the sizes of the first call")};
  options->of_read = {command->add_option("--size", options->sizes,
                                          "of a model: fixes an open size, batch=8; may be "
                                          "repeated"),
                      command->add_option("--max-loop-steps", options->max_loop_steps,
                                          "of a model: refuses loops with more steps")};
  command->callback([options] { convert(*options); });
}

}  // namespace etude::tools
