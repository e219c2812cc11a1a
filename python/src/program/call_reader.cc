// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/call_reader.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/ops.h"
#include "python/src/program/held.h"
#include "python/src/tensor_object.h"

namespace etude::python {

FunctionParameters::FunctionParameters(nb::handle described, nb::handle empty) {
  for (const nb::handle entry : nb::iter(described)) {
    FunctionParameter& made = all.emplace_back();
    made.name = nb::object(entry[0]).release().ptr();
    PyUnicode_InternInPlace(&made.name);
    made.text = nb::cast<std::string>(nb::handle(made.name));
    made.kind = static_cast<FunctionParameter::Kind>(nb::cast<int>(entry[1]));
    nb::object otherwise = entry[2];
    if (!otherwise.is(empty)) made.otherwise = otherwise.release().ptr();
  }
}

FunctionParameters::~FunctionParameters() {
  for (const FunctionParameter& parameter : all) {
    release_later(parameter.name);
    if (parameter.otherwise != nullptr) release_later(parameter.otherwise);
  }
}

FunctionParameter* FunctionParameters::find(std::string_view name) {
  const auto found = std::ranges::find(all, name, &FunctionParameter::text);
  return found == all.end() ? nullptr : &*found;
}

namespace {

template <class Item>
PyObject* new_tuple(std::size_t size, const Item& item) {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(size));
  if (tuple == nullptr) throw nb::python_error();
  for (std::size_t i = 0; i < size; ++i) {
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(item(i)));
  }
  return tuple;
}

}  // namespace

bool FunctionParameters::bind(PyObject* self, PyObject* const* args, std::size_t count,
                              PyObject* names, Bound& to) const {
  const std::size_t before = self != nullptr ? 1 : 0;
  const auto argument = [&](std::size_t i) { return i < before ? self : args[i - before]; };
  const std::size_t given = count + before;
  const std::size_t keywords =
      names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
  internal::InlineVector<uint8_t, 8> used(keywords);
  std::size_t next = 0;
  for (const FunctionParameter& parameter : all) {
    PyObject* value = nullptr;
    switch (parameter.kind) {
      case FunctionParameter::Kind::kArgs: {
        const std::size_t rest = given > next ? given - next : 0;
        if (next >= before) {
          to.rest = {args + (next - before), rest};
          to.values.push_back(nullptr);
          next += rest;
          continue;
        }
        PyObject* const tuple = new_tuple(rest, [&](std::size_t i) { return argument(next + i); });
        next += rest;
        to.holds.push_back(tuple);
        to.values.push_back(tuple);
        continue;
      }
      case FunctionParameter::Kind::kKwargs: {
        PyObject* const rest = PyDict_New();
        if (rest == nullptr) throw nb::python_error();
        to.holds.push_back(rest);
        for (std::size_t k = 0; k < keywords; ++k) {
          if (used[k] != 0) continue;
          used[k] = 1;
          PyObject* const key = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k));
          if (PyDict_SetItem(rest, key, args[count + k]) != 0) throw nb::python_error();
        }
        to.values.push_back(rest);
        continue;
      }
      default:
        break;
    }
    if (parameter.kind != FunctionParameter::Kind::kKeyword && next < given)
      value = argument(next++);
    if (value == nullptr && parameter.kind != FunctionParameter::Kind::kPositional) {
      for (std::size_t k = 0; k < keywords && value == nullptr; ++k) {
        PyObject* const key = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k));
        const bool is_it = key == parameter.name || PyUnicode_Compare(key, parameter.name) == 0;
        if (!is_it || used[k] != 0) continue;
        used[k] = 1;
        value = args[count + k];
      }
    }
    if (value == nullptr) value = parameter.otherwise;
    if (value == nullptr) return false;
    to.values.push_back(value);
  }
  return next == given &&
         std::all_of(used.begin(), used.end(), [](uint8_t is_used) { return is_used != 0; });
}

