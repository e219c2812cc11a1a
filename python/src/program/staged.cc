// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/staged.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "etude/base/check.h"
#include "etude/stage/function.h"
#include "python/src/program/after_call.h"
#include "python/src/program/held.h"

namespace etude::python {

using internal::Arguments;
using internal::TraceRef;

namespace {

PyObject* converter = nullptr;
constexpr std::size_t kMostLayouts = 64;

}  // namespace

void set_converter(nb::object convert) {
  PyObject* const before = std::exchange(converter, convert.release().ptr());
  Py_XDECREF(before);
}

nb::object converted(nb::handle callable) {
  if (converter == nullptr) return nb::borrow(callable);
  return nb::handle(converter)(callable);
}

nb::object HostFunction::converted(const StagedFacts& facts) const {
  return facts.converts ? python::converted(callable) : nb::borrow(callable);
}

Staged::Staged(std::shared_ptr<const StagedFacts> facts)
    : facts_(std::move(facts)), core_(facts_->options, typeid(Staged), facts_->where) {}
Staged::Staged(std::shared_ptr<const StagedFacts> facts, FunctionOptions options)
    : facts_(std::move(facts)), core_(std::move(options), typeid(Staged), facts_->where) {}

std::shared_ptr<const CallLayout> Staged::layout_for(const FunctionParameters::Bound& bound,
                                                     std::size_t first, const CallReader& reader) {
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    const std::vector<uint64_t>& tokens = layouts_[i]->tokens;
    if (tokens.size() != reader.tokens.size()) continue;
    if (!std::equal(tokens.begin(), tokens.end(), reader.tokens.begin())) continue;
    if (i > 0) std::swap(layouts_[i], layouts_[i - 1]);
    return layouts_[i > 0 ? i - 1 : 0];
  }
  if (layouts_.size() == kMostLayouts) layouts_.pop_back();
  layouts_.insert(layouts_.begin(), layout_of(facts_->parameters, bound, first, reader));
  return layouts_.front();
}

// One call: its arguments, and the values that travel between Python and the graph.
class Staged::Call {
 public:
  Call(Staged& staged, const HostFunction& host)
      : staged_(staged), host_(host), reader_(staged.facts().parameters) {}

  void read(PyObject* const* args, std::size_t count, PyObject* names) {
    args_ = args;
    count_ = count;
    names_ = names;
    const StagedFacts& facts = staged_.facts();
    if (!facts.parameters.bind(host_.self, args, count, names, bound_)) {
      refuse(args, count, names);
    }
    const std::size_t first = host_.is_self_bound ? 1 : 0;
    if (facts.specs > 0) require_within_signature(first);
    reader_.read(bound_, first);
    layout_ = staged_.layout_for(bound_, first, reader_);
    arguments_.splits_slices = !staged_.core_.options().signature;
    if (layout_->has_states) read_states(*layout_, reader_);
    collect(*layout_, reader_, hosts_, staged_.name(), arguments_, nullptr);
    if (layout_->has_donated) require_distinct(*layout_, reader_, staged_.name());
  }

  nb::object run() {
    TraceRef trace;
    Values out;
    take_donated();
    try {
      with_user_line_released([&] {
        trace = staged_.core_.find(arguments_);
        if (trace) out = staged_.core_.run(*trace, arguments_, {});
      });
      if (!trace && !staged_.specified_.empty()) {
        put_back_donated();
        if (std::optional<nb::object> out_of_specs = run_specified(nullptr)) return *out_of_specs;
        take_donated();
      }
      if (!trace) {
        trace = make();
        if (!trace) return run_host_once();
        with_user_line_released([&] { out = staged_.core_.run(*trace, arguments_, {}); });
      }
    } catch (...) {
      put_back_donated();
      throw;
    }
    return take_results(*trace, out);
  }

