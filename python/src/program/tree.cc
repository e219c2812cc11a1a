// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/tree.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "etude/base/check.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

constexpr int kMostNested = 256;

bool is_leaf(NodeKind kind) { return kind <= NodeKind::kHost; }

// Values without meaning, for the Variables of a prototype.
const Variable& no_variable() {
  static const Variable* const variable = new Variable(Tensor(0.0F), {.trainable = false}, {});
  return *variable;
}

Parts leaf_prototype(NodeKind kind) {
  switch (kind) {
    case NodeKind::kTensor:
      return Parts(Tensor());
    case NodeKind::kVariable:
      return Parts(no_variable());
    case NodeKind::kState:
      return Parts(LayerState<Tensor>());
    case NodeKind::kNewState:
      return Parts(NewState<Tensor>());
    default:
      return Parts::optional(std::nullopt);
  }
}

// The path components of the parts of a node.
std::vector<std::string> names_of(const TreeDef& def) {
  std::vector<std::string> out;
  if (def.kind == NodeKind::kLayer) {
    for (const FormLeaf& leaf : parts_of_layer(def.aux).form()->leaves()) {
      if (leaf.kind != LeafKind::kHost) out.push_back(leaf.path);
    }
    return out;
  }
  if (def.kind == NodeKind::kOptimizer) return names_of_optimizer(def.aux);
  for (std::size_t i = 0; i < def.parts.size(); ++i) {
    out.push_back(def.keys.empty() ? std::to_string(i) : key_text(def.keys[i]));
  }
  return out;
}

Parts prototype_of(const TreeDef& def) {
  std::vector<Named> named;
  std::vector<Parts> list;
  switch (def.kind) {
    case NodeKind::kNone:
      return Parts::optional(std::nullopt);
    case NodeKind::kLayer: {
      Parts out = parts_of_layer(def.aux);
      out.each_part([](const FormLeaf&, auto& value) {
        using Leaf = std::remove_cvref_t<decltype(value)>;
        if constexpr (!std::is_same_v<Leaf, Described> && !std::is_same_v<Leaf, Variable>) {
          value = Leaf();
        }
      });
      return out;
    }
    case NodeKind::kConstant:
      return def.parts[0]->prototype.constant();
    case NodeKind::kOptimizer:
      for (const std::string& name : def.names) named.emplace_back(name, Parts(Tensor()));
      return Parts::fields(std::move(named)).constant();
    case NodeKind::kDict:
    case NodeKind::kNamedTuple:
    case NodeKind::kDataclass:
    case NodeKind::kModule:
      for (std::size_t i = 0; i < def.parts.size(); ++i) {
        named.emplace_back(def.names[i], def.parts[i]->prototype);
      }
      return def.kind == NodeKind::kDict ? Parts::map(std::move(named))
                                         : Parts::fields(std::move(named));
    default:
      for (const TreeDef* part : def.parts) list.push_back(part->prototype);
      return Parts::list(std::move(list));
  }
}

void complete(TreeDef& def) {
  if (is_leaf(def.kind)) {
    def.leaves = {def.kind};
    def.paths = {""};
    def.form_leaves = {def.kind == NodeKind::kHost ? -1 : 0};
    def.prototype = leaf_prototype(def.kind);
    return;
  }
  def.names = names_of(def);
  def.prototype = prototype_of(def);
  const bool adds_name = def.kind != NodeKind::kConstant;
  for (std::size_t i = 0; i < def.parts.size(); ++i) {
    const TreeDef& part = *def.parts[i];
    def.leaves.insert(def.leaves.end(), part.leaves.begin(), part.leaves.end());
    for (const std::string& path : part.paths) {
      def.paths.push_back(!adds_name     ? path
                          : path.empty() ? def.names[i]
                                         : def.names[i] + "/" + path);
    }
  }
  const std::vector<FormLeaf>& form = def.form()->leaves();
  std::size_t next = 0;
  for (const NodeKind kind : def.leaves) {
    if (kind != NodeKind::kHost) {
      while (form[next].kind == LeafKind::kHost) ++next;  // options of a layer
    }
    def.form_leaves.push_back(kind == NodeKind::kHost ? -1 : static_cast<int32_t>(next++));
  }
}

struct DefTable {
  std::unordered_map<std::string, std::unique_ptr<TreeDef>> all;
  static DefTable& get() {
    static DefTable* const table = new DefTable;
    return *table;
  }
};