namespace {

// Tokens of leaves; a node has its address of a class, which is larger.
enum Token : uint64_t {
  kTensorLeaf = 1,
  kVariableLeaf,
  kHostLeaf,
  kStateLeaf,
  kEmptyLeaf,
  kNoneNode
};

constexpr int kDeep = 256;

uint64_t word_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

PyObject* interned(PyObject* key) {
  const bool is_it = PyUnicode_CheckExact(key) != 0 && PyUnicode_CHECK_INTERNED(key) != 0;
  return is_it ? key : canonical_key(key);
}

}  // namespace

void CallReader::leaf(uint64_t token, PyObject* object, const Tensor& value) {
  Py_INCREF(object);
  tokens.push_back(token);
  leaves.emplace_back(object, value);
}

void CallReader::read(const FunctionParameters::Bound& bound, std::size_t first) {
  for (std::size_t i = first; i < bound.values.size(); ++i) {
    if (bound.values[i] == nullptr) {
      rest(bound.rest);
    } else {
      read(bound.values[i], &parameters_.all[i]);
    }
  }
}

// The same tokens as of a tuple of these items.
void CallReader::rest(std::span<PyObject* const> items) {
  tokens.push_back(word_of(&PyTuple_Type));
  tokens.push_back(items.size());
  for (PyObject* item : items) read(item, nullptr);
}

void CallReader::read(PyObject* value, const FunctionParameter* parameter) {
  if (is_tensor_object(value)) return leaf(kTensorLeaf, value, tensor_in(value));
  if (parameter != nullptr && parameter->dtype && !is_variable(value)) {
    Tensor x = as_tensor(value);
    if (x.dtype() != *parameter->dtype) x = astype(x, *parameter->dtype);
    PyObject* const made = hold(wrap(std::move(x)).release().ptr());
    return leaf(kTensorLeaf, made, tensor_in(made));
  }
  const ClassInfo& info = class_of(Py_TYPE(value));
  switch (info.of) {
    case Class::kTensor:
      return leaf(kTensorLeaf, value, tensor_of(value));
    case Class::kVariable:
      return leaf(kVariableLeaf, value, Tensor());
    case Class::kArray: {
      PyObject* const made = hold(wrap(as_tensor(value)).release().ptr());
      return leaf(kTensorLeaf, made, tensor_in(made));
    }
    case Class::kNumber:
    case Class::kHost:
      return leaf(kHostLeaf, value, Tensor());
    case Class::kNode:
      break;
  }
  if (info.node == NodeKind::kNone) return tokens.push_back(kNoneNode);
  ETUDE_REQUIRE(++depth_ <= kDeep,
                "an argument is nested more than {} deep. Does a {} contain itself?", kDeep,
                type_text(value));
  node(info, value);
  --depth_;
}

void CallReader::node(const ClassInfo& info, PyObject* value) {
  tokens.push_back(word_of(info.type));
  switch (info.node) {
    case NodeKind::kList:
      tokens.push_back(static_cast<uint64_t>(PyList_GET_SIZE(value)));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
        read(PyList_GET_ITEM(value, i), nullptr);
      }
      return;
    case NodeKind::kTuple:
    case NodeKind::kNamedTuple:
      return items(value);
    case NodeKind::kDict:
      if (info.has_default) {
        PyObject* const make = hold(PyObject_GetAttrString(value, "default_factory"));
        tokens.push_back(word_of(canonical_key(make)));
      }
      return entries(hold(plain_dict(value).release().ptr()));
    case NodeKind::kModule:
      return entries(hold(PyObject_GenericGetDict(value, nullptr)));
    case NodeKind::kDataclass:
      for (PyObject* field : info.fields) read(hold(PyObject_GetAttr(value, field)), nullptr);
      return;
    case NodeKind::kLayer:
      return layer(value);
    case NodeKind::kOptimizer:
      optimizers.push_back({value, leaves.size()});
      tokens.push_back(key_of_optimizer(value));
      return held(leaves_of_optimizer(value));
    case NodeKind::kConstant:
      return read(hold(PyObject_GetAttrString(value, "value")), nullptr);
    default:
      break;
  }
  PyObject* const flat = hold(PyObject_CallOneArg(info.flatten, value));
  ETUDE_REQUIRE(PyTuple_Check(flat) != 0 && PyTuple_GET_SIZE(flat) == 2,
                "the flatten function of {} has to return (children, aux)", type_text(value));
  tokens.push_back(word_of(canonical_key(PyTuple_GET_ITEM(flat, 1))));
  items(hold(PySequence_Tuple(PyTuple_GET_ITEM(flat, 0))));
}