  TraceRef make() {
    internal::ArgumentNames names;
    Arguments again;
    again.splits_slices = arguments_.splits_slices;
    std::vector<HostLeaf> hosts;
    collect(*layout_, reader_, hosts, staged_.name(), again, &names);
    internal::FirstRun* const first = may_run_host_ ? &first_run_ : nullptr;
    const CallSite where = here();
    return with_user_line_released(
        [&] { return staged_.core_.find_or_trace(arguments_, names, host_run(), first, where); });
  }
  TraceRef find() {
    may_run_host_ = false;
    TraceRef found = released([&] { return staged_.core_.find(arguments_); });
    return found ? found : make();
  }

  bool fits_but_sizes(const TraceRef& trace) const { return trace->key.fits_but_sizes(arguments_); }
  // Whether the call differs from the trace in open sizes alone.
  bool fits(const TraceRef& trace) const {
    if (!fits_but_sizes(trace)) return false;
    const Signature& signature = *staged_.core_.options().signature;
    std::size_t i = 0;
    for (const TensorSpec& spec : signature.tensors()) {
      const Tensor& x = *arguments_.tensors[i++];
      if (!x.has_value()) continue;  // fits_but_sizes() has compared absent ones
      const Shape& shape = x.type()->shape();
      for (int axis = 0; axis < spec.shape.rank(); ++axis) {
        if (spec.shape[axis] != kAny && spec.shape[axis] != shape[axis]) return false;
      }
    }
    return true;
  }
  // Runs the graph of the specs that the call fits, or the graph `only`; none if there is none.
  std::optional<nb::object> run_specified(const internal::Trace* only) {
    const std::vector<Specified> all = staged_.specified_;  // a trace may add one
    for (const Specified& each : all) {
      if (only != nullptr && each.trace.get() != only) continue;
      Call call(*each.staged, host_);
      call.read(args_, count_, names_);
      if (call.fits(each.trace)) return call.run();
    }
    return std::nullopt;
  }
  TraceRef trace_of_signature() {
    internal::ArgumentNames names;
    Arguments again;
    std::vector<HostLeaf> hosts;
    collect(*layout_, reader_, hosts, staged_.name(), again, &names);
    const CallSite where = here();
    return with_user_line_released([&] {
      internal::FunctionCore& core = staged_.core_;
      if (arguments_.variables.size() == 0) {
        return core.trace_of_signature(arguments_, names, host_run(), where);
      }
      return core.find_or_trace(arguments_, names, host_run(), nullptr, where);
    });
  }

  nb::object run_graph(const TraceRef& given) {
    const TraceRef fitting = released([&] { return staged_.core_.fitting(given, arguments_); });
    if (!fitting) {
      if (std::optional<nb::object> out = run_specified(given.get())) return *out;
      internal::ArgumentNames names;
      Arguments again;
      again.splits_slices = arguments_.splits_slices;
      std::vector<HostLeaf> hosts;
      collect(*layout_, reader_, hosts, staged_.name(), again, &names);
      internal::throw_unfit(*given, arguments_, names, here());
    }
    Values out;
    take_donated();
    try {
      with_user_line_released([&] { out = staged_.core_.run(*fitting, arguments_, {}); });
    } catch (...) {
      put_back_donated();
      throw;
    }
    return take_results(*fitting, out);
  }

