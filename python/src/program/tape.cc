// SPDX-License-Identifier: Apache-2.0
// GradientTape for Python: it records while its `with` block runs.
#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "etude/autodiff/gradient_tape.h"
#include "etude/autodiff/internal/unwatched.h"
#include "etude/base/check.h"
#include "python/src/program/held.h"
#include "python/src/program/tree.h"

namespace etude::python {

// The sources of a gradient: the objects of the program themselves, since updates of layer state
// are found by the layer that made them.
struct Source {
  std::variant<const Tensor*, const Variable*, const LayerState<Tensor>*> leaf;
  bool is_in_class = false;  // an unconnected field is zeros
};
struct SourceList {
  std::vector<Source> all;
};
struct SourceGradients {
  std::vector<std::variant<Tensor, NewState<Tensor>>> all;
};

}  // namespace etude::python

namespace etude {

template <>
struct DifferentiableTraits<python::SourceList> {
  using Composite = void;
  using Tangent = python::SourceGradients;

  template <class Y, class Fn>
  static void each(Y& x, Fn& fn) {
    for (auto& source : x.all) {
      std::visit([&](const auto* leaf) { internal::each_leaf(*leaf, fn); }, source.leaf);
    }
  }
  template <class Fn>
  static Tangent build(const python::SourceList& x, Fn& fn) {
    Tangent out;
    for (const python::Source& source : x.all) {
      if constexpr (requires { fn.enter(); }) {
        if (source.is_in_class) fn.enter();
      }
      std::visit(
          [&](const auto* leaf) { out.all.emplace_back(internal::build_tangent(*leaf, fn)); },
          source.leaf);
      if constexpr (requires { fn.leave(); }) {
        if (source.is_in_class) fn.leave();
      }
    }
    return out;
  }
};

}  // namespace etude

namespace etude::python {
namespace {

// Marks leaves inside of classes.
void mark_classes(const TreeDef& def, bool is_in_class, std::vector<bool>& out) {
  const bool is_class = def.kind == NodeKind::kDataclass || def.kind == NodeKind::kModule ||
                        def.kind == NodeKind::kLayer;
  if (def.kind <= NodeKind::kHost) out.push_back(is_in_class);
  for (const TreeDef* part : def.parts) mark_classes(*part, is_in_class || is_class, out);
}

struct Sources {
  explicit Sources(nb::handle given) : tree(tree_of(given, Numbers::kKeep)) {
    std::vector<bool> in_class;
    mark_classes(*tree.def, false, in_class);
    for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
      const nb::handle leaf = tree.leaves[i];
      switch (tree.def->leaves[i]) {
        case NodeKind::kTensor:
          if (leaf.is_none()) continue;
          list.all.push_back({&tensor_of(leaf), in_class[i]});
          break;
        case NodeKind::kVariable:
          list.all.push_back({&variable_of(leaf), in_class[i]});
          break;
        case NodeKind::kState:
          list.all.push_back({&std::as_const(state_of(leaf)), in_class[i]});
          break;
        default:
          continue;
      }
      places.push_back(i);
    }
  }
  nb::object tree_of_gradients(SourceGradients found) const {
    std::vector<nb::object> leaves(tree.leaves.size(), nb::none());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (tree.def->leaves[i] == NodeKind::kHost) leaves[i] = tree.leaves[i];
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (Tensor* x = std::get_if<Tensor>(&found.all[i])) {
        leaves[places[i]] = wrap(std::move(*x));
      } else {
        leaves[places[i]] = wrap_new_state(std::get<NewState<Tensor>>(std::move(found.all[i])));
      }
    }
    return unflatten(*tree.def, leaves);
  }

  Tree tree;
  SourceList list;
  std::vector<std::size_t> places;
};

Unconnected unconnected_of(const std::string& word) {
  ETUDE_REQUIRE(word == "none" || word == "zero",
                "GradientTape: unconnected is '{}', but must be 'none' or 'zero'", word);
  return word == "zero" ? Unconnected::kZero : Unconnected::kNone;
}

class PythonTape {
 public:
  PythonTape(bool persistent, bool watch_variables) : options_{persistent, watch_variables} {}
  PythonTape(const PythonTape&) = delete;
  PythonTape& operator=(const PythonTape&) = delete;
  ~PythonTape() {
    // A recording tape is on the stack of its thread, which another thread must not touch: the
    // garbage collector of another thread got it. It stays there until that thread ends.
    if (tape_ && std::this_thread::get_id() != thread_) static_cast<void>(tape_.release());
  }

