// SPDX-License-Identifier: Apache-2.0
// The graphs of a staged function of Python for saved::save(). Their keys name classes and objects
// of Python; a saved graph has paths, and host values with the texts of C++.
#include "python/src/saved/traces.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/ambient.h"
#include "python/src/program/held.h"
#include "python/src/saved/values.h"

namespace etude::python {

using internal::Trace;
using internal::TraceRef;
using saved::internal::BoundObject;
using saved::internal::GivenFunction;
using saved::internal::GivenTrace;

namespace {

// The structure of the arguments: the first word of a key (call_reader.cc).
const TreeDef& arguments_of(const Trace& trace) {
  ETUDE_CHECK(!trace.key.words.empty(), "a graph has no structure of its arguments");
  return *reinterpret_cast<const TreeDef*>(static_cast<std::uintptr_t>(trace.key.words[0]));
}

// The number of leaves of the first `count` parts.
std::size_t leaves_of(const TreeDef& def, std::size_t count) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < count; ++i) out += def.parts[i]->leaves.size();
  return out;
}

// Reads the key of a graph leaf by leaf, in the order in which collect() wrote it.
class KeyReader {
 public:
  explicit KeyReader(const Trace& trace) : trace_(trace) {}

  bool is_next_word(const std::string& path) const {
    const auto& names = trace_.names.words;
    return word < names.size() && names[word] == path;
  }
  // The host value that begins at the next word, as host_words() wrote it.
  nb::object host() {
    const uint64_t tag = next();
    if (tag == 1) return nb::bool_(next() != 0);
    if (tag == 2) return nb::int_(static_cast<int64_t>(next()));
    if (tag == 3) return nb::float_(real());
    if (tag == 4) {
      const double re = real(), im = real();
      return nb::steal(PyComplex_FromDoubles(re, im));
    }
    std::string text(next(), '\0');
    for (std::size_t i = 0; i < text.size(); i += 8) {
      const uint64_t bits = next();
      std::memcpy(text.data() + i, &bits, std::min<std::size_t>(8, text.size() - i));
    }
    return nb::str(text.data(), text.size());
  }
  uint64_t next() {
    ETUDE_CHECK(word < trace_.key.words.size(), "a key of a graph ends early");
    return trace_.key.words[word++];
  }

  std::size_t word = 1, object = 0, tensor = 0;

 private:
  double real() {
    const uint64_t bits = next();
    double out = 0;
    std::memcpy(&out, &bits, sizeof(out));
    return out;
  }
  const Trace& trace_;
};

// A trace with paths and texts in place of the tokens of Python. Arguments from `first` on belong
// to the caller; the Variables before them belong to the program.
class SavableTrace {
 public:
  SavableTrace(const std::string& function, const Trace& from, std::size_t first,
               std::span<const Variable> bound_variables)
      : function_(function),
        from_(from),
        def_(arguments_of(from)),
        key_(from),
        first_leaf_(leaves_of(def_, first)),
        bound_(bound_variables) {}

  TraceRef make() {
    out_ = internal::make_ref<Trace>();
    static_cast<internal::TraceFacts&>(*out_) = from_;
    out_->key.words.clear();
    out_->key.objects.clear();
    out_->names.words.clear();
    out_->names.values.clear();
    out_->names.objects.clear();
    hosts_.resize(def_.leaves.size());
    for (std::size_t i = 0; i < def_.leaves.size(); ++i) {
      switch (def_.leaves[i]) {
        case NodeKind::kVariable:
          variable(i);
          break;
        case NodeKind::kHost:
          host(i);
          break;
        default:
          tensor(i);
      }
    }
    for (internal::VariableSlot& slot : out_->variables) renumber(slot);
    const auto& form = *static_cast<const ResultForm*>(from_.result.get());
    if (!form.grown.empty()) out_->arguments = from_.result;  // gather() refuses such a graph
    out_->set_graph(from_.graph);
    return TraceRef(out_);
  }
  // By leaf of the arguments: the host value.
  std::vector<nb::object>& hosts() { return hosts_; }

 private:
  bool is_of_caller(std::size_t leaf) const { return leaf >= first_leaf_; }
  void add_word(std::size_t leaf, uint64_t word, std::string text) {
    out_->key.words.push_back(word);
    out_->names.words.push_back(def_.paths[leaf]);
    out_->names.values.push_back(std::move(text));
  }