 private:
  // Calls Python's own binding, which throws its error with our name.
  [[noreturn]] void refuse(PyObject* const* args, std::size_t count, PyObject* names) {
    nb::list positional;
    if (host_.self != nullptr) positional.append(nb::handle(host_.self));
    for (std::size_t i = 0; i < count; ++i) positional.append(nb::handle(args[i]));
    nb::dict named;
    const Py_ssize_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t k = 0; k < keywords; ++k) {
      named[nb::handle(PyTuple_GET_ITEM(names, k))] =
          nb::handle(args[count + static_cast<std::size_t>(k)]);
    }
    const nb::object inspect = nb::module_::import_("inspect");
    const nb::object signature = inspect.attr("signature")(nb::handle(host_.callable));
    std::string text = "the arguments do not fit";
    try {
      signature.attr("bind")(*nb::tuple(positional), **named);
    } catch (const nb::python_error& error) {
      text = nb::cast<std::string>(nb::str(nb::handle(error.value())));
    }
    ETUDE_THROW(kInvalidArgument, "function '{}': {}. Its signature is {}{}", staged_.name(), text,
                nb::cast<std::string>(nb::str(signature)),
                staged_.core_.options().signature
                    ? ", with the types " + staged_.core_.options().signature->to_string()
                    : "");
  }
  void require_within_signature(std::size_t first) const {
    const std::vector<FunctionParameter>& all = staged_.facts().parameters.all;
    const std::size_t specs = std::min(all.size(), first + staged_.facts().specs);
    for (std::size_t i = first; i < specs; ++i) {
      ETUDE_REQUIRE(bound_.values[i] != Py_None || !all[i].dtype,
                    "function '{}': argument '{}' is None, but its signature {} has a tensor for "
                    "it. Pass a tensor, or make a function whose signature has None there",
                    staged_.name(), all[i].text, staged_.core_.options().signature->to_string());
    }
    for (std::size_t i = specs; i < all.size(); ++i) {
      ETUDE_REQUIRE(
          bound_.values[i] != nullptr && bound_.values[i] == all[i].otherwise,
          "function '{}': argument '{}' is not in its signature {}, so its default holds. "
          "Add a spec for it, or leave it out of the call",
          staged_.name(), all[i].text, staged_.core_.options().signature->to_string());
    }
  }
  template <class Fn>
  void each_donated(Fn&& fn) {
    if (!layout_->has_donated) return;
    for (std::size_t i = 0; i < layout_->order.size(); ++i) {
      CallReader::Leaf& leaf = reader_.leaves[layout_->order[i]];
      if (layout_->is_donated[i] == 0 || !leaf.value.has_value()) continue;
      const NodeKind kind = layout_->def->leaves[i];
      if (kind == NodeKind::kTensor) fn(mutable_tensor_of(leaf.object), leaf.value);
      if (kind == NodeKind::kState) fn(state_of(leaf.object).value, leaf.value);
    }
  }
  // The graph may overwrite a tensor that has no other owner.
  void take_donated() {
    each_donated([](Tensor& object, const Tensor&) { object = Tensor(); });
  }
  void put_back_donated() noexcept {
    each_donated([](Tensor& object, const Tensor& value) { object = value; });
  }
  // Puts the tensors of a grown state into its optimiser.
  void take_grown(const ResultForm& form, Values& out, std::size_t& next) {
    for (const ResultForm::Grown& grown : form.grown) {
      std::vector<nb::object> leaves;
      for (const uint8_t has : grown.has) {
        leaves.push_back(has != 0 ? wrap(std::move(out[next++])) : nb::none());
      }
      const std::size_t first = layout_->order[grown.leaf];
      for (const CallReader::HeldOptimizer& each : reader_.optimizers) {
        if (each.first != first) continue;
        take_grown_state(each.object, grown.def->aux, std::move(leaves));
        break;
      }
    }
  }

  nb::object take_results(const internal::Trace& trace, Values& out) {
    const auto& form = *static_cast<const ResultForm*>(trace.result.get());
    std::size_t next = 0;
    nb::object result = build_result(form, out, next);
    if (layout_->has_donated) {
      for (std::size_t k = 0; k < arguments_.tensors.size(); ++k) {
        if (trace.in_out[k] != 0 && arguments_.tensors[k]->has_value()) {
          *arguments_.tensors[k] = std::move(out[next++]);
        }
      }
      arguments_.join_slices(trace.in_out);
      put_back_donated();
      take_grown(form, out, next);
    }
    if (!form.states.empty()) {
      pass_on_states(form, *layout_, reader_, out, next);
    }
    return result;
  }

  static nb::object build_result(const ResultForm& form, Values& out, std::size_t& next) {
    if (form.def->kind == NodeKind::kTensor && !TensorAccess::is_sparse(form.places[0])) {
      return wrap(std::move(out[next++]));
    }
    std::vector<nb::object> leaves;
    leaves.reserve(form.places.size());
    for (std::size_t i = 0; i < form.places.size(); ++i) {
      Tensor y = form.places[i];
      if (y.has_value()) internal::put_result(y, out, next);
      leaves.push_back(wrap_leaf(form.def->leaves[i], std::move(y)));
    }
    return unflatten(*form.def, leaves);
  }

  // The call that makes Variables whose values depend on its arguments.
  nb::object run_host_once() {
    put_back_donated();
    const nb::object f = host_.converted(staged_.facts());
    return call_host(f, leaves_now());
  }
  std::vector<nb::object> leaves_now() const {
    std::vector<nb::object> out;
    for (const uint32_t at : layout_->order) out.push_back(nb::borrow(reader_.leaves[at].object));
    return out;
  }

  internal::HostRun host_run() {
    return [this](std::span<const Tensor> inputs, std::span<const Variable> variables) {
      return with_gil([&] { return trace_host(inputs, variables); });
    };
  }
  internal::TraceResult trace_host(std::span<const Tensor> inputs,
                                   std::span<const Variable> variables);
  nb::object call_host(const nb::object& f, const std::vector<nb::object>& leaves);
  void require_unchanged(const std::vector<nb::object>& passed, std::span<const Tensor> given,
                         internal::TraceResult& out, ResultForm& form);
  [[noreturn]] void throw_not_donated(std::size_t i) const;
  void require_unchanged_leaf(std::size_t i, const nb::object& after, const Tensor& given,
                              std::size_t tensor, internal::TraceResult& out);
  std::shared_ptr<ResultForm> add_result(internal::TraceResult& out, const nb::object& result);

  Staged& staged_;
  const HostFunction& host_;
  PyObject* const* args_ = nullptr;
  std::size_t count_ = 0;
  PyObject* names_ = nullptr;
  FunctionParameters::Bound bound_;
  CallReader reader_;
  std::shared_ptr<const CallLayout> layout_;
  std::vector<HostLeaf> hosts_;
  Arguments arguments_;
  internal::FirstRun first_run_;
  bool may_run_host_ = true;
  std::vector<nb::object> containers_;  // by parameter, while the function is traced
};

