// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/optimizers.h"

#include <utility>

#include <nanobind/stl/string.h>

#include "etude/base/check.h"
#include "etude/base/structure.h"
#include "etude/nn/fit/fit.h"
#include "python/src/program/held.h"
#include "python/src/program/layers.h"
#include "python/src/program/shared_leaves.h"

namespace etude::python {
namespace {

using optim::internal::RuleOptimizer;
using optim::internal::Slots;

// The state of a rule is protected: a derived class names it.
struct StateOf : RuleOptimizer {
  static Slots& slots(RuleOptimizer& rule) { return rule.*(&StateOf::slots_); }
};

OptimizerObject& optimizer_in(nb::handle value) { return *nb::inst_ptr<OptimizerObject>(value); }

// The names of the tensors of the state, in the order of the traversal.
std::vector<std::string> names_of(Slots& slots) {
  std::vector<std::string> out;
  for_each_leaf<Tensor>(slots, [&](const std::string& path, const Tensor&) {
    // "count", "slots/0/tensors/1", "numbers/loss_scale", "pending/mean/weight"
    const std::size_t first = path.find('/');
    const std::string field = path.substr(0, first);
    if (field == "count") {
      out.emplace_back("updates");
    } else if (field == "slots") {
      const std::size_t second = path.find('/', first + 1);
      const auto slot = std::stoul(path.substr(first + 1, second - first - 1));
      const auto state = std::stoul(path.substr(path.rfind('/') + 1));
      out.push_back(slots.names()[state] + "/" + slots.path(slot));
    } else {
      const std::string name = path.substr(first + 1);
      out.push_back(field == "pending" ? "restored/" + name : name);
    }
  });
  return out;
}

// Takes the state from the rule into the leaves. Objects stay where the structure stays.
void store(OptimizerObject& object) {
  Slots& slots = StateOf::slots(*object.rule);
  std::size_t count = 0;
  for_each_leaf<Tensor>(slots, [&](const Tensor&) { ++count; });
  if (object.key == 0 || count != object.leaves.size()) {
    std::vector<std::string> names = names_of(slots);
    std::string text = options_text(object.made, object.number);
    text += nb::cast<std::string>(nb::repr(object.extras));
    for (const std::string& name : names) text += "\n" + name;
    object.key = number_of_text(text);
    if (names != object.names || names.size() != object.leaves.size()) {
      object.names = std::move(names);
      object.leaves.assign(object.names.size(), nb::none());
    }
  }
  std::size_t i = 0;
  for_each_leaf<Tensor>(slots, [&](Tensor& value) {
    nb::object& leaf = object.leaves[i++];
    if (is_tensor(leaf)) {
      mutable_tensor_of(leaf) = std::move(value);
    } else if (value.has_value()) {
      leaf = wrap(std::move(value));
    }
    value = Tensor();
  });
}

void fill(OptimizerObject& object) {
  for (std::size_t i = 0; i < object.leaves.size(); ++i) {
    const nb::object& leaf = object.leaves[i];
    ETUDE_REQUIRE(leaf.is_none() || is_tensor(leaf),
                  "the state '{}' of the optimizer is a {}, but must be a tensor", object.names[i],
                  type_text(leaf));
  }
  std::size_t i = 0;
  for_each_leaf<Tensor>(StateOf::slots(*object.rule), [&](Tensor& value) {
    const nb::object& leaf = object.leaves[i++];
    if (!is_tensor(leaf)) return;
    value = std::move(mutable_tensor_of(leaf));
    mutable_tensor_of(leaf).reset();
  });
}

// throws: kInvalidArgument, with its path, for a trained Variable.
void require_tensors(const TreeDef& def) {
  const std::vector<FormLeaf>& form = def.form()->leaves();
  for (std::size_t i = 0; i < def.leaves.size(); ++i) {
    if (def.leaves[i] != NodeKind::kVariable) continue;
    ETUDE_REQUIRE(form[static_cast<std::size_t>(def.form_leaves[i])].tangent < 0,
                  "the model has a Variable at '{}', but optimizers move tensors. Keep a tensor "
                  "there, such as et.asarray(...): update() replaces its value in place",
                  def.paths[i]);
  }
}

void update(nb::handle self, nb::handle model, nb::handle gradients) {
  // Read first: the model may hold its optimiser.
  const Tree tree = tree_of(model, Numbers::kKeep);
  require_tensors(*tree.def);
  Parts along = tangent_of_tree(*tree.def, gradients, "the gradients");
  require_living_states(along);
  const SharedLeaves shared(tree);
  Parts at = parts_of_tree(tree);
  shared.take_away(at);
  const FilledOptimizer optimizer(self);
  if (StateOf::slots(*optimizer).needs_paths()) optimizer.set_changed();
  // The objects give up their tensors, so that the update happens in place.
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    if (tree.def->leaves[i] == NodeKind::kTensor && !tree.leaves[i].is_none()) {
      mutable_tensor_of(tree.leaves[i]).reset();
    }
  }
  const CallSite where = here();
  try {
    with_user_line_released([&] {
      shared.add_up(along);
      optimizer->update(at, along, where);
    });
  } catch (...) {
    shared.fill(at);
    assign_leaves(tree, std::move(at));
    throw;
  }
  shared.fill(at);
  assign_leaves(tree, std::move(at));
}

nb::object averaged(nb::handle self, nb::handle model, const std::string& name) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  const FilledOptimizer optimizer(self);
  const CallSite where = here();
  Parts made =
      with_user_line([&] { return optimizer->averaged(parts_of_tree(tree), name, where); });
  SharedLeaves(tree).fill(made);
  return tree_of_parts(*tree.def, made, tree.leaves);
}