void CallReader::items(PyObject* tuple) {
  tokens.push_back(static_cast<uint64_t>(PyTuple_GET_SIZE(tuple)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    read(PyTuple_GET_ITEM(tuple, i), nullptr);
  }
}

void CallReader::entries(PyObject* dict) {
  tokens.push_back(static_cast<uint64_t>(PyDict_GET_SIZE(dict)));
  PyObject *key = nullptr, *item = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &item) != 0;) {
    tokens.push_back(word_of(interned(key)));
    read(item, nullptr);
  }
}

void CallReader::layer(PyObject* value) {
  tokens.push_back(key_of_layer(value));
  tokens.push_back(word_of(parts_of_layer(value).form()));
  held(leaves_of_layer(value));
}

// The leaves that an object of the library holds.
void CallReader::held(std::span<const nb::object> all) {
  for (const nb::object& each : all) {
    if (is_tensor_object(each.ptr())) {
      leaf(kTensorLeaf, each.ptr(), tensor_in(each.ptr()));
    } else if (each.is_none()) {
      leaf(kEmptyLeaf, each.ptr(), Tensor());
    } else if (is_variable(each)) {
      leaf(kVariableLeaf, each.ptr(), Tensor());
    } else {
      const std::optional<Tensor> state = value_of_state(each);
      leaf(state ? kStateLeaf : kEmptyLeaf, each.ptr(), state.value_or(Tensor()));
    }
  }
}

namespace {

nb::object tuple_of(std::span<PyObject* const> items) {
  return nb::steal(new_tuple(items.size(), [&](std::size_t i) { return items[i]; }));
}

}  // namespace

std::unique_ptr<CallLayout> layout_of(const FunctionParameters& parameters,
                                      const FunctionParameters::Bound& bound, std::size_t first,
                                      const CallReader& reader) {
  auto out = std::make_unique<CallLayout>();
  out->tokens.assign(reader.tokens.begin(), reader.tokens.end());
  std::vector<PyObject*> names;
  std::vector<const TreeDef*> parts;
  uint32_t base = 0;
  for (std::size_t i = first; i < bound.values.size(); ++i) {
    const FunctionParameter& parameter = parameters.all[i];
    std::vector<TreeLeaf> leaves;
    const nb::object value =
        bound.values[i] != nullptr ? nb::borrow(bound.values[i]) : tuple_of(bound.rest);
    const bool is_converted = parameter.dtype.has_value() && !is_variable(value);
    const TreeDef* def = nullptr;
    if (is_converted) {
      def = leaf_def(NodeKind::kTensor);
      leaves.push_back({value, 0});
    } else {
      def = flatten(value, Numbers::kKeep, leaves);
    }
    names.push_back(parameter.name);
    parts.push_back(def);
    for (const TreeLeaf& leaf : leaves) {
      out->order.push_back(base + leaf.position);
      out->is_donated.push_back(parameter.is_donated ? 1 : 0);
      out->has_donated = out->has_donated || parameter.is_donated;
    }
    base += static_cast<uint32_t>(leaves.size());
  }
  ETUDE_CHECK(base == reader.leaves.size(), "a call was read in two ways");
  out->def = make_def(NodeKind::kNamedTuple, &PyTuple_Type, std::move(names), std::move(parts));
  out->has_hosts = std::ranges::count(out->def->leaves, NodeKind::kHost) > 0;
  out->has_states = std::ranges::count(out->def->leaves, NodeKind::kState) > 0;
  out->is_plain = true;
  for (std::size_t i = 0; i < out->order.size(); ++i) {
    out->is_plain = out->is_plain && out->order[i] == i && out->def->leaves[i] == NodeKind::kTensor;
  }
  return out;
}

