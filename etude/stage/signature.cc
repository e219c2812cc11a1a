// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/signature.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/stage/function.h"
#include "etude/stage/generalise.h"
#include "etude/variables/open_shape.h"

namespace etude {
namespace {

// Large, highly divisible, and growing by different factors from point to point, so that no size is
// mistaken for another or for a size of a model.
constexpr std::array<std::array<int64_t, internal::kMadeUpPoints>, 6> kMadeUp = {
    {{840, 2520, 1260},
     {1320, 1980, 3960},
     {1560, 3120, 4680},
     {2040, 6120, 4080},
     {2280, 5700, 3420},
     {2760, 4140, 6900}}};

std::string type_text(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", name(dtype), shape.to_string());
}

std::string text_of(const Signature::Spec::Type& type) {
  if (const auto* tensor = std::get_if<TensorSpec>(&type)) {
    return type_text(tensor->dtype, tensor->shape);
  }
  const auto* variable = std::get_if<VariableSpec>(&type);
  return variable == nullptr ? "absent" : type_text(variable->dtype, variable->shape);
}

bool fits(const TensorSpec& spec, const Tensor& x) {
  return x.has_value() && x.dtype() == spec.dtype && internal::admits(spec.shape, x.shape());
}

}  // namespace

Signature::Spec::Spec(TensorSpec tensor) : type_(tensor) {}
Signature::Spec::Spec(VariableSpec variable) : type_(variable) {}
Signature::Spec::Spec(AbsentSpec absent) : type_(absent) {}
Signature::Spec::Spec(std::string name, TensorSpec tensor)
    : type_(tensor), name_(std::move(name)) {}

Signature::Signature(std::vector<Spec> specs, CallSite where) : specs_(std::move(specs)) {
  internal::located("signature", where, [&] {
    for (auto at = specs_.begin(); at != specs_.end(); ++at) {
      ETUDE_REQUIRE(at->name().empty() ||
                        std::ranges::find(specs_.begin(), at, at->name(), &Spec::name) == at,
                    "two specs of the signature {} have the name '{}'. Give one of them another",
                    to_string(), at->name());
    }
  });
}

std::vector<std::string> Signature::tensor_names() const {
  std::vector<std::string> out;
  for (const Spec& spec : specs_) {
    if (!std::holds_alternative<VariableSpec>(spec.type())) out.push_back(spec.name());
  }
  return out;
}

std::vector<TensorSpec> Signature::tensors() const {
  std::vector<TensorSpec> out;
  for (const Spec& spec : specs_) {
    if (std::holds_alternative<VariableSpec>(spec.type())) continue;
    const auto* tensor = std::get_if<TensorSpec>(&spec.type());
    out.push_back(tensor != nullptr ? *tensor : TensorSpec());
  }
  return out;
}

std::vector<uint8_t> Signature::is_absent() const {
  std::vector<uint8_t> out;
  for (const Spec& spec : specs_) {
    if (std::holds_alternative<VariableSpec>(spec.type())) continue;
    out.push_back(std::holds_alternative<AbsentSpec>(spec.type()) ? 1 : 0);
  }
  return out;
}

std::vector<VariableSpec> Signature::variables() const {
  std::vector<VariableSpec> out;
  for (const Spec& spec : specs_) {
    if (const auto* variable = std::get_if<VariableSpec>(&spec.type())) out.push_back(*variable);
  }
  return out;
}

bool Signature::has_open_sizes() const {
  return std::ranges::any_of(tensors(), [](const TensorSpec& s) { return !s.shape.is_known(); });
}

std::string Signature::to_string() const {
  std::vector<std::string> texts;
  for (const Spec& spec : specs_) {
    const bool is_variable = std::holds_alternative<VariableSpec>(spec.type());
    const std::string type = text_of(spec.type());
    texts.push_back((is_variable           ? "variable "
                     : spec.name().empty() ? ""
                                           : spec.name() + ": ") +
                    type);
  }
  return fmt::format("({})", fmt::join(texts, ", "));
}

namespace internal {

bool is_made_up(int64_t size) noexcept {
  return std::ranges::any_of(
      kMadeUp, [&](const auto& sizes) { return std::ranges::find(sizes, size) != sizes.end(); });
}

std::vector<const Type*> made_up_types(std::span<const TensorSpec> specs,
                                       std::span<const Type* const> given, std::size_t point) {
  std::vector<int64_t> known;  // the given size of each open size
  std::size_t open = 0;
  std::vector<const Type*> out;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!given.empty() && given[i] == nullptr) {
      out.push_back(nullptr);
      continue;
    }
    Shape shape = specs[i].shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] != kAny) continue;
      std::size_t which = open;
      if (!given.empty()) {
        const auto at = std::ranges::find(known, given[i]->shape()[axis]);
        which = static_cast<std::size_t>(at - known.begin());
        if (at == known.end()) known.push_back(given[i]->shape()[axis]);
      }
      open = std::max(open, which + 1);
      ETUDE_REQUIRE(open <= kMadeUp.size(),
                    "the signature leaves more than {} sizes open. Give some of them numbers",
                    kMadeUp.size());
      shape.set(axis, kMadeUp[which][point]);
    }
    out.push_back(intern_type(specs[i].dtype, shape));
  }
  return out;
}