// Calls the function on new containers of these leaves.
nb::object Staged::Call::call_host(const nb::object& f, const std::vector<nb::object>& leaves) {
  const std::vector<FunctionParameter>& all = staged_.facts().parameters.all;
  nb::list args;
  nb::dict keywords;
  if (host_.is_self_bound) args.append(nb::handle(host_.self));
  containers_.clear();
  std::size_t at = 0;
  const std::size_t first = host_.is_self_bound ? 1 : 0;
  for (std::size_t i = 0; i < layout_->def->parts.size(); ++i) {
    const TreeDef& def = *layout_->def->parts[i];
    nb::object value = unflatten(def, std::span(leaves).subspan(at, def.leaves.size()));
    at += def.leaves.size();
    containers_.push_back(value);
    const FunctionParameter& parameter = all[i + first];
    switch (parameter.kind) {
      case FunctionParameter::Kind::kArgs:
        for (const nb::handle each : nb::iter(value)) args.append(each);
        break;
      case FunctionParameter::Kind::kKwargs:
        keywords.update(nb::cast<nb::dict>(value));
        break;
      case FunctionParameter::Kind::kKeyword:
        keywords[nb::handle(parameter.name)] = value;
        break;
      default:
        args.append(value);
    }
  }
  return f(*nb::tuple(args), **keywords);
}

