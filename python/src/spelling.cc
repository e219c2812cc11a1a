// SPDX-License-Identifier: Apache-2.0
#include "python/src/spelling.h"

#include <array>
#include <cctype>
#include <span>
#include <utility>

namespace etude::python {
namespace {

struct Spelling {
  std::string_view cpp, python;
};

// Expressions that the library proposes. A row is tried where no earlier one fits.
constexpr Spelling kExpressions[] = {
    // tapes and derivatives
    {"GradientTape tape({.persistent = true})", "GradientTape(persistent=True)"},
    {"vmap(f, {.randomness = \"different\"})", "vmap(f, randomness=\"different\")"},
    {"let the pullback take std::span<const Variable> last and return their gradients too",
     "let the pullback have a parameter `variables` and return their gradients too"},
    {"host_function(f, results, {.variables = {v}})", "host_function(f, results, variables=[v])"},
    {"Call the function without function(), or", "Call the function without @et.function, or"},
    {"the result does not depend on argument 0 (etude::Parts); its gradient is zero",
     "the result depends on no argument that is differentiated; the gradient is zero"},
    {"etude::Parts", "a structure"},
    {"GradientTape::explain", "tape.explain(target, source)"},
    {"of real(target) and of imag(target)", "of et.real(target) and of et.imag(target)"},
    {"Ask has_value() first", "Compare with None first"},
    // staged functions
    {"Instead of an `if` write cond(x, [&] { ... }, [&] { ... }), instead of a `while` write "
     "while_loop(); where() chooses without looking, and code in a host_function() sees elements. "
     "Or give the function the option run_eagerly",
     "Instead of an `if` write et.cond(x, then, otherwise), instead of a `while` write "
     "et.while_loop(condition, body, init); et.where() chooses without looking, and code in an "
     "@et.py_function sees elements. Or give the function the option run_eagerly=True"},
    {"explain({.all = true})", "explain(all=True)"},
    {"as reshape(x, {-1, 4}) and", "as reshape(x, (-1, 4)) and"},
    {"while_loop takes the option shapes = {{\"", "while_loop takes the option shapes={\""},
    {"\", {kAny}}}", "\": (None,)}"},
    {"(FunctionOptions::max_traces)", "(the option max_traces)"},
    {"function() inside a loop", "@et.function inside a loop"},
    {"in a std::optional<Variable> that the first call fills",
     "in an attribute or a global that the first call fills"},
    {"Give the function a parameter for it, by reference: [](Model& model, Optimizer& optimizer, "
     "...)",
     "Give the function parameters for both, and donate them: @et.function(donate=(\"model\", "
     "\"optimizer\"))"},
    {"Take a schedule of etude/optim/schedule.h, or do not stage the step",
     "Take a schedule of et.optim, such as et.optim.cosine, or do not stage the step"},
    {"a graph makes the result by the default constructor of its type and puts tensors into it, "
     "but "
     "it has {} tensors then, and {} results were declared. Return a tensor, a tuple, an array or "
     "a "
     "struct of tensors, or a std::vector<Tensor>",
     "the number of results is not the number that was declared"},
    {"or std::vector<Tensor>", "or a list of them"},
    // training
    {"Write `const PhaseScope training(Phase::kTraining);` in front of the step, or PhaseScope "
     "with "
     "Phase::kInference if this is meant",
     "Write `with et.PhaseScope(\"training\"):` around the step, or et.PhaseScope(\"inference\") "
     "if "
     "this is meant"},
    {"Pass it as .validation, or take Best::kLoss",
     "Pass it as validation=(inputs, labels), or take the loss of the training"},
    {"or .prolong = true with schedules", "or prolong=True with schedules"},
    {"Pass .epochs = ", "Pass epochs="},
    // values, devices, files
    {"a Variable without an initial value needs a dtype and a shape: Variable(Tensor(), {.dtype = "
     "kFloat32, .shape = Shape{2, 3}})",
     "a Variable without an initial value needs a dtype and a shape: et.Variable(None, "
     "dtype=et.float32, shape=(2, 3))"},
    {"declare the sizes that may change as kAny", "declare the sizes that may change as None"},
    {"to_vector", "tolist"},
    {"Use true or false, or astype the tensor", "Use True or False, or astype the tensor"},
    {"Set DeviceScopeOptions::soft to false for an error", "Pass soft=False for an error"},
    {"the device of a DeviceScope that is not soft", "the device of a scope that is not soft"},
    {"Set DeviceScopeOptions::soft, or open a DeviceScope of one of them",
     "Pass soft=True, or open a scope of one of them: with et.device(...)"},
    {"or copy = true", "or copy=True"},
    {"Leave out copy = false", "Leave out copy=False"},
    {"Pass copy = true", "Pass copy=True"},
    {"Pass strict=false to take the tensors that fit",
     "Load into a structure with the paths, shapes and dtypes of the file"},
    {"Pass header=false", "Pass header=False"},
    {"Pass key = random::key(seed)", "Pass key=et.random.key(seed)"},
    {"kinds::to_json: ", ""},
    {"kinds::from_json: ", ""},
    {"kinds::all() lists them", "dir(et.nn) and dir(et.optim) list them"},
    {"Give an object of kinds::make, or its name",
     "Give an object of et.nn or et.optim, or its name"},
    {"Make it by kinds::make", "Make it by a class of et.nn or et.optim"},
    {"LazyMetrics::programs() lists", "et.lazy_metrics() lists"},
    {"or raise LazyOptions::max_compiles", "or raise the option max_compiles"},
    {"an exception that is no std::exception", "an exception of C++ without a text"},
    {"an object that is no std::exception", "an exception of C++ without a text"},
    {"that is no callable of host_function()", "that is no callable of et.host_function"},
    // saved functions
    {"Save it as well: {\"name\", variable}, or the object that owns it",
     "Save it as well: {\"name\": variable}, or the object that owns it"},
    {"Save the function with {.custom_gradients = true}",
     "Save the function with custom_gradients=True"},
    {"(LoadOptions::max_loop_steps)", "(the option max_loop_steps)"},
    {"SaveOptions::signatures names", "the option signatures names"},
    {"return a tensor, a struct or a map of tensors",
     "return a tensor, or a dict, a named tuple or a dataclass of tensors"},
    // models of ONNX
    {"Set SaveOptions::opset to ", "Pass opset="},
    {"Set SaveOptions::open_sizes to false: ", "Pass open_sizes=False: "},
    {"SaveOptions::sizes", "the option sizes"},
    {"LoopOptions::max_iterations", "the option max_iterations"},
    {"Name one in SaveOptions::function", "Name one by the option name"},
    {"Call it in PhaseScope(Phase::kTraining) before",
     "Call it in et.PhaseScope(\"training\") before"},
    {"or set SaveOptions::training", "or pass training=True"},
    {"LoadOptions::sizes = {{\"", "sizes={\""},
    {"\", 8}}", "\": 8}"},
    {"LoadOptions::shapes = {{\"", "shapes={\""},
    {"\", {kAny, 3}}}", "\": (None, 3)}"},
    {"LoadOptions::constants = {{\"", "constants={\""},
    {"\", ...}, {\"", "\": ..., \""},
    {"\", ...}}", "\": ...}"},
    {"LoadOptions::sizes", "the option sizes"},
    {"LoadOptions::shapes", "the option shapes"},
    {"LoadOptions::constants", "the option constants"},
    {"LoadOptions::function", "the option function"},
    {": true)", ": True)"},
    {": true,", ": True,"},
    {": false)", ": False)"},
    {": false,", ": False,"},
    {"::update", ".update"},
    {"Loader::next", "Loader.next"},
    {"Loader::seek", "Loader.seek"},
    {"transpose_x=true", "transpose_x=True"},
    {"transpose_y=true", "transpose_y=True"},
    {"=true ", "=True "},
    {"=false ", "=False "},
    {" = true ", "=True "},
    {" = false ", "=False "},
};

// Expressions of comments of headers, which are the documentation of kinds.
constexpr Spelling kDocExpressions[] = {
    {"throws (construction): ", "Raises (construction): "},
    {"throws (call): ", "Raises (call): "},
    {"throws: ", "Raises: "},
    {"for RuleOptimizer::averaged", "for averaged() of an optimizer"},
    {"the scale of the loss, RuleOptimizer::loss_scale()", "the scale of the loss"},
    {", for Recurrent::run", ", for Recurrent"},
    {" (eager/profile.h)", ""},
    {"({784, 256, 10})", "([784, 256, 10])"},
    {"({2, 1})", "([2, 1])"},
    {"All cells throw the same errors.", "All cells raise the same errors."},
    {" (descent_rules.h)", ""},
    {"the errors of Profile::write_trace", "the errors of writing the trace"},
};

// Namespaces of the library are modules of the package.
constexpr std::array<std::string_view, 11> kModules = {
    "linalg", "random", "optim", "nn", "io", "data", "fft", "image", "saved", "onnx", "stablehlo"};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The module whose name ends in front of `at`; empty if there is none.
std::string_view module_before(std::string_view text, std::size_t at) {
  for (const std::string_view name : kModules) {
    if (at < name.size() || text.substr(at - name.size(), name.size()) != name) continue;
    if (at == name.size() || !is_word(text[at - name.size() - 1])) return name;
  }
  return {};
}

// Whether the "::" at `at` is in the title of an error, such as "Loader::next: ".
bool is_in_title(std::string_view text, std::size_t at) {
  std::size_t begin = at, end = at + 2;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  while (end < text.size() && is_word(text[end])) ++end;
  const bool is_class = begin < at && std::isupper(static_cast<unsigned char>(text[begin])) != 0;
  return is_class && end > at + 2 && text.substr(end, 2) == ": ";
}

// Names of the library without their namespace: "etude::nn::Dense" is nn::Dense.
void drop_namespace(std::string& text) {
  constexpr std::string_view kSpace = "etude::";
  for (std::size_t at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace, at)) {
    if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == ':')) {
      at += kSpace.size();
    } else {
      text.erase(at, kSpace.size());
    }
  }
}

