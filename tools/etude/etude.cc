// SPDX-License-Identifier: Apache-2.0
// The command-line program `etude`: looks at op records, graphs and saved functions, runs them,
// profiles programs.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "etude/base/check.h"
#include "etude/core/op/registry.h"
#include "etude/version.h"
#include "tools/etude/compile_command.h"
#include "tools/etude/convert_command.h"
#include "tools/etude/diff_command.h"
#include "tools/etude/graph_command.h"
#include "tools/etude/inspect_command.h"
#include "tools/etude/kinds_command.h"
#include "tools/etude/option_words.h"
#include "tools/etude/run_op.h"
#include "tools/etude/saved_command.h"
#include "tools/etude/serve_command.h"
#include "tools/record_text.h"

namespace etude::tools {
namespace {

namespace fs = std::filesystem;

void list_ops(bool names_only) {
  for (const Op* op : Registry::global().ops()) {
    if (names_only)
      fmt::print("{}\n", op->full_name());
    else
      fmt::print("{:<32} {:<13} {}\n", op->full_name(), kind_name(op->def().kind), op->def().doc);
  }
}

void print_section(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  fmt::print("\n{}\n", title);
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

void show_op(const std::string& name) {
  const Op& op = Registry::global().at(name);
  fmt::print("{}\n{}: {}\n", signature(op), kind_name(op.def().kind), op.def().doc);
  print_section("operands", operand_lines(op));
  print_section("attributes", attr_lines(op));
  print_section("program, and tangents by operand", program_lines(op));
  print_section("its gradient keeps, by operand", residual_lines(op));
  if (!op.def().no_derivative.empty()) fmt::print("\nno derivative: {}\n", op.def().no_derivative);
  print_section("samples", sample_lines(op));
  print_section("errors", error_lines(op));
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  ETUDE_REQUIRE_CODE(kNotFound, in.good(), "{}: cannot be read. Is the path right?", file.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct RunOptions {
  std::string op, inputs, attrs = "{}", output, cases;
  bool gradient = false;
};

// No file: no tensors.
io::NamedTensors load_inputs(const fs::path& file) {
  return file.empty() ? io::NamedTensors{} : io::load_safetensors(file).tensors;
}

void run_one(const RunOptions& options) {
  ETUDE_REQUIRE(!options.op.empty(), "which op? etude ops run NAME --inputs FILE --output FILE");
  const io::NamedTensors inputs = load_inputs(options.inputs);
  const OpRun run{options.op, parse_json(options.attrs), "", options.gradient};
  io::save_safetensors(options.output, run_op(run, inputs));
}

template <class T>
T field(const Json& json, const char* key, T otherwise) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    ETUDE_THROW(kInvalidArgument, "the field '{}' of a case has the wrong kind", key);
  }
}

// One case: {"id": "a", "op": "add", "attrs": {}, "gradient": true}; its tensors are "a/x1", ...
// Its results go to `out` as "a/y", ... A failure is an entry of the report.
Json run_case(const Json& json, std::size_t index, const io::NamedTensors& inputs,
              io::NamedTensors& out) {
  Json report = {{"id", std::to_string(index)}};
  try {
    ETUDE_REQUIRE(json.is_object(),
                  "a case is an object with the fields id, op, attrs and gradient");
    const auto id = field<std::string>(json, "id", std::to_string(index));
    report["id"] = id;
    const OpRun run{field<std::string>(json, "op", ""), field<Json>(json, "attrs", Json::object()),
                    id + "/", field<bool>(json, "gradient", false)};
    report["op"] = run.op;
    Json results = Json::object();
    for (auto& [name, value] : run_op(run, inputs)) {
      results[name] = value.type()->to_string();
      out[id + "/" + name] = value;
    }
    report["results"] = std::move(results);
  } catch (const Error& error) {
    report["error"] = {{"code", std::string(to_string(error.code()))}, {"message", error.what()}};
  } catch (const std::exception& error) {
    report["error"] = {{"code", "internal"}, {"message", error.what()}};
  }
  return report;
}

// {"inputs": "all.safetensors", "cases": [...]}. The report goes to standard output, and with a
// folder as output, to results.json in it.
// throws: kInvalidArgument, after all that, if a case failed.
void run_cases(const RunOptions& options) {
  const Json file = parse_json(text_of(options.cases));
  ETUDE_REQUIRE(file.is_object() && file.contains("cases") && file["cases"].is_array(),
                "{}: write {{\"inputs\": FILE, \"cases\": [...]}}", options.cases);
  const auto named = field<std::string>(file, "inputs", options.inputs);
  const fs::path source =
      named.empty() ? fs::path() : fs::path(options.cases).parent_path() / named;
  const io::NamedTensors inputs = load_inputs(source);
  io::NamedTensors out;
  Json report = Json::array();
  for (std::size_t i = 0; i < file["cases"].size(); ++i)
    report.push_back(run_case(file["cases"][i], i, inputs, out));
  const std::string text = report.dump(2, ' ', false, Json::error_handler_t::replace);
  const bool folder = fs::is_directory(options.output);
  io::save_safetensors(
      folder ? fs::path(options.output) / "results.safetensors" : fs::path(options.output), out);
  if (folder)
    std::ofstream(fs::path(options.output) / "results.json") << text << "\n";
  else
    fmt::print("{}\n", text);
  const auto failed =
      std::ranges::count_if(report, [](const Json& entry) { return entry.contains("error"); });
  ETUDE_REQUIRE(failed == 0, "{}: {} of {} cases failed", options.cases, failed, report.size());
}

// Becomes the program, which then profiles itself.
void profile(const std::string& trace, std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv("ETUDE_PROFILE", trace.c_str(), 1);
  ::execvp(argv[0], argv.data());
  ETUDE_THROW(kNotFound, "profile: '{}' cannot be run: {}", command[0], std::strerror(errno));
}

struct ProfileOptions {
  std::string trace = "profile.json";
  std::vector<std::string> command;
};

void add_profile_command(CLI::App& app, ProfileOptions& options) {
  CLI::App* sub = app.add_subcommand("profile", "runs a program and shows where its time goes");
  sub->add_option("--trace", options.trace, "file for the trace, which Perfetto opens")
      ->capture_default_str();
  sub->add_option("PROGRAM", options.command, "after --: the program and its arguments")
      ->required();
  sub->callback([&options] { profile(options.trace, options.command); });
}

void add_ops_commands(CLI::App& app, RunOptions& options, bool& names_only,
                      std::vector<std::string>& shown) {
  CLI::App* ops = app.add_subcommand("ops", "op records")->require_subcommand(1);
  CLI::App* list = ops->add_subcommand("list", "all ops, with kind and meaning");
  list->add_flag("--names", names_only, "names only");
  list->callback([&] { list_ops(names_only); });
  CLI::App* show = ops->add_subcommand("show", "the records of ops");
  show->add_option("NAME", shown)->required();
  show->callback([&] {
    for (const std::string& name : shown) {
      if (&name != &shown.front()) fmt::print("\n");
      show_op(name);
    }
  });
  CLI::App* run = ops->add_subcommand("run", "runs an op on tensors of a safetensors file");
  run->add_option("NAME", options.op, "the op");
  run->add_option("--inputs", options.inputs, "safetensors file with the operands by name");
  run->add_option("--attrs", options.attrs, "JSON object with the attributes");
  run->add_option("--output", options.output, "safetensors file, or a folder for --cases")
      ->required();
  run->add_option("--cases", options.cases, "JSON file with many runs");
  run->add_flag("--gradient", options.gradient, "also gradients, for cotangents ct/RESULT or ones");
  run->callback([&] { options.cases.empty() ? run_one(options) : run_cases(options); });
}

// The message for a missing or unknown command; "" if something else is wrong.
std::string missing_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path = "etude";
  int depth = 1;
  for (; !at->get_subcommands().empty(); ++depth) {
    at = at->get_subcommands()[0];
    path += " " + at->get_name();
  }
  std::vector<std::string> names;
  for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  if (names.empty()) return "";
  const std::string given =
      depth < argc ? fmt::format("'{}' is no command", argv[depth]) : "a command is missing";
  return fmt::format("{}: {}. There are: {}", path, given, fmt::join(names, ", "));
}

int output_fault = 0;  // the errno of a fault of standard output that ended the command

}  // namespace

int run_program(int argc, char** argv) {
  CLI::App app("Etude from the command line");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("etude {}", version()));
  RunOptions options;
  bool names_only = false;
  std::vector<std::string> shown;
  ProfileOptions profiled;
  add_ops_commands(app, options, names_only, shown);
  add_compile_command(app);
  add_convert_command(app);
  add_diff_command(app);
  add_graph_commands(app);
  add_inspect_command(app);
  add_kinds_command(app);
  add_profile_command(app, profiled);
  add_run_command(app);
  add_serve_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {  // a command that fails by its status
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == 0;
    const std::string text = is_help ? "" : missing_command(app, argc, argv);
    if (!text.empty()) {
      fmt::print(stderr, "{}\n", text);
      return error.get_exit_code();
    }
    std::ostringstream shown_text;  // not std::cout, which loses the reason of a fault
    const int status = app.exit(error, shown_text);
    fmt::print("{}", shown_text.str());
    return status != 0 && app.got_subcommand("diff") ? kDiffError : status;
  } catch (const std::exception& error) {
    // with_output() reports a fault of standard output.
    if (std::ferror(stdout) == 0) {
      fmt::print(stderr, "etude: {}\n", in_options(error.what()));
    } else if (const auto* fault = dynamic_cast<const std::system_error*>(&error)) {
      output_fault = fault->code().value();
    }
    return 1;
  }
  return 0;
}

// The status of the program, once its output is written.
int with_output(int status, int argc, char** argv) {
  errno = output_fault;
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written) return status;
  fmt::print(stderr, "etude: standard output: {}\n",
             errno != 0 ? std::strerror(errno) : "not all of it was written");
  return argc > 1 && std::string_view(argv[1]) == "diff" ? kDiffError : 1;
}

}  // namespace etude::tools

int main(int argc, char** argv) {
  return etude::tools::with_output(etude::tools::run_program(argc, argv), argc, argv);
}