template <class T>
void append(std::string& key, T word) {
  key.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

// Reads a pytree. Leaves are appended in the order of the containers; a dict then sorts
// the leaves of its values by its keys.
class Reader {
 public:
  Reader(Numbers numbers, std::vector<TreeLeaf>& leaves) : numbers_(numbers), leaves_(leaves) {}

  const TreeDef* read(nb::handle value, bool in_class = false) {
    const ClassInfo& info = class_of(Py_TYPE(value.ptr()));
    switch (info.of) {
      case Class::kTensor:
        return leaf(NodeKind::kTensor, nb::borrow(value));
      case Class::kVariable:
        if (numbers_ != Numbers::kValues) return leaf(NodeKind::kVariable, nb::borrow(value));
        return leaf(NodeKind::kTensor, wrap(variable_of(value).read()));
      case Class::kArray:
        return leaf(NodeKind::kTensor, wrap(as_tensor(value)));
      case Class::kNumber:
        if (becomes_tensor(value, in_class)) return leaf(NodeKind::kTensor, wrap(as_tensor(value)));
        return leaf(NodeKind::kHost, nb::borrow(value));
      case Class::kHost:
        return host(value);
      case Class::kNode:
        break;
    }
    ETUDE_REQUIRE(++depth_ <= kMostNested,
                  "a structure is nested more than {} deep. Does a {} contain itself?", kMostNested,
                  type_text(value));
    const TreeDef* out = node(info, value, in_class);
    --depth_;
    return out;
  }

 private:
  bool becomes_tensor(nb::handle value, bool in_class) const {
    if (numbers_ >= Numbers::kAll) return true;
    if (numbers_ == Numbers::kKeep || in_class) return false;
    return PyFloat_Check(value.ptr()) || PyComplex_Check(value.ptr());
  }
  const TreeDef* leaf(NodeKind kind, nb::object value) {
    leaves_.push_back({std::move(value), next_++});
    return leaf_def(kind);
  }
  const TreeDef* host(nb::handle value) { return leaf(NodeKind::kHost, nb::borrow(value)); }

  const TreeDef* node(const ClassInfo& info, nb::handle value, bool in_class) {
    std::vector<const TreeDef*> parts;
    switch (info.node) {
      case NodeKind::kNone:
        return make_def(NodeKind::kNone, nullptr, {}, {});
      case NodeKind::kList: {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value.ptr()); ++i) {
          parts.push_back(read(nb::borrow(PyList_GET_ITEM(value.ptr(), i)), in_class));
        }
        return make_def(info.node, info.type, {}, std::move(parts));
      }
      case NodeKind::kTuple:
      case NodeKind::kNamedTuple:
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value.ptr()); ++i) {
          parts.push_back(read(PyTuple_GET_ITEM(value.ptr(), i), in_class));
        }
        return make_def(info.node, info.type, info.fields, std::move(parts));
      case NodeKind::kDict:
        return dict(info, value, in_class);
      case NodeKind::kDataclass:
        for (PyObject* field : info.fields) parts.push_back(read(nb::getattr(value, field), true));
        return make_def(info.node, info.type, info.fields, std::move(parts));
      case NodeKind::kModule:
        return module(info, value);
      case NodeKind::kLayer:
        return layer(info, value);
      case NodeKind::kOptimizer:
        for (const nb::object& each : leaves_of_optimizer(value)) {
          parts.push_back(leaf(NodeKind::kTensor, each));
        }
        return make_def(info.node, info.type, {}, std::move(parts), value.ptr());
      case NodeKind::kConstant:
        parts.push_back(read(value.attr("value"), in_class));
        return make_def(info.node, info.type, {}, std::move(parts));
      default:
        return custom(info, value);
    }
  }

  // A part and the range of its leaves.
  struct Entry {
    std::string name;
    PyObject* key;
    const TreeDef* def;
    std::size_t begin, end;
  };

  const TreeDef* dict(const ClassInfo& info, nb::handle value, bool in_class) {
    std::vector<Entry> entries;
    const nb::object plain = plain_dict(value);
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(plain.ptr(), &at, &key, &item) != 0;) {
      const nb::object held_key = nb::borrow(key), held_item = nb::borrow(item);
      PyObject* const canonical = canonical_key(key);
      const std::size_t begin = leaves_.size();
      const TreeDef* def = read(held_item, in_class);
      entries.push_back({key_text(canonical), canonical, def, begin, leaves_.size()});
    }
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, {}, [&](std::size_t i) -> auto& { return entries[i].name; });
    PyObject* aux = nullptr;
    if (info.has_default) {
      aux = canonical_key(nb::object(nb::getattr(value, "default_factory")).ptr());
    }
    return sorted(info, entries, order, aux);
  }

  const TreeDef* sorted(const ClassInfo& info, const std::vector<Entry>& entries,
                        const std::vector<std::size_t>& order, PyObject* aux) {
    std::vector<const TreeDef*> parts;
    std::vector<PyObject*> keys;
    std::vector<TreeLeaf> moved;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Entry& entry = entries[order[k]];
      ETUDE_REQUIRE(k == 0 || entries[order[k - 1]].name != entry.name,
                    "a dict has two keys that read '{}'. Keys of structures name their parts: give "
                    "them different texts",
                    entry.name);
      parts.push_back(entry.def);
      keys.push_back(entry.key);
      for (std::size_t i = entry.begin; i < entry.end; ++i) moved.push_back(std::move(leaves_[i]));
    }
    if (!entries.empty()) {
      std::ranges::move(moved, leaves_.begin() + static_cast<std::ptrdiff_t>(entries[0].begin));
    }
    std::vector<uint32_t> places;
    if (!std::ranges::is_sorted(order)) {
      places.resize(order.size());
      for (std::size_t k = 0; k < order.size(); ++k) places[order[k]] = static_cast<uint32_t>(k);
    }
    return make_def(info.node, info.type, std::move(keys), std::move(parts), aux,
                    std::move(places));
  }

  const TreeDef* module(const ClassInfo& info, nb::handle value) {
    std::vector<const TreeDef*> parts;
    std::vector<PyObject*> keys;
    const nb::object fields = value.attr("__dict__");
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(fields.ptr(), &at, &key, &item) != 0;) {
      keys.push_back(canonical_key(key));
      const nb::object held = nb::borrow(item);
      parts.push_back(read(held, true));
    }
    return make_def(info.node, info.type, std::move(keys), std::move(parts));
  }

  const TreeDef* layer(const ClassInfo& info, nb::handle value) {
    std::vector<const TreeDef*> parts;
    const std::span<const nb::object> leaves = leaves_of_layer(value);
    std::size_t i = 0;
    for (const FormLeaf& of : parts_of_layer(value).form()->leaves()) {
      if (of.kind == LeafKind::kHost) continue;
      const NodeKind kind = of.kind == LeafKind::kTensor     ? NodeKind::kTensor
                            : of.kind == LeafKind::kVariable ? NodeKind::kVariable
                            : of.kind == LeafKind::kState    ? NodeKind::kState
                                                             : NodeKind::kNewState;
      parts.push_back(leaf(kind, leaves[i++]));
    }
    return make_def(info.node, info.type, {}, std::move(parts), value.ptr());
  }

  const TreeDef* custom(const ClassInfo& info, nb::handle value) {
    const nb::tuple flat = nb::cast<nb::tuple>(nb::handle(info.flatten)(value));
    ETUDE_REQUIRE(flat.size() == 2,
                  "the flatten function of {} returned {} values. It returns the children and the "
                  "rest: (children, aux)",
                  type_text(value), flat.size());
    std::vector<const TreeDef*> parts;
    for (const nb::handle child : flat[0]) parts.push_back(read(child, true));
    PyObject* const aux = canonical_key(nb::object(flat[1]).ptr());
    return make_def(info.node, info.type, {}, std::move(parts), aux);
  }

  Numbers numbers_;
  std::vector<TreeLeaf>& leaves_;
  uint32_t next_ = 0;
  int depth_ = 0;
};

}  // namespace