  void enter() {
    if (tape_ == nullptr) {
      thread_ = std::this_thread::get_id();
      const CallSite where = here();
      tape_ = std::make_unique<GradientTape>(options_, where);
      return;
    }
    own().start(here());
  }
  void leave() {
    if (own().recording()) own().stop();
  }
  // The tape; made without recording by a use before its block.
  GradientTape& own() {
    if (tape_ == nullptr) {
      enter();
      tape_->stop();
    }
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, std::this_thread::get_id() == thread_,
        "GradientTape: this thread uses a tape of another thread. A tape records the "
        "calls of the thread that opened it: make one in each thread");
    return *tape_;
  }

  void watch(nb::handle x) {
    const Sources sources(x);
    GradientTape& tape = own();
    const CallSite where = here();
    with_user_line([&] { tape.watch(sources.list, where); });
  }

  nb::object gradient(nb::handle targets, nb::handle sources, nb::handle seeds,
                      const std::string& unconnected) {
    GradientOptions options{.unconnected = unconnected_of(unconnected)};
    const Tree of = targets_of(targets);
    std::vector<Tensor> tensors;
    for (const nb::object& leaf : of.leaves) tensors.push_back(tensor_of(leaf));
    if (!seeds.is_none()) {
      for (const nb::object& seed : leaves_like(*of.def, seeds, "output_gradients")) {
        options.output_gradients.push_back(seed.is_none() ? Tensor() : as_tensor(seed));
      }
    }
    const Sources at(sources);
    check_watched("gradient", at);
    GradientTape& tape = own();
    const CallSite where = here();
    SourceGradients found = with_user_line_released(
        [&] { return tape.gradient(tensors, at.list, std::move(options), where); });
    is_used_up_ = !persistent();
    return at.tree_of_gradients(std::move(found));
  }

  nb::object jacobian(nb::handle target, nb::handle sources, const std::string& unconnected,
                      bool vectorize) {
    const Tensor of = as_tensor(target);
    const Sources at(sources);
    check_watched("jacobian", at);
    GradientTape& tape = own();
    const CallSite where = here();
    const JacobianOptions options{unconnected_of(unconnected), vectorize};
    SourceGradients found =
        with_user_line_released([&] { return tape.jacobian(of, at.list, options, where); });
    is_used_up_ = !persistent();
    return at.tree_of_gradients(std::move(found));
  }
  nb::object batch_jacobian(nb::handle target, nb::handle source, const std::string& unconnected,
                            bool vectorize) {
    const Tensor of = as_tensor(target), by = as_tensor(source);
    GradientTape& tape = own();
    const CallSite where = here();
    const JacobianOptions options{unconnected_of(unconnected), vectorize};
    return wrap(
        with_user_line_released([&] { return tape.batch_jacobian(of, by, options, where); }));
  }
  std::string explain(nb::handle target, nb::handle source) {
    const Tensor of = as_tensor(target);
    if (is_variable(source)) return own().explain(of, variable_of(source));
    ETUDE_REQUIRE(is_tensor(source),
                  "GradientTape.explain: the source is a {}, but must be a "
                  "tensor or a Variable",
                  type_text(source));
    return own().explain(of, tensor_of(source));
  }
  nb::list watched_variables() {
    nb::list out;
    for (const Variable& v : own().watched_variables()) out.append(wrap_variable(v));
    return out;
  }
  void reset() {
    own().reset();
    is_used_up_ = false;
  }
  bool persistent() const { return options_.persistent; }
  bool recording() const { return tape_ != nullptr && tape_->recording(); }

 private:
  // The tensors of the targets; a Variable counts as its value.
  static Tree targets_of(nb::handle targets) {
    ETUDE_REQUIRE(!targets.is_none(),
                  "GradientTape.gradient: the target is None. Does the function of the loss return "
                  "a value?");
    Tree out = tree_of(targets, Numbers::kValues);
    for (std::size_t i = 0; i < out.leaves.size(); ++i) {
      ETUDE_REQUIRE(out.def->leaves[i] == NodeKind::kTensor && is_tensor(out.leaves[i]),
                    "GradientTape.gradient: {} is a {}, but must be a tensor",
                    out.def->python_path(i, "the target"), type_text(out.leaves[i]));
    }
    return out;
  }

  // Reports it if the tape watched no source, with the paths of the sources. The tape itself would
  // report their types.
  void check_watched(const char* op, const Sources& at) {
    if (is_used_up_) return;
    constexpr std::size_t kMost = 4;
    std::optional<std::vector<Variable>> read;  // made for the first Variable
    std::string names;
    std::size_t count = 0;
    for (std::size_t k = 0; k < at.places.size(); ++k) {
      const auto& leaf = at.list.all[k].leaf;
      if (const auto* tensor = std::get_if<const Tensor*>(&leaf)) {
        const bool is_source = (*tensor)->has_value() && is_differentiable((*tensor)->dtype());
        if (!is_source) continue;
        if (own().should_record({*tensor, 1})) return;
      } else if (const auto* variable = std::get_if<const Variable*>(&leaf)) {
        if (!is_differentiable((*variable)->dtype())) continue;
        if (!read) read = own().watched_variables();
        const auto is_it = [&](const Variable& v) { return v.ref() == (*variable)->ref(); };
        if (std::ranges::any_of(*read, is_it)) return;
      } else {
        continue;
      }
      if (++count > kMost) continue;
      names += (count > 1 ? ", " : "") + at.tree.def->python_path(at.places[k], "sources");
    }
    if (count > kMost) names += " and " + std::to_string(count - kMost) + " more";
    if (count > 0) internal::report_unwatched(op, names, here());
  }

  TapeOptions options_;
  bool is_used_up_ = false;             // by a gradient, unless persistent
  std::unique_ptr<GradientTape> tape_;  // null before the first use
  std::thread::id thread_;
};

