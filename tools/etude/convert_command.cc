// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/convert_command.h"

#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/saved.h"
#include "tools/etude/saved_command.h"

namespace etude::tools {
namespace {

struct ConvertOptions {
  std::string folder, to, function;
  onnx::SaveOptions save;
  bool fixed_sizes = false;
};

void convert(ConvertOptions options) {
  const std::filesystem::path to = options.to;
  ETUDE_REQUIRE(to.extension() == ".onnx",
                "'{}' has the extension '{}', but saved functions convert to .onnx only",
                options.to, to.extension().string());
  options.save.open_sizes = !options.fixed_sizes;
  const saved::Program program = saved::load(options.folder);
  onnx::save(to, chosen_function(program, options.function), options.save, CallSite{});
  fmt::print("{}: {} bytes\n", options.to, std::filesystem::file_size(to));
}

}  // namespace

void add_convert_command(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand("convert", "writes a saved function as a model of ONNX");
  command->add_option("FOLDER", options->folder, "as saved::save() writes it")->required();
  command->add_option("--to", options->to, "FILE.onnx")->required();
  command->add_option("--function", options->function, "which function, if there are several");
  command->add_option("--opset", options->save.opset, "the version of ONNX's ops, 17 to 21")
      ->capture_default_str();
  command->add_option("--graph", options->save.graph, "its number in `etude inspect --function`");
  command->add_option("--doc", options->save.doc, "a text for readers of the model");
  command->add_flag("--training", options->save.training, "the graph of the training phase");
  command->add_flag("--fixed-sizes", options->fixed_sizes, "the sizes of the first call");
  command->callback([options] { convert(*options); });
}

}  // namespace etude::tools