// 0.5F is 0.5.
void drop_suffixes(std::string& text) {
  for (std::size_t at = text.find('F'); at != std::string::npos; at = text.find('F', at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    const bool has_point = begin < at && begin > 1 && text[begin - 1] == '.';
    const bool is_last = at + 1 == text.size() || !is_word(text[at + 1]);
    if (has_point && is_digit(text[begin - 2]) && is_last) text.erase(at--, 1);
  }
}

void replace_all(std::string& text, std::span<const Spelling> expressions) {
  for (const auto& [cpp, python] : expressions) {
    for (std::size_t at = text.find(cpp); at != std::string::npos;
         at = text.find(cpp, at + python.size())) {
      text.replace(at, cpp.size(), python);
    }
  }
}

// kInvalidArgument is InvalidArgumentError.
void name_errors(std::string& text) {
  for (std::size_t at = text.find('k'); at != std::string::npos; at = text.find('k', at + 1)) {
    const bool is_first = at == 0 || !is_word(text[at - 1]);
    if (!is_first || at + 1 == text.size() ||
        std::isupper(static_cast<unsigned char>(text[at + 1])) == 0) {
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && is_word(text[end])) ++end;
    text.insert(end, "Error");
    text.erase(at, 1);
  }
}

}  // namespace

std::string doc_in_python(std::string_view doc) {
  std::string out(doc);
  replace_all(out, kDocExpressions);
  name_errors(out);
  return in_python(out);
}

std::string in_python(std::string_view message) {
  std::string out(message);
  replace_all(out, kExpressions);
  drop_namespace(out);
  drop_suffixes(out);
  for (std::size_t at = out.find("::"); at != std::string::npos; at = out.find("::", at)) {
    const std::string_view name = module_before(out, at);
    if (name.empty()) {
      if (is_in_title(out, at)) {
        out.replace(at, 2, ".");
      } else {
        at += 2;
      }
      continue;
    }
    out.replace(at, 2, ".");
    out.insert(at - name.size(), "et.");
  }
  return out;
}

}  // namespace etude::python