// tape.pause(): recording resumes at the end of the block.
struct TapePause {
  KeptObject tape;
  bool was_recording = false;
  PythonTape& get() const { return nb::cast<PythonTape&>(tape.get()); }
};

}  // namespace

void bind_tape(nb::module_& m) {
  nb::class_<TapePause>(m, "_TapePause")
      .def("__enter__",
           [](TapePause& p) {
             p.was_recording = p.get().recording();
             if (p.was_recording) p.get().own().stop();
           })
      .def("__exit__", [](TapePause& p, const nb::args&) {
        if (p.was_recording && !p.get().recording()) p.get().enter();
      });
  nb::class_<PythonTape>(m, "GradientTape", nb::is_weak_referenceable(),
                         "Records the calls that depend on watched values in its `with` block, and "
                         "runs their rules backwards. confined to the thread that entered it.")
      .def(nb::init<bool, bool>(), nb::kw_only(), nb::arg("persistent") = false,
           nb::arg("watch_variables") = true)
      .def("__enter__",
           [](nb::handle self) {
             nb::cast<PythonTape&>(self).enter();
             return nb::borrow(self);
           })
      .def("__exit__", [](PythonTape& t, const nb::args&) { t.leave(); })
      .def("watch", &PythonTape::watch, nb::arg("x").none(),
           "Records calls on these tensors and Variables from now on.")
      .def("gradient", &PythonTape::gradient, nb::arg("targets").none(), nb::arg("sources").none(),
           nb::arg("output_gradients").none() = nb::none(), nb::kw_only(),
           nb::arg("unconnected") = "none",
           "The gradient of the sum of all targets, in the structure of the sources.")
      .def("jacobian", &PythonTape::jacobian, nb::arg("target"), nb::arg("sources"), nb::kw_only(),
           nb::arg("unconnected") = "none", nb::arg("vectorize") = true,
           "The derivatives of each element of a real target, of shape [target shape..., source "
           "shape...] by source. vectorize=False makes one sweep per element, and needs a "
           "persistent tape.")
      .def("batch_jacobian", &PythonTape::batch_jacobian, nb::arg("target"), nb::arg("source"),
           nb::kw_only(), nb::arg("unconnected") = "none", nb::arg("vectorize") = true,
           "As jacobian, where row i of the target depends on row i of the source alone: [b, t..., "
           "s...] for a target [b, t...] and a source [b, s...].")
      .def("stop", &PythonTape::leave)
      .def("start", &PythonTape::enter)
      .def("reset", &PythonTape::reset)
      .def("pause", [](nb::handle self) { return new TapePause{KeptObject(nb::borrow(self))}; })
      .def("watched_variables", &PythonTape::watched_variables)
      .def("explain", &PythonTape::explain, nb::arg("target"), nb::arg("source"),
           "Why the gradient is None, in one sentence.")
      .def("__len__", [](PythonTape& t) { return t.own().size(); })
      .def_prop_ro("persistent", &PythonTape::persistent)
      .def_prop_ro("recording", &PythonTape::recording);
}

}  // namespace etude::python