// Applies an entry of OptimizerObject::extras.
void apply(RuleOptimizer& rule, const nb::tuple& extra) {
  const CallSite where = here();
  if (nb::cast<std::string>(extra[0]) == "add") {
    const nb::object transform = extra[1];
    ETUDE_REQUIRE(nb::isinstance<KindObject>(transform) &&
                      nb::cast<KindObject&>(transform).made.is<optim::Transform>(),
                  "add: a {} is no transform. Pass one of et.optim, such as "
                  "et.optim.clip_by_global_norm(1.0)",
                  type_text(transform));
    return rule.add(nb::cast<KindObject&>(transform).made.as<optim::Transform>(), where);
  }
  optim::GroupOptions options;
  const nb::object lr = extra[2], decay = extra[3];
  if (nb::isinstance<KindObject>(lr)) {
    options.lr = nb::cast<KindObject&>(lr).made.as<optim::Schedule>(where);
  } else if (!lr.is_none()) {
    ETUDE_REQUIRE(PyFloat_Check(lr.ptr()) != 0 || PyLong_Check(lr.ptr()) != 0,
                  "group: lr is a {}, but must be a number or a schedule", type_text(lr));
    options.lr = nb::cast<double>(nb::float_(lr));
  }
  if (!decay.is_none()) {
    ETUDE_REQUIRE(PyFloat_Check(decay.ptr()) != 0 || PyLong_Check(decay.ptr()) != 0,
                  "group: weight_decay is a {}, but must be a number", type_text(decay));
    options.weight_decay = nb::cast<double>(nb::float_(decay));
  }
  rule.group(nb::cast<std::string>(extra[1]), std::move(options), where);
}

// Changes the rule, and notes the change for copies.
void extend(nb::handle self, const nb::tuple& extra) {
  const FilledOptimizer optimizer(self);
  apply(*optimizer, extra);
  optimizer.set_changed();
  OptimizerObject& object = optimizer_in(self);
  object.extras = nb::tuple(object.extras + nb::make_tuple(extra));
}

nb::dict state_of_optimizer(nb::handle self) {
  nb::dict out;
  const FilledOptimizer optimizer(self);
  for (const auto& [name, value] : optimizer->state()) out[name.c_str()] = wrap(value);
  return out;
}
void restore_optimizer(nb::handle self, const nb::dict& state) {
  const FilledOptimizer optimizer(self);
  optimizer.set_changed();
  optim::State made;
  for (const auto& [name, value] : state) made[nb::cast<std::string>(name)] = as_tensor(value);
  optimizer->restore(std::move(made), here());
}

}  // namespace

OptimizerObject optimizer_object(kinds::Made made, std::unique_ptr<RuleOptimizer> rule) {
  static uint64_t made_so_far = 0;  // guarded by the GIL
  OptimizerObject out{std::move(made), std::move(rule)};
  out.number = ++made_so_far;
  store(out);
  return out;
}

FilledOptimizer::FilledOptimizer(nb::handle optimizer)
    : held_(nb::borrow(optimizer)), object_(optimizer_in(optimizer)) {
  ETUDE_REQUIRE_CODE(kFailedPrecondition,
                     object_.fills == 0 || object_.user == std::this_thread::get_id(),
                     "the optimizer {} is in use by another thread. Use it from one thread at a "
                     "time, or give each thread a copy: copy.copy(optimizer)",
                     object_.made.description().kind);
  if (object_.fills == 0) fill(object_);
  ++object_.fills;
  object_.user = std::this_thread::get_id();
}
FilledOptimizer::~FilledOptimizer() {
  if (--object_.fills == 0) store(object_);
}

RunOptimizer::RunOptimizer(RuleOptimizer& rule, uint64_t key)
    : rule_(&rule), key_(key), slots_(StateOf::slots(rule)) {
  // The names of the state stay with the rule; its tensors have one owner.
  Slots& left = StateOf::slots(rule);
  for_each_leaf<Tensor>(left, [](Tensor& value) { value = Tensor(); });
  left.set_count(Tensor(std::vector<int64_t>{0}, Shape{}));
}
void RunOptimizer::exchange() noexcept { std::swap(slots_, StateOf::slots(*rule_)); }