internal::TraceResult Staged::Call::trace_host(std::span<const Tensor> inputs,
                                               std::span<const Variable> variables) {
  const TreeDef& def = *layout_->def;
  std::vector<nb::object> leaves;
  // The tensors of the call in this trace, sparse ones joined again.
  std::vector<Tensor> tensors;
  Arguments traced;
  traced.splits_slices = arguments_.splits_slices;
  for (const uint32_t at : layout_->order) tensors.push_back(reader_.leaves[at].value);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (def.leaves[i] == NodeKind::kVariable || def.leaves[i] == NodeKind::kHost) continue;
    internal::ArgumentFlattener<internal::NoNames>(traced, {}).argument("", tensors[i]);
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) *traced.tensors[k] = inputs[k];
  traced.join_slices();
  std::size_t variable = 0;
  TracedStates states;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const nb::handle object = reader_.leaves[layout_->order[i]].object;
    switch (def.leaves[i]) {
      case NodeKind::kTensor:
        leaves.push_back(tensors[i].has_value() ? wrap(tensors[i]) : nb::none());
        break;
      case NodeKind::kVariable: {
        const Variable& used = variables[variable++];
        leaves.push_back(used.ref() == variable_of(object).ref() ? nb::borrow(object)
                                                                 : wrap_variable(used));
        break;
      }
      case NodeKind::kState:
        leaves.push_back(tensors[i].has_value()
                             ? states.add(i, layout_->is_donated[i] != 0, tensors[i])
                             : nb::borrow(object));
        break;
      case NodeKind::kNewState:
        leaves.push_back(tensors[i].has_value() ? state_with(object, tensors[i])
                                                : nb::borrow(object));
        break;
      default:
        leaves.push_back(nb::borrow(object));
    }
  }
  const nb::object f = host_.converted(staged_.facts());
  const nb::object result = call_host(f, leaves);
  internal::TraceResult out;
  const std::shared_ptr<ResultForm> form = add_result(out, result);
  out.in_out.assign(inputs.size(), 0);
  require_unchanged(leaves, tensors, out, *form);
  states.take(def.paths, out.outputs, form->states);
  containers_.clear();
  return out;
}

std::shared_ptr<ResultForm> Staged::Call::add_result(internal::TraceResult& out,
                                                     const nb::object& result) {
  const Tree tree = tree_of(result, Numbers::kValues);
  auto form = std::make_shared<ResultForm>();
  form->def = tree.def;
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    const NodeKind kind = tree.def->leaves[i];
    ETUDE_REQUIRE(kind != NodeKind::kHost,
                  "function '{}' returns {}, a {}, as {}. Return tensors, numbers, None, and "
                  "lists, tuples, dicts and classes of them",
                  staged_.name(), host_text(tree.leaves[i].ptr()), type_text(tree.leaves[i]),
                  tree.def->python_path(i, "the result"));
    Tensor y = kind == NodeKind::kTensor
                   ? (tree.leaves[i].is_none() ? Tensor() : tensor_of(tree.leaves[i]))
                   : value_of_state(tree.leaves[i]).value_or(Tensor());
    if (y.has_value()) out.add_result(y);
    form->places.push_back(std::move(y));
  }
  out.result = form;
  return form;
}

// The arguments after the call: donated tensors are outputs; nothing else may have changed.
void Staged::Call::require_unchanged(const std::vector<nb::object>& passed,
                                     std::span<const Tensor> given, internal::TraceResult& out,
                                     ResultForm& form) {
  const TreeDef& def = *layout_->def;
  AfterCall after{passed};
  for (std::size_t i = 0; i < containers_.size(); ++i) {
    const Tree now = tree_of(containers_[i], Numbers::kKeep);
    std::size_t next = 0;
    ETUDE_REQUIRE(
        after.add(*def.parts[i], *now.def, now.leaves, next),
        "function '{}' changes the structure of argument '{}' while it is traced: it is "
        "{} afterwards. That would happen once and not at each call. Return the new value",
        staged_.name(), def.names[i], now.def->to_string());
  }
  std::size_t tensor = 0;
  for (std::size_t i = 0; i < after.leaves.size(); ++i) {
    const NodeKind kind = def.leaves[i];
    const nb::object& leaf = after.leaves[i];
    if (kind == NodeKind::kVariable || kind == NodeKind::kHost) {
      if (leaf.is(passed[i])) continue;
      const bool is_same = kind == NodeKind::kHost && leaf.equal(passed[i]);
      if (!is_same) internal::throw_host_change(staged_.name(), def.paths[i]);
      continue;
    }
    require_unchanged_leaf(i, leaf, given[i], tensor, out);
    tensor += arguments_.splits_slices && given[i].has_value() && given[i].slices() ? 2 : 1;
  }
  for (const ResultForm::Grown& each : after.grown) {
    if (layout_->is_donated[each.leaf] == 0) throw_not_donated(each.leaf);
  }
  for (const nb::object& leaf : after.grown_leaves) out.outputs.push_back(tensor_of(leaf));
  form.grown = std::move(after.grown);
}