namespace {

template <class Names>
class Collector {
 public:
  Collector(internal::Arguments& to, Names names) : to_(to), names_(std::move(names)) {}

  void structure(const TreeDef& def) {
    [[maybe_unused]] const auto scope = names_.enter(std::string_view("the structure"));
    if constexpr (kIsNamed) names_.text(def.to_string());
    word(reinterpret_cast<std::uintptr_t>(&def));
  }
  void tensor(const std::string& path, Tensor& x) {
    if (to_.splits_slices && x.has_value() && TensorAccess::is_sparse(x)) [[unlikely]] {
      internal::ArgumentFlattener<Names>(to_, names_).argument(path, x);
      return;
    }
    [[maybe_unused]] const auto scope = names_.enter(std::string_view(path));
    to_.tensors.push_back(&x);
    names_.tensor();
  }
  void variable(const std::string& path, Variable& x) {
    internal::ArgumentFlattener<Names>(to_, names_).argument(path, x);
  }
  void host(const std::string& path, HostLeaf& leaf, PyObject* object,
            const std::string& function) {
    [[maybe_unused]] const auto scope = names_.enter(std::string_view(path));
    if constexpr (kIsNamed) names_.text(host_text(object));
    if (host_words(object, [this](uint64_t bits) { word(bits); })) return;
    leaf = host_leaf(object, path, function);
    to_.objects.push_back(host_value(leaf));
    names_.object();
  }

 private:
  static constexpr bool kIsNamed = !std::is_same_v<Names, internal::NoNames>;
  void word(uint64_t bits) {
    to_.words.push_back(bits);
    names_.word();
  }
  internal::Arguments& to_;
  Names names_;
};

template <class Names>
void collect_with(const CallLayout& layout, CallReader& reader, std::vector<HostLeaf>& hosts,
                  const std::string& function, internal::Arguments& to, Names names) {
  Collector<Names> collector(to, std::move(names));
  const TreeDef& def = *layout.def;
  collector.structure(def);
  if constexpr (std::is_same_v<Names, internal::NoNames>) {
    if (layout.is_plain) {
      for (CallReader::Leaf& leaf : reader.leaves) collector.tensor({}, leaf.value);
      return;
    }
  }
  for (std::size_t i = 0; i < layout.order.size(); ++i) {
    CallReader::Leaf& leaf = reader.leaves[layout.order[i]];
    switch (def.leaves[i]) {
      case NodeKind::kVariable:
        collector.variable(def.paths[i], variable_of(leaf.object));
        break;
      case NodeKind::kHost:
        collector.host(def.paths[i], hosts[i], leaf.object, function);
        break;
      default:
        collector.tensor(def.paths[i], leaf.value);
    }
  }
}

}  // namespace

void require_distinct(const CallLayout& layout, const CallReader& reader,
                      const std::string& function) {
  std::unordered_map<const PyObject*, std::size_t> seen;
  for (std::size_t i = 0; i < layout.order.size(); ++i) {
    const NodeKind kind = layout.def->leaves[i];
    if (kind != NodeKind::kTensor && kind != NodeKind::kState) continue;
    const PyObject* const object = reader.leaves[layout.order[i]].object;
    if (object == Py_None) continue;  // an absent part
    const auto [at, is_new] = seen.emplace(object, i);
    ETUDE_REQUIRE(is_new || (layout.is_donated[i] == 0 && layout.is_donated[at->second] == 0),
                  "function '{}': {} and {} are the same object, and the function may write to it. "
                  "Pass two objects: x.copy(). Keep a layer at one path and call it twice",
                  function, layout.def->paths[at->second], layout.def->paths[i]);
  }
}

void collect(const CallLayout& layout, CallReader& reader, std::vector<HostLeaf>& hosts,
             const std::string& function, internal::Arguments& to, internal::ArgumentNames* names) {
  hosts.resize(layout.has_hosts ? layout.order.size() : 0);
  if (names == nullptr) {
    collect_with(layout, reader, hosts, function, to, internal::NoNames());
  } else {
    collect_with(layout, reader, hosts, function, to, internal::PathNames(*names));
  }
}

}  // namespace etude::python