Tensor RunOptimizer::loss_scale() const {
  const Tensor* const scale = slots_.find_number("loss_scale");
  return scale == nullptr ? Tensor() : *scale;
}
int64_t RunOptimizer::waiting() const {
  const Tensor* const calls = slots_.find_number("accumulated_calls");
  return calls == nullptr ? 0 : calls->item<int64_t>();
}

bool is_optimizer(nb::handle value) { return nb::isinstance<OptimizerObject>(value); }
std::span<const nb::object> leaves_of_optimizer(nb::handle value) {
  return optimizer_in(value).leaves;
}
const std::vector<std::string>& names_of_optimizer(nb::handle value) {
  return optimizer_in(value).names;
}
uint64_t key_of_optimizer(nb::handle value) {
  const OptimizerObject& object = optimizer_in(value);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, object.fills == 0,
                     "the optimizer {} is in use, and its state belongs to the training until it "
                     "ends. Copy or stage it afterwards; state() is readable now",
                     object.made.description().kind);
  return object.key;
}

nb::object optimizer_with(nb::handle like, std::vector<nb::object> leaves) {
  const OptimizerObject& from = optimizer_in(like);
  nb::object made = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(like.ptr()))));
  auto rule = kinds::optimizer_of(from.made, here());
  for (const nb::handle extra : from.extras) apply(*rule, nb::borrow<nb::tuple>(extra));
  Slots slots = StateOf::slots(*from.rule);  // the names
  for_each_leaf<Tensor>(slots, [](Tensor& value) { value = Tensor(); });
  StateOf::slots(*rule) = std::move(slots);
  new (nb::inst_ptr<OptimizerObject>(made))
      OptimizerObject{from.made, std::move(rule), std::move(leaves), from.names,
                      from.key,  from.number,     from.extras};
  nb::inst_mark_ready(made);
  return made;
}

void take_grown_state(nb::handle optimizer, nb::handle like, std::vector<nb::object> leaves) {
  OptimizerObject& object = optimizer_in(optimizer);
  const OptimizerObject& from = optimizer_in(like);
  Slots slots = StateOf::slots(*from.rule);
  for_each_leaf<Tensor>(slots, [](Tensor& value) { value = Tensor(); });
  StateOf::slots(*object.rule) = std::move(slots);
  object.leaves = std::move(leaves);
  object.names = from.names;
  object.key = from.key;
}

void bind_optimizers(nb::module_& m) {
  nb::class_<OptimizerObject> optimizer(
      m, "Optimizer", nb::is_weak_referenceable(),
      "An optimiser: its options, and its state. A structure of tensors: copies are independent, "
      "and a staged function takes it as a donated argument.");
  optimizer
      .def("__init__",
           [](OptimizerObject* self, const std::string& kind, const nb::tuple& args,
              const nb::dict& options) {
             kinds::Made made = make_kind(kind, args, options);
             auto own = kinds::optimizer_of(made, here());
             new (self) OptimizerObject(optimizer_object(std::move(made), std::move(own)));
           })
      .def("update", update, nb::arg("model"), nb::arg("gradients"),
           "Moves every tensor of the model against its gradient, in place.")
      .def("state", state_of_optimizer, "The state by name, with the number of updates.")
      .def("restore", restore_optimizer, nb::arg("state"))
      .def(
          "add",
          [](nb::handle self, const nb::args& transforms) {
            for (const nb::handle each : transforms) extend(self, nb::make_tuple("add", each));
          },
          "Appends transforms of gradients and updates, such as et.optim.clip_by_global_norm(1.0).")
      .def(
          "group",
          [](nb::handle self, const std::string& pattern, nb::handle lr, nb::handle weight_decay) {
            extend(self, nb::make_tuple("group", pattern, lr, weight_decay));
          },
          nb::arg("pattern"), nb::kw_only(), nb::arg("lr") = nb::none(),
          nb::arg("weight_decay") = nb::none(),
          "Sets other options for the tensors whose paths match a pattern, such as \"encoder/*\". "
          "The first group that matches applies.")
      .def_prop_ro("_extras", [](const OptimizerObject& self) { return self.extras; })
      .def("averaged", averaged, nb::arg("model"), nb::arg("name") = "ema",
           "A copy of the model with the averages of its tensors, such as those of optim.ema.")
      .def(
          "scale_rate",
          [](nb::handle self, double factor) {
            const FilledOptimizer optimizer(self);
            optimizer->scale_rate(factor, here());
          },
          nb::arg("factor"))
      .def_prop_ro("updates", [](nb::handle self) { return FilledOptimizer(self)->updates(); })
      .def_prop_ro("rate", [](nb::handle self) { return FilledOptimizer(self)->rate(); })
      .def("_description",
           [](const OptimizerObject& self) { return kinds::to_json(self.made.description()); })
      .def("__repr__",
           [](const OptimizerObject& self) { return self.made.description().to_string(); });
  set_optimizer_class(reinterpret_cast<PyTypeObject*>(optimizer.ptr()));
}

}  // namespace etude::python