void Staged::Call::throw_not_donated(std::size_t i) const {
  const std::string& path = layout_->def->paths[i];
  ETUDE_THROW(
      kInvalidArgument,
      "function '{}' writes to argument '{}', which is not in `donate`. Without @et.function "
      "that write would change the tensor of the caller: pass donate=('{}',), or copy it "
      "first, x = x.copy()",
      staged_.name(), path, path.substr(0, path.find('/')));
}

// Tensor number `tensor` of the call, leaf i of the def.
void Staged::Call::require_unchanged_leaf(std::size_t i, const nb::object& after,
                                          const Tensor& given, std::size_t tensor,
                                          internal::TraceResult& out) {
  const TreeDef& def = *layout_->def;
  if (!given.has_value() && after.is_none()) return;
  const bool is_state = def.leaves[i] == NodeKind::kState;
  if (!is_state && def.leaves[i] != NodeKind::kTensor) return;
  Tensor now;
  if (is_state) {
    now = value_of_state(after).value_or(Tensor());
  } else {
    ETUDE_REQUIRE(is_tensor(after), "function '{}' sets argument '{}' to a {}", staged_.name(),
                  def.paths[i], type_text(after));
    now = tensor_of(after);
  }
  if (layout_->is_donated[i] == 0) {
    if (given.has_value() && now.ref() != given.ref()) throw_not_donated(i);
    return;
  }
  if (!given.has_value() || given.slices()) return;
  out.outputs.push_back(std::move(now));
  out.in_out[tensor] = 1;
}

nb::object Staged::call(const HostFunction& host, PyObject* const* args, std::size_t count,
                        PyObject* names) {
  Call call(*this, host);
  call.read(args, count, names);
  return call.run();
}

TraceRef Staged::trace(const HostFunction& host, PyObject* const* args, std::size_t count,
                       PyObject* names) {
  Call call(*this, host);
  call.read(args, count, names);
  return call.find();
}

TraceRef Staged::trace_specified(const HostFunction& host, Signature specs, PyObject* const* args,
                                 std::size_t count, PyObject* names) {
  const std::string text = specs.to_string();
  FunctionOptions options = facts_->options;
  options.signature = std::move(specs);
  const auto staged = std::make_shared<Staged>(facts_, std::move(options));
  Call call(*staged, host);
  call.read(args, count, names);
  // The same specs with other host values are another graph.
  for (const Specified& each : specified_) {
    if (each.specs != text) continue;
    Call known(*each.staged, host);
    known.read(args, count, names);
    if (known.fits_but_sizes(each.trace)) return each.trace;
  }
  const TraceRef made = call.trace_of_signature();
  specified_.push_back({text, staged, made});
  return made;
}

std::vector<std::string> Staged::explain_specified() const {
  std::vector<std::string> out;
  for (const Specified& each : specified_) {
    out.push_back("from specs: " + each.specs + "\n" +
                  released([&] { return each.staged->core_.explain({}); }));
  }
  return out;
}

std::vector<Staged::Owned> Staged::owned_traces() {
  std::vector<Owned> out;
  for (TraceRef& trace : released([&] { return core_.traces(); })) {
    out.push_back({this, nullptr, std::move(trace)});
  }
  for (const Specified& each : specified_) {
    out.push_back({each.staged.get(), each.staged, each.trace});
  }
  return out;
}

std::vector<TraceRef> Staged::traces() {
  std::vector<TraceRef> out;
  for (Owned& each : owned_traces()) out.push_back(std::move(each.trace));
  return out;
}

nb::object Staged::call_graph(const TraceRef& trace, const HostFunction& host,
                              PyObject* const* args, std::size_t count, PyObject* names) {
  Call call(*this, host);
  call.read(args, count, names);
  return call.run_graph(trace);
}

}  // namespace etude::python
