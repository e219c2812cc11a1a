// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/layers.h"

#include <unordered_map>
#include <utility>

#include <nanobind/stl/string.h>

#include "etude/base/check.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

// State of a layer as a leaf.
struct StateObject {
  LayerState<Tensor> state;
};
struct NewStateObject {
  NewState<Tensor> state;
};

// A part of a layer with a name: layer.running of "running/mean".
struct LayerView {
  KeptObject layer;
  std::string prefix;  // "running/"
};

LayerObject& layer_in(nb::handle value) { return *nb::inst_ptr<LayerObject>(value); }

nb::object value_of_leaf(const nb::object& leaf) {
  if (nb::isinstance<StateObject>(leaf)) return wrap(nb::cast<StateObject&>(leaf).state.value);
  if (nb::isinstance<NewStateObject>(leaf)) {
    const NewState<Tensor>& state = nb::cast<NewStateObject&>(leaf).state;
    return state.value ? wrap(*state.value) : nb::none();
  }
  return leaf;
}

// The position of a path among the leaves; none if there is none.
std::optional<std::size_t> position_of(const LayerObject& layer, const std::string& path) {
  std::size_t i = 0;
  for (const FormLeaf& leaf : layer.code.form()->leaves()) {
    if (leaf.kind == LeafKind::kHost) continue;
    if (leaf.path == path) return i;
    ++i;
  }
  return std::nullopt;
}
bool has_prefix(const LayerObject& layer, const std::string& prefix) {
  for (const FormLeaf& leaf : layer.code.form()->leaves()) {
    if (leaf.path.starts_with(prefix)) return true;
  }
  return false;
}

nb::object attribute(nb::handle layer, const std::string& path) {
  const LayerObject& of = layer_in(layer);
  if (const auto at = position_of(of, path)) return value_of_leaf(of.leaves[*at]);
  if (has_prefix(of, path + "/")) {
    return nb::cast(LayerView{KeptObject(nb::borrow(layer)), path + "/"});
  }
  if (of.code.form()->find(path) != nullptr) return nb::none();  // an optional part
  std::string text =
      "'" + std::string(Py_TYPE(layer.ptr())->tp_name) + "' has no attribute '" + path + "'";
  if (!path.starts_with('_')) {
    const nb::module_ names = nb::module_::import_("etude._other_names");
    text += nb::cast<std::string>(names.attr("hint")(path));
  }
  PyErr_SetString(PyExc_AttributeError, text.c_str());
  throw nb::python_error();
}

void set_attribute(nb::handle layer, const std::string& path, nb::handle value) {
  LayerObject& of = layer_in(layer);
  const auto at = position_of(of, path);
  if (!at) {
    const nb::object text = nb::module_::import_("etude._kinds").attr("no_parameter")(layer, path);
    PyErr_SetObject(PyExc_AttributeError, text.ptr());
    throw nb::python_error();
  }
  nb::object& leaf = of.leaves[*at];
  if (nb::isinstance<StateObject>(leaf)) {
    leaf = nb::cast(StateObject{LayerState<Tensor>(as_tensor(value))});
  } else if (nb::isinstance<NewStateObject>(leaf)) {
    leaf = nb::cast(NewStateObject{NewState<Tensor>{{as_tensor(value)}}});
  } else {
    leaf = is_tensor(value) ? nb::borrow(value) : wrap(as_tensor(value));
  }
}

nb::list names_of(const LayerObject& layer, const std::string& prefix) {
  nb::list out;
  std::string last;
  for (const FormLeaf& leaf : layer.code.form()->leaves()) {
    if (leaf.kind == LeafKind::kHost || !leaf.path.starts_with(prefix)) continue;
    const std::string rest = leaf.path.substr(prefix.size());
    const std::string name = rest.substr(0, rest.find('/'));
    if (name == last) continue;
    out.append(name);
    last = name;
  }
  return out;
}

// A layer without tensors, and its tensors as objects.
LayerObject object_of(const nn::Layer& layer, std::optional<kinds::Made> made) {
  LayerObject out{layer, {}, std::move(made), nullptr};
  out.code.each_part([&](const FormLeaf&, auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Leaf, Tensor>) {
      out.leaves.push_back(wrap(std::move(value)));
    } else if constexpr (std::is_same_v<Leaf, Variable>) {
      out.leaves.push_back(wrap_variable(value));
    } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
      out.leaves.push_back(wrap_state(std::exchange(value, {})));
    } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
      out.leaves.push_back(wrap_new_state(std::exchange(value, {})));
    }
  });
  return out;
}

// The layer of a kind.
LayerObject object_of(const kinds::Made& made) {
  std::shared_ptr<const SeveralInputs> several = several_inputs(made);
  LayerObject out = object_of(
      several != nullptr ? layer_of_several(several) : kinds::layer_of(made, here()), made);
  out.several = std::move(several);
  return out;
}