std::vector<Tensor> made_up_tensors(const Signature& signature, const Arguments& call,
                                    const std::string& function) {
  std::vector<Tensor> out;
  const std::vector<uint8_t> is_absent = signature.is_absent();
  for (const Type* type : made_up_types(signature.tensors(), {}, 0)) {
    out.push_back(is_absent[out.size()] != 0 ? Tensor() : make_abstract(type));
  }
  ETUDE_REQUIRE(out.size() == call.tensors.size() && call.variables.size() == 0,
                "function '{}' has {} tensors and {} Variables in its arguments, but its signature "
                "is {}. Pass arguments to trace()",
                function, call.tensors.size(), call.variables.size(), signature.to_string());
  return out;
}

void require_signature(const Signature& signature, const Arguments& call,
                       const std::string& function) {
  const std::vector<TensorSpec> tensors = signature.tensors();
  const std::vector<uint8_t> is_absent = signature.is_absent();
  const std::vector<VariableSpec> variables = signature.variables();
  bool is_right =
      tensors.size() == call.tensors.size() && variables.size() == call.variables.size();
  for (std::size_t i = 0; is_right && i < tensors.size(); ++i) {
    const Tensor& x = *call.tensors[i];
    is_right = is_absent[i] != 0 ? !x.has_value() : fits(tensors[i], x);
  }
  for (std::size_t i = 0; is_right && i < variables.size(); ++i) {
    is_right = fits({variables[i].shape, variables[i].dtype}, peek(*call.variables[i]));
  }
  if (is_right) return;
  std::vector<std::string> given;
  for (const Tensor* x : call.tensors) {
    given.push_back(x->has_value() ? x->type()->to_string() : "absent");
  }
  for (const Variable* x : call.variables) {
    given.push_back("variable " + peek(*x).type()->to_string());
  }
  ETUDE_THROW(kInvalidArgument,
              "function '{}' takes {}, as its signature says, but was given ({}). Pass tensors of "
              "these types, or make the function without a signature",
              function, signature.to_string(), fmt::join(given, ", "));
}

namespace {

// "x" of "x/0/1": positions in lists are left out, since names of tensors are numbered.
std::string_view without_positions(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos || slash == 0) return path;
    const std::string_view last = path.substr(slash + 1);
    if (last.empty() || last.find_first_not_of("0123456789") != std::string_view::npos) return path;
    path = path.substr(0, slash);
  }
}

}  // namespace

std::vector<std::string> input_names(const std::vector<std::string>& paths,
                                     const Signature* signature) {
  std::vector<std::string> names;
  if (signature != nullptr) names = signature->tensor_names();
  names.resize(paths.size());
  std::set<std::string, std::less<>> taken(names.begin(), names.end());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!names[i].empty()) continue;
    const std::string base(without_positions(paths[i]));
    std::string name = base;
    for (int count = 1; !taken.insert(name).second; ++count) {
      name = fmt::format("{}_{}", base, count);
    }
    names[i] = std::move(name);
  }
  return names;
}

void require_parameters(const Signature& signature, std::size_t parameters,
                        const std::string& function) {
  ETUDE_REQUIRE(signature.specs().size() <= parameters,
                "the signature {} of function '{}' has {} specs, but the function takes {} tensors "
                "and Variables. Leave out those beyond",
                signature.to_string(), function, signature.specs().size(), parameters);
}

