// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/compile_command.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "etude/aot/compile_model.h"
#include "etude/aot/header_text.h"
#include "etude/aot/state_file.h"
#include "etude/base/check.h"
#include "etude/files/atomic_file.h"
#include "etude/saved/saved.h"
#include "tools/etude/compile_saved.h"
#include "tools/etude/graph_command.h"
#include "tools/etude/option_words.h"
#include "tools/etude/saved_command.h"

namespace etude::tools {
namespace {

namespace fs = std::filesystem;

struct CompileOptions {
  std::string file, output, name, function, isa = "best", target = "host";
  std::vector<int64_t> sizes = {1};
  int64_t graph = 0;
  bool state_file = false, state_only = false;
};

void write(const fs::path& file, const std::string& text) {
  internal::AtomicFile out(file);
  out.write(text);
  out.commit();
}

SavedModels models_of(const CompileOptions& options) {
  if (saved::is_saved(options.file)) {
    return saved_models(options.file, options.function, options.graph, options.sizes,
                        options.state_file || options.state_only);
  }
  ETUDE_REQUIRE(
      options.sizes.size() == 1 && options.graph == 0 && !options.state_file && !options.state_only,
      "'{}' is no folder of saved functions: a graph has one size and no state. Leave "
      "--size, --graph, --state-file and --state-only out",
      options.file);
  SavedModels out;
  out.graphs.push_back(load_graph(options.file));
  return out;
}

// Before the graph is compiled. throws: if MODEL.o and its headers cannot be files of this name.
void require_output(const std::string& output) {
  std::error_code failed;
  const fs::path stem = output;
  const fs::path parent = stem.has_parent_path() ? stem.parent_path() : fs::path(".");
  ETUDE_REQUIRE(stem.has_filename() && stem.filename() != "." && stem.filename() != "..",
                "--output is '{}', which has no name of a file. Name a model: {}", output,
                (stem / "model").string());
  ETUDE_REQUIRE_CODE(kNotFound, fs::is_directory(parent, failed),
                     "--output is '{}', but '{}' is no folder. Make it first", output,
                     parent.string());
  const auto require_file = [&](const fs::path& file, bool folder_is_allowed) {
    const fs::file_status found = fs::status(file, failed);
    ETUDE_REQUIRE(!fs::exists(found) || fs::is_regular_file(found) ||
                      (folder_is_allowed && fs::is_directory(found)),
                  "--output is '{}', but '{}' exists and is no regular file. Choose another name",
                  output, file.string());
  };
  require_file(stem, true);
  for (const char* end : {".o", ".h", ".hpp", ".state"}) require_file(output + end, false);
}

void write_state(const std::string& file, const aot::State& state) {
  const std::string bytes = aot::state_file(state);
  write(file, bytes);
  fmt::print("{}: {} bytes, {} arrays\n", file, bytes.size(), state.size());
}

void compile(const CompileOptions& options) {
  require_output(options.output);
  const SavedModels models = models_of(options);
  const fs::path stem = options.output;
  if (options.state_only) return write_state(stem.string() + ".state", models.state);
  aot::HeaderFacts facts;
  facts.name = options.name.empty() ? stem.filename().string() : options.name;
  ETUDE_REQUIRE(!aot::is_taken_in_c(facts.name),
                "a model cannot be called '{}', which is a name of C or C++. Use --name",
                facts.name);
  facts.state = aot::state_facts(models.state);
  if (models.graphs.size() > 1) facts.sizes = options.sizes;
  const bool is_arm64 = options.target == "arm64";
  const aot::KernelArchives archives(is_arm64 ? aot::Machine::kArm64 : aot::Machine::kThis);
  aot::ModelCompiler compiler(archives);
  uint64_t scratch = 0;
  for (std::size_t i = 0; i < models.graphs.size(); ++i) {
    const std::string name =
        facts.sizes.empty() ? facts.name : fmt::format("{}_{}", facts.name, facts.sizes[i]);
    aot::ModelFacts& model = facts.models.emplace_back(compiler.add(name, *models.graphs[i]));
    for (std::size_t k = 0; k < models.outputs.size() && k < model.outputs.size(); ++k) {
      model.outputs[k].name = models.outputs[k];
    }
    scratch = std::max(scratch, model.scratch_bytes);
  }
  if (!facts.sizes.empty()) compiler.add_choice(facts.name);
  const std::string object = compiler.finish();
  write(stem.string() + ".o", object);
  write(stem.string() + ".h", aot::c_header(facts));
  write(stem.string() + ".hpp", aot::cpp_header(facts));
  fmt::print("{0}.o {0}.h {0}.hpp: {1} bytes, {2} inputs, {3} outputs, {4} bytes of scratch, {5}\n",
             stem.string(), object.size(), facts.models[0].inputs.size() - models.state.size(),
             facts.models[0].outputs.size(), scratch, internal::name(facts.models[0].isa));
  if (options.state_file) write_state(stem.string() + ".state", models.state);
}

}  // namespace

void add_compile_command(CLI::App& app) {
  const auto options = std::make_shared<CompileOptions>();
  CLI::App* command = app.add_subcommand(
      "compile", "a graph as an object file with a function in C, which needs no Etude to run");
  command
      ->add_option("FILE", options->file,
                   "a graph, as text or bytes, or a folder of saved functions")
      ->required();
  command->add_option("--function", options->function, "which function of a folder of several");
  add_graph_option(*command, options->graph);
  command
      ->add_option("--size", options->sizes,
                   "of a folder: the open sizes, such as the batch; several, 1,8,32, are one "
                   "function that takes the size")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1))
      ->default_str("1");
  CLI::Option* state_file = command->add_flag(
      "--state-file", options->state_file,
      "of a folder: writes the state to MODEL.state, which the function takes as an argument");
  command
      ->add_flag("--state-only", options->state_only,
                 "writes MODEL.state only: new weights for a function compiled with --state-file")
      ->excludes(state_file);
  command->add_option("-o,--output", options->output, "MODEL: writes MODEL.o, MODEL.h, MODEL.hpp")
      ->required();
  command->add_option("--name", options->name, "of the function; that of the file otherwise");
  command
      ->add_option("--isa", options->isa,
                   "the instruction set that is used: portable runs on any x86-64, best is that of "
                   "this machine")
      ->check(CLI::IsMember({"best", "portable", "avx2", "avx512"}))
      ->capture_default_str();
  command
      ->add_option("--target", options->target, "this kind of machine, or a 64-bit Arm with Linux")
      ->check(CLI::IsMember({"host", "arm64"}))
      ->capture_default_str();
  command->callback([options] {
    if (options->target == "arm64") {
      if (options->isa != "best" && options->isa != "portable") {
        throw CLI::ValidationError(fmt::format(
            "--isa {} is of x86-64, but --target arm64 has portable kernels only: leave "
            "--isa out",
            options->isa));
      }
      options->isa = "portable";
    }
    std::ranges::sort(options->sizes);
    if (std::ranges::adjacent_find(options->sizes) != options->sizes.end()) {
      throw CLI::ValidationError("--size names a size twice");
    }
    // Before a kernel is chosen: the setting is read once.
    if (options->isa != "best") ::setenv("ETUDE_ISA", options->isa.c_str(), 1);
    compile(*options);
  });
}

}  // namespace etude::tools