// The tensors of the arguments of a call; an argument of several tensors is a tuple or a list.
std::vector<Tensor> inputs_of(const SeveralInputs& several, const nb::tuple& args) {
  std::vector<Tensor> out;
  bool fits = args.size() == several.counts.size();
  for (std::size_t i = 0; fits && i < args.size(); ++i) {
    const nb::object arg = args[i];
    const bool is_list = PyTuple_Check(arg.ptr()) != 0 || PyList_Check(arg.ptr()) != 0;
    if (several.counts[i] == 1) {
      out.push_back(as_tensor(arg));
      continue;
    }
    fits = is_list && nb::len(arg) == several.counts[i];
    for (std::size_t k = 0; fits && k < several.counts[i]; ++k) {
      out.push_back(as_tensor(nb::object(arg[k])));
    }
  }
  ETUDE_REQUIRE(fits, "{}: the arguments do not fit. It is called as cell_or_layer{}", several.name,
                several.arguments);
  return out;
}

PyObject* pair_class = nullptr;  // of states (h, c)

nb::object results_of(const SeveralInputs& several, std::vector<Tensor> results) {
  if (!several.returns_pair) return wrap(std::move(results[0]));
  return nb::handle(pair_class)(wrap(std::move(results[0])), wrap(std::move(results[1])));
}

nb::object call_several(const LayerObject& layer, const nb::tuple& args) {
  const SeveralInputs& several = *layer.several;
  const std::vector<Tensor> inputs = inputs_of(several, args);
  const Parts parts = layer.parts();
  return results_of(several, with_user_line([&] {
                      const CallSite where = internal::user_line({});
                      return released([&] { return several.call(parts, inputs, where); });
                    }));
}

nb::object zero_state(const LayerObject& layer, int64_t n, nb::handle dtype) {
  ETUDE_REQUIRE(layer.several != nullptr && layer.several->zero_state != nullptr,
                "{} has no zero_state(n): it is for cells of vectors", layer.made->kind().name);
  const DType as = dtype.is_none() ? kFloat32 : as_dtype(dtype);
  const Parts parts = layer.parts();
  return results_of(*layer.several,
                    with_user_line([&] { return layer.several->zero_state(parts, n, as); }));
}

nb::object call_layer(nb::handle self, const nb::args& args) {
  const LayerObject& layer = layer_in(self);
  if (layer.several != nullptr) return call_several(layer, args);
  if (args.size() != 1) {
    const std::string text = std::string(Py_TYPE(self.ptr())->tp_name) +
                             "() takes one tensor, but " + std::to_string(args.size()) +
                             " arguments were given";
    throw nb::type_error(text.c_str());
  }
  const Tensor input = as_tensor(nb::object(args[0]));
  const Parts parts = layer.parts();
  return with_user_line([&] {
    const CallSite where = internal::user_line({});
    const auto run = [&] { return layer.code.with_parts(parts)(input, where); };
    // Small layers with nothing around them keep the GIL, as small calls do.
    const bool is_small = input.has_value() && input.nbytes() <= kSmallBytes;
    return wrap(is_small && internal::mode_word == 0 ? run() : released(run));
  });
}

}  // namespace

Parts LayerObject::parts() const {
  Parts out = code;
  std::size_t i = 0;
  out.each_part([&](const FormLeaf&, auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Leaf, Tensor>) {
      const nb::object& leaf = leaves[i++];
      if (!leaf.is_none()) value = as_tensor(leaf);
    } else if constexpr (std::is_same_v<Leaf, Variable>) {
      value = variable_of(leaves[i++]);
    } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
      const nb::object& leaf = leaves[i++];
      if (!leaf.is_none()) value = state_of(leaf);
    } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
      value = new_state_of(leaves[i++]);
    }
  });
  return out;
}

nb::object wrap_state(LayerState<Tensor> state) { return nb::cast(StateObject{std::move(state)}); }
nb::object wrap_new_state(NewState<Tensor> state) {
  return nb::cast(NewStateObject{std::move(state)});
}
nb::object wrap_leaf(NodeKind kind, Tensor value) {
  switch (kind) {
    case NodeKind::kState:
      return wrap_state(LayerState<Tensor>(std::move(value)));
    case NodeKind::kNewState: {
      NewState<Tensor> update;
      if (value.has_value()) update.value = std::move(value);
      return wrap_new_state(std::move(update));
    }
    default:
      return wrap(std::move(value));
  }
}
bool is_state(nb::handle leaf) { return nb::isinstance<StateObject>(leaf); }
LayerState<Tensor>& state_of(nb::handle leaf) {
  ETUDE_REQUIRE(is_state(leaf), "a part of a layer is a {}, but must be its state",
                type_text(leaf));
  return nb::cast<StateObject&>(leaf).state;
}
NewState<Tensor> new_state_of(nb::handle leaf) {
  if (leaf.is_none()) return {};
  if (is_tensor(leaf)) return NewState<Tensor>{{tensor_of(leaf)}};
  if (is_state(leaf)) {  // of a gradient that a staged function returned
    const Tensor& value = nb::cast<StateObject&>(leaf).state.value;
    return value.has_value() ? NewState<Tensor>{{value}} : NewState<Tensor>();
  }
  ETUDE_REQUIRE(nb::isinstance<NewStateObject>(leaf),
                "a part of a tangent is a {}, but must be the new state of a layer",
                type_text(leaf));
  return nb::cast<NewStateObject&>(leaf).state;
}
std::optional<Tensor> value_of_state(nb::handle leaf) {
  if (leaf.is_none()) return std::nullopt;
  if (is_state(leaf)) return nb::cast<StateObject&>(leaf).state.value;
  return new_state_of(leaf).value;
}
nb::object state_with(nb::handle leaf, Tensor value) {
  if (nb::isinstance<StateObject>(leaf)) {
    LayerState<Tensor> state = nb::cast<StateObject&>(leaf).state;
    state.value = std::move(value);
    return wrap_state(std::move(state));
  }
  return wrap_new_state(NewState<Tensor>{{std::move(value)}});
}

