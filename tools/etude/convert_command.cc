// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/convert_command.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/atomic_file.h"
#include "etude/graph/text/print.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/loaded.h"
#include "etude/saved/saved.h"
#include "etude/stablehlo/stablehlo.h"
#include "tools/etude/convert_graphs.h"
#include "tools/etude/convert_weights.h"
#include "tools/etude/option_words.h"
#include "tools/etude/saved_command.h"
#include "tools/etude/stored.h"

namespace etude::tools {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string from, to, function, weights;
  onnx::SaveOptions save;
  bool fixed_sizes = false, into = false, partial = false, weights_as_arguments = false;
  std::vector<std::string> size_texts, shape_texts;
  std::map<std::string, int64_t> sizes;
  std::string constants;
  int64_t max_loop_steps = 0;
  std::vector<const CLI::Option*> of_some;  // options that some conversions have and others lack
};

int64_t size_number(std::string_view option, const std::string& text, std::string_view digits) {
  int64_t size = -1;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, size);
  ETUDE_REQUIRE(read.ec == std::errc() && read.ptr == end && size >= 0,
                "{} is '{}', but a size is a whole number from 0 to {}", option, text,
                std::numeric_limits<int64_t>::max());
  return size;
}

// "batch=8" as a name and a size.
std::pair<std::string, int64_t> size_of(const std::string& text) {
  const std::size_t at = text.rfind('=');
  ETUDE_REQUIRE(at != std::string::npos && at > 0 && at + 1 < text.size(),
                "--size is '{}', but a name and a size are needed, such as batch=8", text);
  return {text.substr(0, at), size_number("--size", text, std::string_view(text).substr(at + 1))};
}

// "x=?,3" as a name and a shape; "x=" is a scalar.
std::pair<std::string, Shape> shape_of(const std::string& text) {
  const std::size_t at = text.rfind('=');
  ETUDE_REQUIRE(at != std::string::npos && at > 0,
                "--shape is '{}', but a name and sizes are needed, such as x=?,3", text);
  std::vector<int64_t> sizes;
  for (std::size_t begin = at + 1, end = at; end < text.size() && at + 1 < text.size();) {
    end = std::min(text.find(',', begin), text.size());
    const std::string_view size = std::string_view(text).substr(begin, end - begin);
    sizes.push_back(size == "?" ? kAny : size_number("--shape", text, size));
    begin = end + 1;
  }
  return {text.substr(0, at), Shape(sizes)};
}

// The pairs of an option that names things. throws: for a name that occurs twice.
template <class F>
auto pairs_of(std::string_view option, const std::vector<std::string>& texts, const F& parse) {
  std::map<std::string, decltype(parse(std::string()).second)> out;
  for (const std::string& text : texts) {
    auto [name, value] = parse(text);
    const bool is_new = out.emplace(name, std::move(value)).second;
    ETUDE_REQUIRE(is_new, "{} is '{}', but '{}' occurs twice. Give each name once", option, text,
                  name);
  }
  return out;
}

// The function that a form of one function holds.
saved::Function function_of(const saved::Program& program, const ConvertOptions& options) {
  const std::vector<std::string> names = program.functions();
  const std::string from = fmt::format("'{}'", options.from);
  return program.function(names[chosen_index(names, options.function, from)], CallSite{});
}

saved::internal::SourceOptions source_options(const saved::Program& program,
                                              const ConvertOptions& options, bool open_sizes) {
  return {.format = "a file of graphs",
          .function = function_of(program, options).name(),
          .graph = options.save.graph,
          .training = options.save.training,
          .open_sizes = open_sizes,
          .sizes = options.sizes};
}

saved::internal::Source source_of(const saved::Program& program, const ConvertOptions& options,
                                  bool open_sizes) {
  return saved::internal::source_of(saved::internal::ProgramAccess::content_of(program), "",
                                    source_options(program, options, open_sizes));
}

// ", with n=8": the sizes that were chosen for a form that has fixed sizes.
std::string sizes_text(const saved::Program& program, const ConvertOptions& options) {
  const auto sizes =
      saved::internal::fixed_sizes(saved::internal::ProgramAccess::content_of(program), "",
                                   source_options(program, options, false));
  std::vector<std::string> out;
  for (const auto& [name, size] : sizes) out.push_back(fmt::format("{}={}", name, size));
  return out.empty() ? "" : fmt::format(", with {}", fmt::join(out, ", "));
}

void write_file(const std::string& to, std::string_view content) {
  internal::AtomicFile out(to);
  out.write(content);
  out.commit();
}