namespace {

// "the size of axis 0 of x", or of the size that it follows from.
std::string size_text(const Signature& signature, const std::vector<RefPtr<Trace>>& traces,
                      std::size_t read) {
  const auto seen = [&](std::size_t k) { return traces[k]->size_reads[read].size; };
  const std::vector<TensorSpec> specs = signature.tensors();
  const std::vector<uint8_t> is_absent = signature.is_absent();
  std::string first;
  std::size_t inputs = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (is_absent[i] != 0) continue;
    const std::size_t input = inputs++;
    for (int axis = 0; axis < specs[i].shape.rank(); ++axis) {
      if (specs[i].shape[axis] != kAny) continue;
      bool is_it = true;
      for (std::size_t k = 0; k < traces.size(); ++k) {
        is_it = is_it && traces[k]->key.types[i]->shape()[axis] == seen(k);
      }
      const std::string text =
          fmt::format("the size of axis {} of {}", axis, traces[0]->graph->inputs()[input].name);
      if (is_it) return text;
      if (first.empty()) first = "a size that may follow from " + text;
    }
  }
  return first;
}

// throws: kFailedPrecondition if the graphs of a signature form no symbolic graph, with the reason.
[[noreturn]] void refuse_signature(const Signature& signature, const std::string& function,
                                   const std::vector<RefPtr<Trace>>& traces,
                                   const std::string& difference) {
  std::size_t least = traces[0]->size_reads.size();
  for (const auto& trace : traces) least = std::min(least, trace->size_reads.size());
  for (std::size_t read = 0; read < least; ++read) {
    const SizeRead& first = traces[0]->size_reads[read];
    if (traces[1]->size_reads[read].size == first.size) continue;
    const CallSite at = first.where;
    ETUDE_THROW(
        kFailedPrecondition,
        "function '{}' looks at {} at {}:{}, which its signature {} leaves open: there is no "
        "number "
        "while it is traced. State the size in the signature; or let ops take it from their "
        "operands, as reshape(x, {{-1, 4}}) and zeros_like(x) do",
        function, size_text(signature, traces, read), at.file, at.line, signature.to_string());
  }
  ETUDE_THROW(kFailedPrecondition,
              "function '{}' makes other calls at other sizes, which its signature {} leaves open: "
              "{}. Give the sizes numbers in the signature, or leave it out",
              function, signature.to_string(), difference);
}

}  // namespace

void require_has_signature(const FunctionOptions& options, CallSite where) {
  located("trace", where, [&] {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, options.signature.has_value(),
                       "function '{}' has no signature to make a graph from. Pass arguments, or "
                       "give it the option signature",
                       options.name);
  });
}

MadeUpTraces FunctionCore::trace_made_up(std::span<const TensorSpec> specs, const Arguments& call,
                                         const ArgumentNames& names, const HostRun& run,
                                         CallSite where) {
  std::vector<const Type*> given;
  for (const Tensor* x : call.tensors)
    given.push_back(x->has_value() ? x->type()->on(Device()) : nullptr);
  MadeUpTraces out;
  std::vector<GraphRef> graphs;
  std::vector<std::vector<SizeRead>> reads;
  const bool is_open =
      std::ranges::any_of(specs, [](auto& spec) { return !spec.shape.is_known(); });
  for (std::size_t point = 0; point < (is_open ? kMadeUpPoints : 1); ++point) {
    std::vector<Tensor> tensors;
    for (const Type* type : made_up_types(specs, given, point)) {
      tensors.push_back(type == nullptr ? Tensor() : make_abstract(type));
    }
    Arguments at(call);
    for (std::size_t i = 0; i < tensors.size(); ++i) at.tensors[i] = &tensors[i];
    const RefPtr<Trace>& made = out.traces.emplace_back(make(at, names, run, where));
    graphs.push_back(made->graph);
    reads.push_back(made->size_reads);
  }
  if (is_open) out.found = SymbolicGraph::of(graphs, reads);
  return out;
}

TraceRef FunctionCore::trace_signature(const Arguments& call, const ArgumentNames& names,
                                       const HostRun& run, CallSite where) {
  MadeUpTraces made = trace_made_up(options_.signature->tensors(), call, names, run, where);
  if (options_.signature->has_open_sizes()) {
    if (!made.found.symbolic) {
      refuse_signature(*options_.signature, name(), made.traces, made.found.difference);
    }
    made.traces[0]->symbolic = std::move(made.found.symbolic);
  }
  keep(made.traces[0]);
  return TraceRef(made.traces[0]);
}

TraceRef FunctionCore::find_signed(const Arguments& call, const ArgumentNames& names,
                                   const HostRun& run, CallSite where) {
  require_signature(*options_.signature, call, name());
  Refusal refusal;
  TraceRef found = find_generalised(call, refusal);
  if (!found && refusal.text.empty()) {
    found = trace_signature(call, names, run, where);
    if (found->symbolic) found = find_generalised(call, refusal);
  }
  return found ? found : keep_instance(make(call, names, run, where));
}

}  // namespace internal
}  // namespace etude