bool is_layer(nb::handle value) { return nb::isinstance<LayerObject>(value); }
const Parts& parts_of_layer(nb::handle layer) { return layer_in(layer).code; }
std::span<const nb::object> leaves_of_layer(nb::handle layer) { return layer_in(layer).leaves; }
uint64_t key_of_layer(nb::handle layer) {
  LayerObject& of = layer_in(layer);
  if (of.key == 0) {
    const uint64_t own = of.code.function_key();
    of.key = number_of_text(of.made ? options_text(*of.made, own) : std::to_string(own));
  }
  return of.key;
}

uint64_t number_of_text(const std::string& text) {
  static auto* const numbers = new std::unordered_map<std::string, uint64_t>;
  return numbers->emplace(text, numbers->size() + 1).first->second;
}

std::string options_text(const kinds::Made& made, uint64_t otherwise) {
  try {
    return kinds::to_json(made.description());
  } catch (const Error&) {
    return std::to_string(otherwise);
  }
}

nb::object layer_with(nb::handle like, std::vector<nb::object> leaves) {
  const LayerObject& from = layer_in(like);
  nb::object made = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(like.ptr()))));
  new (nb::inst_ptr<LayerObject>(made))
      LayerObject{from.code, std::move(leaves), from.made, from.several, from.key};
  nb::inst_mark_ready(made);
  return made;
}

nb::object layer_object(nb::handle type, const kinds::Made& made) {
  nb::object out = nb::inst_alloc(type);
  new (nb::inst_ptr<LayerObject>(out)) LayerObject(object_of(made));
  nb::inst_mark_ready(out);
  return out;
}

nb::object wrap_variable(const Variable& variable) { return nb::cast(variable); }

void bind_layers(nb::module_& m) {
  nb::class_<StateObject>(m, "_State")
      .def_prop_ro("value", [](const StateObject& s) { return wrap(s.state.value); })
      .def("copy", [](const StateObject& s) { return wrap_state(s.state); });
  nb::class_<NewStateObject>(m, "_NewState").def_prop_ro("value", [](const NewStateObject& s) {
    return s.state.value ? wrap(*s.state.value) : nb::none();
  });
  nb::class_<LayerView>(m, "_LayerView")
      .def("__getattr__",
           [](const LayerView& v, const std::string& name) {
             return attribute(v.layer.get(), v.prefix + name);
           })
      .def("__setattr__",
           [](const LayerView& v, const std::string& name, nb::handle value) {
             set_attribute(v.layer.get(), v.prefix + name, value);
           })
      .def("__dir__",
           [](const LayerView& v) { return names_of(layer_in(v.layer.get()), v.prefix); });
  nb::class_<LayerObject> layer(m, "Layer", nb::is_weak_referenceable(),
                                "A layer of the library: a callable with parameters.");
  layer
      .def("__init__",
           [](nb::pointer_and_handle<LayerObject> self, const std::string& kind,
              const nb::tuple& args, const nb::dict& options) {
             const kinds::Made made = make_kind(kind, args, options);
             new (self.p) LayerObject(object_of(made));
           })
      .def("__call__", call_layer)
      .def("_zero_state", zero_state, nb::arg("n"), nb::arg("dtype").none())
      .def("__getattr__",
           [](nb::handle self, const std::string& name) { return attribute(self, name); })
      .def("_set", [](nb::handle self, const std::string& path,
                      nb::handle value) { set_attribute(self, path, value); })
      .def("_has", [](const LayerObject& self,
                      const std::string& path) { return position_of(self, path).has_value(); })
      .def("_names", names_of, nb::arg("prefix") = "")
      .def("_description",
           [](const LayerObject& self) -> nb::object {
             if (!self.made || !self.made->is_described()) return nb::none();
             return nb::str(kinds::to_json(self.made->description()).c_str());
           })
      .def("_text", [](const LayerObject& self) {
        return self.made && self.made->is_described() ? self.made->description().to_string()
                                                      : std::string("Layer");
      });
  m.def("_set_pair_class", [](nb::handle type) { pair_class = type.inc_ref().ptr(); });
  set_layer_class(reinterpret_cast<PyTypeObject*>(layer.ptr()));
}

}  // namespace etude::python