std::string to_folder(const saved::Program& program, const ConvertOptions& options) {
  saved::save(options.to, program, CallSite{});
  return "";
}

std::string to_onnx(const saved::Program& program, const ConvertOptions& options) {
  onnx::SaveOptions save = options.save;
  save.open_sizes = !options.fixed_sizes;
  onnx::save(options.to, function_of(program, options), save, CallSite{});
  return options.fixed_sizes ? sizes_text(program, options) : "";
}

std::string to_stablehlo(const saved::Program& program, const ConvertOptions& options) {
  stablehlo::save(options.to, function_of(program, options),
                  {.graph = options.save.graph,
                   .training = options.save.training,
                   .sizes = options.sizes,
                   .weights_as_arguments = options.weights_as_arguments},
                  CallSite{});
  return sizes_text(program, options);
}

std::string to_tensors(const saved::Program& program, const ConvertOptions& options) {
  const io::NamedTensors state = state_of(program, options.function);
  ETUDE_REQUIRE(!state.empty(), "'{}' has no state, so there are no tensors to write",
                options.from);
  io::save_safetensors(options.to, state, {}, CallSite{});
  return "";
}

std::string to_graph_text(const saved::Program& program, const ConvertOptions& options) {
  write_file(options.to, to_text(*named_graph(source_of(program, options, false)).graph));
  return sizes_text(program, options);
}

std::string to_graph_bytes(const saved::Program& program, const ConvertOptions& options) {
  const bool open_sizes = !options.fixed_sizes && options.sizes.empty();
  write_file(options.to,
             to_binary(std::vector{named_graph(source_of(program, options, open_sizes))}));
  return open_sizes ? "" : sizes_text(program, options);
}

// The forms that a program is written in, by extension, with the options that writing takes. A
// writer returns the end of its line, after the bytes.
struct Form {
  std::string_view extension, words, options;
  std::string (*write)(const saved::Program& program, const ConvertOptions& options);
};
constexpr Form kForms[] = {
    {"", "a folder of saved functions", "", to_folder},
    {".onnx", "a model of ONNX", "--function --opset --graph --doc --training --fixed-sizes",
     to_onnx},
    {".mlir", "StableHLO as text", "--function --graph --training --size --weights-as-arguments",
     to_stablehlo},
    {".safetensors", "its state", "--function", to_tensors},
    {".txt", "a graph as text", "--function --graph --training --size", to_graph_text},
    {".etude", "a graph as bytes", "--function --graph --training --size --fixed-sizes",
     to_graph_bytes},
};

