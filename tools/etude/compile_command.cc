// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/compile_command.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "etude/aot/compile_model.h"
#include "etude/aot/header_text.h"
#include "etude/base/check.h"
#include "etude/files/atomic_file.h"
#include "etude/saved/saved.h"
#include "tools/etude/graph_command.h"
#include "tools/etude/saved_command.h"

namespace etude::tools {
namespace {

namespace fs = std::filesystem;

struct CompileOptions {
  std::string file, output, name, function, isa = "best", target = "host";
  int64_t size = 1;
};

void write(const fs::path& file, const std::string& text) {
  internal::AtomicFile out(file);
  out.write(text);
  out.commit();
}

GraphRef graph_of(const CompileOptions& options) {
  return saved::is_saved(options.file)
             ? load_saved_graph(options.file, options.function, options.size)
             : load_graph(options.file);
}

void compile(const CompileOptions& options) {
  const GraphRef graph = graph_of(options);
  const fs::path stem = options.output;
  const std::string name = options.name.empty() ? stem.filename().string() : options.name;
  const bool is_arm64 = options.target == "arm64";
  const aot::KernelArchives archives(is_arm64 ? aot::Machine::kArm64 : aot::Machine::kThis);
  aot::ModelCompiler compiler(archives);
  const aot::ModelFacts facts = compiler.add(name, *graph);
  const std::string object = compiler.finish();
  write(stem.string() + ".o", object);
  write(stem.string() + ".h", aot::c_header(facts));
  write(stem.string() + ".hpp", aot::cpp_header(facts));
  fmt::print("{0}.o {0}.h {0}.hpp: {1} bytes, {2} inputs, {3} outputs, {4} bytes of scratch, {5}\n",
             stem.string(), object.size(), facts.inputs.size(), facts.outputs.size(),
             facts.scratch_bytes, internal::name(facts.isa));
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
  command->add_option("--size", options->size, "of a folder: the open sizes, such as the batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
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
    // Before a kernel is chosen: the setting is read once.
    if (options->isa != "best") ::setenv("ETUDE_ISA", options->isa.c_str(), 1);
    compile(*options);
  });
}

}  // namespace etude::tools