  void variable(std::size_t i) {
    const uint64_t same_as = key_.next();
    if (!is_of_caller(i)) return;
    const std::string& path = def_.paths[i];
    ETUDE_REQUIRE_CODE(
        kUnimplemented, path.find('/') == path.npos,
        "function '{}' has a Variable in a structure among its arguments, '{}', which cannot be "
        "saved. Bind the structure (et.saved.bind), or pass the Variable as an argument of its own",
        function_, path);
    ETUDE_REQUIRE_CODE(kUnimplemented, same_as >= bound_.size(),
                       "function '{}': argument '{}' is a Variable of a bound object, so that its "
                       "graph cannot be saved. Pass another Variable, or none",
                       function_, path);
    add_word(i, same_as - bound_.size(), "");
  }

  void host(std::size_t i) {
    if (!key_.is_next_word(def_.paths[i])) {
      const std::size_t at = key_.object++;
      if (!is_of_caller(i)) return;
      out_->key.objects.push_back(from_.key.objects[at]);  // gather() refuses it, by its path
      out_->names.objects.push_back(def_.paths[i]);
      return;
    }
    hosts_[i] = key_.host();
    if (!is_of_caller(i)) return;
    const std::optional<Described> value = described(hosts_[i]);
    ETUDE_REQUIRE_CODE(kUnimplemented, value,
                       "function '{}': its graph was made for argument '{}', a {}, which cannot be "
                       "saved. Pass a tensor, a number or a text",
                       function_, def_.paths[i], type_text(hosts_[i]));
    add_word(i, 1, value->text());
  }

  void tensor(std::size_t i) {
    const std::string& path = def_.paths[i];
    const auto& names = from_.names.tensors;
    const std::size_t at = key_.tensor++;
    ETUDE_REQUIRE_CODE(kUnimplemented, at < names.size() && names[at] == path,
                       "function '{}': its graph was made for sparse rows, '{}', which cannot be "
                       "saved yet. Pass a dense tensor",
                       function_, path);
  }

  void renumber(internal::VariableSlot& slot) {
    if (slot.argument < 0) return;
    const auto at = static_cast<std::size_t>(slot.argument);
    if (at >= bound_.size()) {
      slot.argument -= static_cast<int32_t>(bound_.size());
      return;
    }
    slot.argument = -1;
    slot.state = internal::weak_state(bound_[at]);
  }

  const std::string& function_;
  const Trace& from_;
  const TreeDef& def_;
  KeyReader key_;
  const std::size_t first_leaf_;
  const std::span<const Variable> bound_;
  internal::RefPtr<Trace> out_;
  std::vector<nb::object> hosts_;
};

// The result of a graph: its tensors have no elements.
Parts result_of(const Trace& trace) {
  const auto& form = *static_cast<const ResultForm*>(trace.result.get());
  std::vector<nb::object> leaves;
  for (std::size_t i = 0; i < form.places.size(); ++i) {
    leaves.push_back(wrap_leaf(form.def->leaves[i], form.places[i]));
  }
  std::vector<LostPart> none;
  return *saved_parts(*form.def, leaves, HostParts::kDrop, none);
}

// The tensor of a leaf that is no Variable and no host value; absent if it has none.
Tensor tensor_of_leaf(NodeKind kind, nb::handle leaf) {
  if (kind == NodeKind::kTensor) return is_tensor(leaf) ? tensor_of(leaf) : Tensor();
  return value_of_state(leaf).value_or(Tensor());
}

// The present value of a bound argument.
struct BoundTree {
  Tree tree;
  const Parts* identity;
};

// Whether a trace was made for these values of its first arguments.
bool fits_now(const Trace& trace, std::span<const BoundTree> bound) {
  const TreeDef& def = arguments_of(trace);
  if (def.parts.size() < bound.size()) return false;
  KeyReader key(trace);
  std::size_t at = 0;
  for (std::size_t p = 0; p < bound.size(); ++p) {
    if (def.parts[p] != bound[p].tree.def) return false;
    for (const nb::object& leaf : bound[p].tree.leaves) {
      const std::size_t i = at++;
      if (def.leaves[i] == NodeKind::kVariable) {
        key.next();
      } else if (def.leaves[i] != NodeKind::kHost) {
        const Tensor x = tensor_of_leaf(def.leaves[i], leaf);
        const Type* type = x.has_value() ? x.type()->on(Device()) : nullptr;
        const std::size_t tensor = key.tensor++;
        if (tensor >= trace.key.types.size() || trace.key.types[tensor] != type) return false;
      } else if (key.is_next_word(def.paths[i])) {
        const std::size_t first = key.word;
        key.host();
        std::size_t word = first;
        const bool is_same = host_words(leaf.ptr(), [&](uint64_t bits) {
          if (word < key.word && trace.key.words[word] == bits) ++word;
        });
        if (!is_same || word != key.word) return false;
      } else {
        const internal::HostValue& kept = trace.key.objects[key.object++];
        const HostLeaf now = host_leaf(leaf.ptr(), def.paths[i], "");
        const internal::HostValue given = host_value(now);
        if (given.equal != kept.equal || !kept.equal(given.value, kept.value)) return false;
      }
    }
  }
  return true;
}