std::string forms_text() {
  std::vector<std::string> out;
  for (const Form& form : kForms) {
    out.push_back(form.extension.empty() ? std::string(form.words)
                                         : fmt::format("FILE{}, {}", form.extension, form.words));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

// A folder may have a dot in its name.
std::string extension_of(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(path, failed) ? std::string() : fs::path(path).extension().string();
}
bool is_onnx(const std::string& path) { return extension_of(path) == ".onnx"; }

// Options that reading takes.
constexpr std::string_view kOfModel = "--function --size --shape --constants --max-loop-steps";
constexpr std::string_view kOfGraphs = "--function --weights --max-loop-steps";
constexpr std::string_view kOfInto = "--function --into --partial";

// `source` and `result` are words for FROM and TO.
// throws: for an option that is in neither list.
void require_taken(const ConvertOptions& options, std::string_view of_source,
                   std::string_view of_result, std::string_view source, std::string_view result) {
  const std::string taken = fmt::format(" {} {} ", of_source, of_result);
  for (const CLI::Option* option : options.of_some) {
    const std::string name = option->get_name();
    ETUDE_REQUIRE(option->count() == 0 || taken.find(fmt::format(" {} ", name)) != taken.npos,
                  "{} is no option for the conversion of '{}', which is {}, to {}. Leave it out",
                  name, options.from, source, result);
  }
}

// The sizes of a model are fixed when it is read; of other programs, when a graph is written.
saved::Program read_model(ConvertOptions& options) {
  onnx::LoadOptions load;
  if (!options.function.empty()) load.function = options.function;
  load.sizes = std::exchange(options.sizes, {});
  load.shapes = pairs_of("--shape", options.shape_texts, shape_of);
  if (!options.constants.empty()) {
    load.constants = io::load_safetensors(options.constants, CallSite{}).tensors;
  }
  load.max_loop_steps = options.max_loop_steps;
  return onnx::load(options.from, load, CallSite{});
}

// Tensors by name: of a file, of a checkpoint, or the state of functions. Not of a model of ONNX,
// which keeps the filters of convolutions with other axes: if all axes have equal sizes, nothing
// else would show it.
io::NamedTensors read_weights(const std::string& path, const std::string& function) {
  ETUDE_REQUIRE(
      !is_onnx(path),
      "'{0}' is a model of ONNX, whose filters of convolutions have their axes in another "
      "order, so its tensors are no weights of other functions. Convert the model to a "
      "folder instead: etude convert '{0}' FOLDER",
      path);
  Stored stored = read_stored(path);
  ETUDE_REQUIRE(
      stored.kind != StoredKind::kGraphs,
      "'{}' is {}, which has no tensors. Tensors are in a safetensors file, a checkpoint or "
      "a folder of saved functions",
      path, words_of(stored.kind));
  if (stored.kind == StoredKind::kFunctions) {
    return state_of(saved::internal::ProgramAccess::of(stored.loaded), function);
  }
  io::NamedTensors out;
  for (auto& [name, x] : stored.state) {
    if (x.value.has_value()) out.emplace(name, std::move(x.value));
  }
  return out;
}

void convert_into(const ConvertOptions& options) {
  require_taken(options, kOfInto, "", "a source of tensors", "the state of a folder");
  ETUDE_REQUIRE_CODE(kNotFound, saved::is_saved(options.to),
                     "--into: '{}' is no folder of saved functions. Name the folder that gets the "
                     "tensors",
                     options.to);
  const saved::Program program = saved::load(options.to, {}, CallSite{});
  set_state(program, options.function, read_weights(options.from, options.function),
            options.partial, fmt::format("'{}'", options.from), fmt::format("'{}'", options.to));
  saved::save(options.to, program, CallSite{});
  fmt::print("{}", program.to_string());
}

const Form& form_of(const ConvertOptions& options) {
  const std::string extension = extension_of(options.to);
  const auto* const found = std::ranges::find(kForms, extension, &Form::extension);
  ETUDE_REQUIRE(found != std::end(kForms),
                "'{}' has the extension '{}', which is no form of a function. '{}' converts to: {}",
                options.to, extension, options.from, forms_text());
  return *found;
}

void print_file(const std::string& file, const std::string& more) {
  fmt::print("{}: {} bytes{}\n", file, fs::file_size(file), more);
}

// A file of tensors or a checkpoint, which has no function.
void convert_tensors(const ConvertOptions& options, const Stored& stored) {
  ETUDE_REQUIRE(extension_of(options.to) == ".safetensors",
                "'{}' is {}, which has no function. It converts to: FILE.safetensors; with --into, "
                "the state of a folder of saved functions",
                options.from, words_of(stored.kind));
  require_taken(options, "", "", words_of(stored.kind), "a file of tensors");
  io::NamedTensors tensors;
  for (const auto& [name, x] : stored.state) {
    if (x.value.has_value()) tensors.emplace(name, x.value);
  }
  // Entries of a checkpoint describe the run, which a file of tensors is not.
  const bool is_file = stored.kind == StoredKind::kTensors;
  io::save_safetensors(options.to, tensors, is_file ? stored.metadata : io::Metadata{}, CallSite{});
  print_file(options.to, "");
}

// throws: for a form of one graph, where the function has graphs for several host values.
void require_one_graph(const saved::Program& program, const Form& form,
                       const ConvertOptions& options) {
  if (form.options.find("--graph") == form.options.npos || options.save.graph > 0) return;
  const std::string name = function_of(program, options).name();
  for (const auto& each : saved::internal::ProgramAccess::content_of(program).functions) {
    if (each.name != name) continue;
    require_one_host_value(each, options.save.training ? Phase::kTraining : Phase::kInference,
                           options.from);
  }
}

void write_program(const saved::Program& program, const Form& form, const ConvertOptions& options) {
  require_one_graph(program, form, options);
  const std::string more = form.write(program, options);
  if (form.write == to_folder) return fmt::print("{}", program.to_string());
  print_file(options.to, more);
}

void convert_model(ConvertOptions& options) {
  const Form& form = form_of(options);
  require_taken(options, kOfModel, form.options, "a model of ONNX", form.words);
  write_program(read_model(options), form, options);
}

// A graph with state, as it is: a file of graphs holds no state, so state stays an input.
// Returns false for other graphs and forms, which go through a program.
bool convert_graph(const ConvertOptions& options, const Form& form) {
  const bool is_text = form.write == to_graph_text;
  if ((!is_text && form.write != to_graph_bytes) || !options.weights.empty() ||
      options.save.graph > 1 || options.save.training) {
    return false;
  }
  NamedGraph graph = graph_of_file(options.from, options.function, options.max_loop_steps);
  if (!has_state(graph)) return false;
  std::map<std::string, int64_t> sizes;
  if (is_text || options.fixed_sizes || !options.sizes.empty()) {
    graph = at_sizes(std::move(graph), options.sizes, sizes);
  }
  write_file(options.to, is_text ? to_text(*graph.graph) : to_binary(std::vector{graph}));
  std::vector<std::string> texts;
  for (const auto& [name, size] : sizes) texts.push_back(fmt::format("{}={}", name, size));
  print_file(options.to, texts.empty() ? "" : fmt::format(", with {}", fmt::join(texts, ", ")));
  return true;
}

void convert_stored(ConvertOptions& options) {
  const Stored stored = read_stored(options.from);
  const bool is_graph = stored.kind == StoredKind::kGraphs;
  if (!is_graph && stored.kind != StoredKind::kFunctions) return convert_tensors(options, stored);
  const Form& form = form_of(options);
  require_taken(options, is_graph ? kOfGraphs : "", form.options, words_of(stored.kind),
                form.words);
  if (!is_graph) {
    return write_program(saved::internal::ProgramAccess::of(stored.loaded), form, options);
  }
  if (convert_graph(options, form)) return;
  io::NamedTensors weights;
  if (!options.weights.empty()) weights = read_weights(options.weights, "");
  const std::string weights_from = fmt::format("'{}'", options.weights);
  const saved::Program program = program_of_graphs(
      options.from, options.function, std::move(weights), weights_from, options.max_loop_steps);
  if (!options.function.empty()) options.function = program.functions()[0];
  write_program(program, form, options);
}

void convert(ConvertOptions options) {
  options.sizes = pairs_of("--size", options.size_texts, size_of);
  if (options.into) return convert_into(options);
  if (is_onnx(options.from)) {
    convert_model(options);
  } else {
    convert_stored(options);
  }
}

// Returns the options that it adds.
std::vector<const CLI::Option*> add_weight_options(CLI::App& command, ConvertOptions& options) {
  CLI::Option* into =
      command.add_flag("--into", options.into,
                       "TO is a folder of saved functions: sets its state to the tensors of FROM");
  return {into,
          command.add_flag("--partial", options.partial, "state without a tensor keeps its value")
              ->needs(into),
          command.add_option("--weights", options.weights,
                             "of a file of graphs: a safetensors file with the values of inputs, "
                             "which become state"),
          command.add_flag("--weights-as-arguments", options.weights_as_arguments,
                           "of StableHLO: weights are arguments of the module, not constants")};
}

}  // namespace

void add_convert_command(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "functions, graphs and weights in another form: FROM is read, TO is written");
  command
      ->add_option("FROM", options->from,
                   "a folder of saved::save(), FILE.onnx, a file of graphs, or FILE.safetensors")
      ->required();
  // Required by the callback, whose error calls it TO, as the usage does.
  command
      ->add_option("TO,--to", options->to,
                   "a folder or a file, whose extension is the form: " + forms_text())
      ->option_text("TEXT REQUIRED");
  options->of_some = add_weight_options(*command, *options);
  for (const CLI::Option* option :
       {command->add_option("--function", options->function,
                            "which function, if there are several; of a model: its name"),
        command->add_option("--opset", options->save.opset, "the version of ONNX's ops, 17 to 21")
            ->capture_default_str(),
        add_graph_option(*command, options->save.graph),
        command->add_option("--doc", options->save.doc, "a text for readers of the model"),
        command->add_flag("--training", options->save.training, "the graph of the training phase"),
        command->add_flag("--fixed-sizes", options->fixed_sizes,
                          "fixes open sizes, at those of the first call"),
        command
            ->add_option("--size", options->size_texts,
                         "fixes an open size, of a model or of the graph that is written: "
                         "batch=8; may be repeated")
            ->allow_extra_args(false),
        command
            ->add_option("--shape", options->shape_texts,
                         "of a model: the shape of an input that has none in the file, or fewer "
                         "open sizes: x=?,3; may be repeated")
            ->allow_extra_args(false),
        command->add_option("--constants", options->constants,
                            "of a model: a safetensors file with values for inputs, which become "
                            "constants"),
        command
            ->add_option("--max-loop-steps", options->max_loop_steps,
                         "of models and graphs: refuses loops with more steps")
            ->check(whole_number(0))}) {
    options->of_some.push_back(option);
  }
  command->callback([options] {
    if (options->to.empty()) throw CLI::RequiredError("TO");
    convert(*options);
  });
}

}  // namespace etude::tools