const TreeDef* leaf_def(NodeKind kind) {
  static const TreeDef* defs[5] = {};
  const auto at = static_cast<std::size_t>(kind);
  if (defs[at] == nullptr) {
    auto* const made = new TreeDef;
    made->kind = kind;
    made->unordered = made;
    complete(*made);
    defs[at] = made;
  }
  return defs[at];
}

nb::object plain_dict(nb::handle dict) {
  if (Py_TYPE(dict.ptr()) == &PyDict_Type) return nb::borrow(dict);
  nb::dict out;
  if (PyDict_Update(out.ptr(), dict.ptr()) != 0) throw nb::python_error();
  return out;
}

namespace {

// The def without orders of keys: itself if it has none.
const TreeDef* unordered_of(const TreeDef& def) {
  std::vector<const TreeDef*> parts;
  bool has_order = !def.order.empty();
  for (const TreeDef* part : def.parts) {
    parts.push_back(part->unordered);
    has_order = has_order || part->unordered != part;
  }
  if (!has_order) return &def;
  return make_def(def.kind, def.type, def.keys, std::move(parts), def.aux);
}

}  // namespace

const TreeDef* make_def(NodeKind kind, PyTypeObject* type, std::vector<PyObject*> keys,
                        std::vector<const TreeDef*> parts, PyObject* aux,
                        std::vector<uint32_t> order) {
  std::string key;
  append(key, kind);
  append(key, type);
  append(key, keys.size());
  for (PyObject* each : keys) append(key, each);
  for (const TreeDef* part : parts) append(key, part);
  append(key, order.size());
  for (const uint32_t place : order) append(key, place);
  if (kind == NodeKind::kLayer) {
    append(key, key_of_layer(aux));
    append(key, parts_of_layer(aux).form());
  } else if (kind == NodeKind::kOptimizer) {
    append(key, key_of_optimizer(aux));
  } else {
    append(key, aux);
  }
  auto& all = DefTable::get().all;
  if (const auto found = all.find(key); found != all.end()) return found->second.get();
  auto made = std::make_unique<TreeDef>();
  made->kind = kind;
  made->type = type;
  made->keys = std::move(keys);
  made->parts = std::move(parts);
  made->order = std::move(order);
  // Of a layer or an optimiser, a copy without tensors: the definition is never freed.
  if (kind == NodeKind::kLayer || kind == NodeKind::kOptimizer) {
    std::vector<nb::object> none(made->parts.size(), nb::none());
    nb::object copy = kind == NodeKind::kLayer ? layer_with(aux, std::move(none))
                                               : optimizer_with(aux, std::move(none));
    aux = copy.release().ptr();
  } else if (aux != nullptr) {
    Py_INCREF(aux);
  }
  made->aux = aux;
  if (type != nullptr) Py_INCREF(type);
  complete(*made);
  made->unordered = unordered_of(*made);
  return all.emplace(std::move(key), std::move(made)).first->second.get();
}