class FunctionReader {
 public:
  FunctionReader(const StagedFunction& f, std::span<const BoundArgument> bound)
      : f_(f), bound_(bound) {
    for (const BoundArgument& each : bound) {
      trees_.push_back({tree_of(each.value, Numbers::kKeep), each.identity});
      const Tree& tree = trees_.back().tree;
      for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
        if (tree.def->leaves[i] == NodeKind::kVariable) {
          variables_.push_back(variable_of(tree.leaves[i]));
        }
      }
    }
  }

  GivenFunction read() {
    out_.display = f_.staged->name();
    add_bound();
    const std::vector<Staged::Owned> all = f_.staged->owned_traces();
    std::string changed;  // the state of a layer
    if (!all.empty()) add_arguments(arguments_of(*all.front().trace));
    for (const Staged::Owned& each : all) {
      known_.push_back(each.trace.get());
      std::vector<nb::object>& hosts = hosts_.emplace_back();
      const auto& form = *static_cast<const ResultForm*>(each.trace->result.get());
      if (!form.states.empty()) {
        changed = arguments_of(*each.trace).paths[form.states[0].leaf];
      }
      if (!form.states.empty() || !fits_now(*each.trace, trees_)) {  // gather() leaves it out
        out_.traces.push_back({each.trace, each.trace->symbolic, Parts(), false, false});
        continue;
      }
      SavableTrace savable(f_.staged->name(), *each.trace, bound_.size(), variables_);
      TraceRef made = savable.make();
      out_.traces.push_back({std::move(made), each.trace->symbolic, result_of(*each.trace)});
      hosts = std::move(savable.hosts());
    }
    ETUDE_REQUIRE_CODE(kUnimplemented,
                       changed.empty() || std::ranges::any_of(out_.traces, &GivenTrace::fits),
                       "function '{}' changes the state '{}' of a layer, which a saved function "
                       "cannot pass on. Call it in the inference phase before it is saved, or "
                       "donate the model: donate=('{}',)",
                       f_.staged->name(), changed, changed.substr(0, changed.find('/')));
    const saved::internal::QuietTraces quiet;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].trace->symbolic && out_.traces[i].fits) add_special_sizes(all[i], i);
    }
    return std::move(out_);
  }

 private:
  void add_bound() {
    const std::vector<std::string> names = parameter_names(f_);
    for (std::size_t p = 0; p < trees_.size(); ++p) {
      const Tree& tree = trees_[p].tree;
      BoundObject& made = out_.bound.emplace_back();
      made.at = trees_[p].identity;
      made.type = typeid(Parts);
      made.name = names[p];
      const std::vector<FormLeaf>& form = tree.def->form()->leaves();
      for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
        const NodeKind kind = tree.def->leaves[i];
        if (kind == NodeKind::kVariable || kind == NodeKind::kHost) continue;
        made.tensors.push_back(tensor_of_leaf(kind, tree.leaves[i]));
        const FormLeaf& facts = form[static_cast<std::size_t>(tree.def->form_leaves[i])];
        made.is_trained.push_back(kind == NodeKind::kTensor && facts.tangent >= 0 ? 1 : 0);
      }
    }
  }
  void add_arguments(const TreeDef& def) {
    for (std::size_t p = bound_.size(); p < def.parts.size(); ++p) {
      out_.arguments.push_back({def.names[p], def.parts[p]->kind == NodeKind::kVariable});
    }
  }

  // Traces the function for sizes of 1 and 0 of a symbolic graph. Stops where it is not for them.
  void add_special_sizes(const Staged::Owned& of, std::size_t index) {
    const saved::internal::AsTraced state(of.trace->key);
    for (const auto& sizes : saved::internal::special_sizes(out_.traces[index])) {
      std::vector<TraceRef> traces;
      std::vector<Parts> results;
      bool is_known = false;
      for (const std::vector<const Type*>& types : sizes.calls) {
        const TraceRef trace = trace_of(of, types, hosts_[index]);
        if (!trace) break;
        if (traces.empty()) {
          is_known = std::ranges::find(known_, trace.get()) != known_.end();
        }
        results.push_back(result_of(*trace));
        traces.push_back(SavableTrace(f_.staged->name(), *trace, bound_.size(), variables_).make());
        held_.push_back(trace);
      }
      if (!is_known && traces.size() == sizes.calls.size()) {
        saved::internal::add_special(out_, traces, results);
      }
    }
  }

  // The graph for arguments of these types; null if the function refuses them.
  TraceRef trace_of(const Staged::Owned& of, const std::vector<const Type*>& types,
                    const std::vector<nb::object>& hosts) {
    const TreeDef& def = arguments_of(*of.trace);
    std::vector<nb::object> leaves;
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < def.leaves.size(); ++i) {
      const NodeKind kind = def.leaves[i];
      if (kind == NodeKind::kHost) {
        leaves.push_back(hosts[i].is_valid() ? hosts[i] : nb::none());
      } else if (kind == NodeKind::kVariable) {
        leaves.push_back(nb::none());
        if (i >= leaves_of(def, bound_.size())) return {};
      } else {
        const Type* const type = types[tensor++];
        leaves.push_back(wrap(type == nullptr ? Tensor() : internal::full(type, 0)));
        if (kind == NodeKind::kState) {
          leaves.back() =
              wrap_state(type == nullptr ? LayerState<Tensor>()
                                         : LayerState<Tensor>(tensor_of(leaves.back())));
        }
      }
    }
    try {
      return call(of, def, leaves);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C
    } catch (const std::exception&) {              // the function is not for these sizes
    }
    return {};
  }
  TraceRef call(const Staged::Owned& of, const TreeDef& def,
                const std::vector<nb::object>& leaves) {
    const auto& parameters = of.staged->facts().parameters.all;
    const std::size_t before = f_.host.is_self_bound ? 1 : 0;
    std::vector<nb::object> positional, named;
    nb::list keys;
    std::size_t at = 0;
    for (std::size_t p = 0; p < def.parts.size(); ++p) {
      const std::size_t count = def.parts[p]->leaves.size();
      const nb::object value = p < bound_.size()
                                   ? bound_[p].value
                                   : unflatten(*def.parts[p], std::span(leaves).subspan(at, count));
      at += count;
      if (p == 0 && passes_self(f_)) continue;
      const FunctionParameter& parameter = parameters[p + before];
      if (parameter.kind == FunctionParameter::Kind::kArgs) {
        for (const nb::handle each : nb::iter(value)) positional.push_back(nb::borrow(each));
      } else if (parameter.kind == FunctionParameter::Kind::kKwargs) {
        for (const auto& [key, each] : nb::cast<nb::dict>(value)) {
          keys.append(key);
          named.push_back(nb::borrow(each));
        }
      } else if (parameter.kind == FunctionParameter::Kind::kKeyword) {
        keys.append(nb::handle(parameter.name));
        named.push_back(value);
      } else {
        positional.push_back(value);
      }
    }
    std::vector<PyObject*> args;
    for (const nb::object& each : positional) args.push_back(each.ptr());
    for (const nb::object& each : named) args.push_back(each.ptr());
    const nb::tuple names(keys);
    return of.staged->trace(f_.host, args.data(), positional.size(),
                            named.empty() ? nullptr : names.ptr());
  }

  const StagedFunction& f_;
  const std::span<const BoundArgument> bound_;
  std::vector<BoundTree> trees_;
  std::vector<Variable> variables_;  // of the bound arguments
  GivenFunction out_;
  std::vector<std::vector<nb::object>> hosts_;  // by graph: its host values, by leaf
  std::vector<const Trace*> known_;
  std::vector<TraceRef> held_;
};

}  // namespace

std::vector<std::string> parameter_names(const StagedFunction& f) {
  std::vector<std::string> out;
  const auto& all = f.staged->facts().parameters.all;
  for (std::size_t i = f.host.is_self_bound ? 1 : 0; i < all.size(); ++i)
    out.push_back(all[i].text);
  return out;
}

GivenFunction given_function(const StagedFunction& f, std::span<const BoundArgument> bound) {
  return FunctionReader(f, bound).read();
}

}  // namespace etude::python