const TreeDef* flatten(nb::handle value, Numbers numbers, std::vector<TreeLeaf>& leaves) {
  return Reader(numbers, leaves).read(value);
}

Tree tree_of(nb::handle value, Numbers numbers) {
  std::vector<TreeLeaf> leaves;
  Tree out;
  out.def = flatten(value, numbers, leaves);
  out.leaves.reserve(leaves.size());
  for (TreeLeaf& leaf : leaves) out.leaves.push_back(std::move(leaf.value));
  return out;
}

namespace {

// The names of a path in Python's spelling.
void python_path_of(const TreeDef& def, std::size_t leaf, std::string& out) {
  if (is_leaf(def.kind)) return;
  for (std::size_t i = 0; i < def.parts.size(); ++i) {
    const TreeDef& part = *def.parts[i];
    if (leaf >= part.leaves.size()) {
      leaf -= part.leaves.size();
      continue;
    }
    switch (def.kind) {
      case NodeKind::kDict:
        out += "[" + nb::cast<std::string>(nb::repr(def.keys[i])) + "]";
        break;
      case NodeKind::kLayer:
      case NodeKind::kOptimizer:
      case NodeKind::kNamedTuple:
      case NodeKind::kDataclass:
      case NodeKind::kModule: {
        std::string name = def.names[i];
        std::ranges::replace(name, '/', '.');
        out += (out.empty() ? "" : ".") + name;
        break;
      }
      case NodeKind::kConstant:
        break;
      default:
        out += "[" + std::to_string(i) + "]";
    }
    return python_path_of(part, leaf, out);
  }
}

std::string_view leaf_text(NodeKind kind) {
  switch (kind) {
    case NodeKind::kTensor:
      return "tensor";
    case NodeKind::kVariable:
      return "Variable";
    case NodeKind::kState:
    case NodeKind::kNewState:
      return "state";
    default:
      return "value";
  }
}

void append_text(const TreeDef& def, std::string& out) {
  if (is_leaf(def.kind)) {
    out += leaf_text(def.kind);
    return;
  }
  if (def.kind == NodeKind::kNone) {
    out += "None";
    return;
  }
  const bool is_list = def.kind == NodeKind::kList, is_dict = def.kind == NodeKind::kDict;
  const bool is_tuple = def.kind == NodeKind::kTuple || def.kind == NodeKind::kConstant;
  if (!is_list && !is_dict && !is_tuple) out += def.type->tp_name;
  out += is_list ? "[" : is_dict ? "{" : "(";
  for (std::size_t at = 0; at < def.parts.size(); ++at) {
    if (at > 0) out += ", ";
    if (at == 16) {
      out += "... " + std::to_string(def.parts.size()) + " in all";
      break;
    }
    const std::size_t i = def.order.empty() ? at : def.order[at];
    if (is_dict) out += nb::cast<std::string>(nb::repr(def.keys[i])) + ": ";
    if (!is_dict && !is_list && !is_tuple) out += def.names[i] + "=";
    append_text(*def.parts[i], out);
  }
  if (def.kind == NodeKind::kTuple && def.parts.size() == 1) out += ",";
  out += is_list ? "]" : is_dict ? "}" : ")";
}

}  // namespace

std::string TreeDef::python_path(std::size_t i, std::string_view root) const {
  std::string out(root);
  python_path_of(*this, i, out);
  return out;
}

std::string TreeDef::to_string() const {
  std::string out;
  append_text(*this, out);
  return out;
}

}  // namespace etude::python
