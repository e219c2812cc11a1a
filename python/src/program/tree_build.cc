// SPDX-License-Identifier: Apache-2.0
// Pytrees from their leaves, and their parts.
#include <utility>

#include "etude/autodiff/tangent.h"
#include "etude/base/check.h"
#include "python/src/program/held.h"
#include "python/src/program/tree.h"

namespace etude::python {
namespace {

class Builder {
 public:
  explicit Builder(std::span<const nb::object> leaves) : leaves_(leaves) {}

  nb::object build(const TreeDef& def) {
    switch (def.kind) {
      case NodeKind::kTensor:
      case NodeKind::kVariable:
      case NodeKind::kState:
      case NodeKind::kNewState:
      case NodeKind::kHost:
        return leaves_[next_++];
      case NodeKind::kNone:
        return nb::none();
      case NodeKind::kList: {
        nb::list out;
        for (const TreeDef* part : def.parts) out.append(build(*part));
        return out;
      }
      case NodeKind::kTuple:
        return tuple(def);
      case NodeKind::kNamedTuple:
        return nb::handle(reinterpret_cast<PyObject*>(def.type))(*tuple(def));
      case NodeKind::kDict:
        return dict(def);
      case NodeKind::kDataclass:
      case NodeKind::kModule:
        return object(def);
      case NodeKind::kLayer: {
        const auto some = leaves_.subspan(next_, def.parts.size());
        next_ += def.parts.size();
        return layer_with(def.aux, {some.begin(), some.end()});
      }
      case NodeKind::kOptimizer: {
        const auto some = leaves_.subspan(next_, def.parts.size());
        next_ += def.parts.size();
        return optimizer_with(def.aux, {some.begin(), some.end()});
      }
      case NodeKind::kConstant:
        return build(*def.parts[0]);
      case NodeKind::kCustom:
        break;
    }
    const nb::object children = tuple(def);
    return nb::handle(class_of(def.type).unflatten)(nb::handle(def.aux), children);
  }

 private:
  nb::tuple tuple(const TreeDef& def) {
    const nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(def.parts.size())));
    if (!out.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < def.parts.size(); ++i) {
      PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), build(*def.parts[i]).release().ptr());
    }
    return nb::borrow<nb::tuple>(out);
  }
  nb::object dict(const TreeDef& def) {
    const nb::handle type(reinterpret_cast<PyObject*>(def.type));
    nb::object out = def.type == &PyDict_Type ? nb::object(nb::dict())
                     : def.aux == nullptr     ? type()
                                              : type(nb::handle(def.aux));
    std::vector<nb::object> parts;
    for (const TreeDef* part : def.parts) parts.push_back(build(*part));
    for (std::size_t at = 0; at < parts.size(); ++at) {
      const std::size_t i = def.order.empty() ? at : def.order[at];
      if (PyObject_SetItem(out.ptr(), def.keys[i], parts[i].ptr()) != 0) throw nb::python_error();
    }
    return out;
  }
  // Without a call of __init__; a frozen dataclass as well.
  nb::object object(const TreeDef& def) {
    static PyObject* const empty = PyTuple_New(0);
    const nb::object out = nb::steal(PyBaseObject_Type.tp_new(def.type, empty, nullptr));
    if (!out.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < def.parts.size(); ++i) {
      const nb::object part = build(*def.parts[i]);
      if (PyObject_GenericSetAttr(out.ptr(), def.keys[i], part.ptr()) != 0) {
        throw nb::python_error();
      }
    }
    return out;
  }

  std::span<const nb::object> leaves_;
  std::size_t next_ = 0;
};

// The parts of a value that has to have the nesting of a def.
class Matcher {
 public:
  Matcher(std::vector<nb::object>& leaves, std::string_view what) : leaves_(leaves), what_(what) {}

  void match(const TreeDef& def, nb::handle value, const std::string& path) {
    if (def.kind == NodeKind::kConstant) return match(*def.parts[0], value, path);
    if (def.parts.empty() && def.kind != NodeKind::kLayer && def.kind != NodeKind::kOptimizer) {
      if (def.kind <= NodeKind::kHost) leaves_.push_back(nb::borrow(value));
      return;
    }
    if (value.is_none()) {  // a part without a value
      for (std::size_t i = 0; i < def.leaves.size(); ++i) leaves_.push_back(nb::none());
      return;
    }
    std::vector<nb::object> parts = parts_of(def, value, path);
    require(parts.size() == def.parts.size(), def, value, path);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      match(*def.parts[i], parts[i], path.empty() ? def.names[i] : path + "/" + def.names[i]);
    }
  }

 private:
  void require(bool fits, const TreeDef& def, nb::handle value, const std::string& path) const {
    ETUDE_REQUIRE(fits, "{}{} is a {}, but must have the structure {}", what_,
                  path.empty() ? "" : " at '" + path + "'", type_text(value), def.to_string());
  }
  std::vector<nb::object> parts_of(const TreeDef& def, nb::handle value, const std::string& path) {
    std::vector<nb::object> out;
    switch (def.kind) {
      case NodeKind::kDict:
        for (PyObject* key : def.keys) {
          PyObject* const found =
              PyDict_Check(value.ptr()) != 0 ? PyDict_GetItem(value.ptr(), key) : nullptr;
          require(found != nullptr, def, value, path);
          out.push_back(nb::borrow(found));
        }
        require(PyDict_GET_SIZE(value.ptr()) == static_cast<Py_ssize_t>(def.keys.size()), def,
                value, path);
        return out;
      case NodeKind::kDataclass:
      case NodeKind::kModule:
        for (PyObject* key : def.keys) {
          PyObject* const found = PyObject_GetAttr(value.ptr(), key);
          if (found == nullptr) PyErr_Clear();
          require(found != nullptr, def, value, path);
          out.push_back(nb::steal(found));
        }
        return out;
      case NodeKind::kLayer:
        require(is_layer(value), def, value, path);
        for (const nb::object& leaf : leaves_of_layer(value)) out.push_back(leaf);
        return out;
      case NodeKind::kOptimizer:
        require(is_optimizer(value), def, value, path);
        for (const nb::object& leaf : leaves_of_optimizer(value)) out.push_back(leaf);
        return out;
      case NodeKind::kCustom: {
        require(Py_TYPE(value.ptr()) == def.type, def, value, path);
        const nb::object flat = nb::handle(class_of(def.type).flatten)(value);
        for (const nb::handle child : nb::iter(nb::object(flat[0])))
          out.push_back(nb::borrow(child));
        return out;
      }
      default:
        require(PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0, def, value,
                path);
        for (const nb::handle each : nb::iter(value)) out.push_back(nb::borrow(each));
        return out;
    }
  }

  std::vector<nb::object>& leaves_;
  std::string_view what_;
};

}  // namespace

nb::object unflatten(const TreeDef& def, std::span<const nb::object> leaves) {
  return Builder(leaves).build(def);
}

std::vector<nb::object> leaves_like(const TreeDef& def, nb::handle value, std::string_view what) {
  std::vector<nb::object> out;
  Matcher(out, what).match(def, value, "");
  return out;
}

namespace {

// Layers and optimisers take any leaf from tree.unflatten.
void require_leaf(bool fits, const TreeDef& def, std::size_t i, nb::handle leaf,
                  std::string_view needed) {
  ETUDE_REQUIRE(fits, "{} is a {}, but must be a {}", def.python_path(i, "the part "),
                type_text(leaf), needed);
}

}  // namespace

Parts parts_of_leaves(const TreeDef& def, std::span<const nb::object> leaves) {
  Parts out = def.prototype;
  std::size_t i = 0;
  // Leaves of the form that are no leaves of the tree are options of layers.
  const auto next = [&]() -> nb::handle {
    while (def.leaves[i] == NodeKind::kHost) ++i;
    return leaves[i++];
  };
  out.each_part([&](const FormLeaf&, auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Leaf, Tensor>) {
      const nb::handle leaf = next();
      if (leaf.is_none()) return;
      require_leaf(is_tensor(leaf), def, i - 1, leaf, "tensor");
      value = tensor_of(leaf);
    } else if constexpr (std::is_same_v<Leaf, Variable>) {
      value = variable_of(next());
    } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
      const nb::handle leaf = next();
      if (leaf.is_none()) return;
      require_leaf(is_state(leaf), def, i - 1, leaf, "state of a layer");
      value = state_of(leaf);
    } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
      value = new_state_of(next());
    }
  });
  return out;
}

std::vector<nb::object> leaves_of_parts(const TreeDef& def, const Parts& parts,
                                        std::span<const nb::object> like) {
  std::vector<nb::object> out;
  out.reserve(def.leaves.size());
  const auto hosts = [&] {
    while (out.size() < def.leaves.size() && def.leaves[out.size()] == NodeKind::kHost) {
      out.push_back(like[out.size()]);
    }
  };
  hosts();
  parts.each_part([&](const FormLeaf&, const auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Leaf, Tensor>) {
      out.push_back(wrap(value));
    } else if constexpr (std::is_same_v<Leaf, Variable>) {
      // The object that the program made, unless a trace passes its placeholder.
      const bool is_same = out.size() < like.size() && is_variable(like[out.size()]) &&
                           variable_of(like[out.size()]).ref() == value.ref();
      out.push_back(is_same ? like[out.size()] : wrap_variable(value));
    } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
      out.push_back(wrap_state(value));
    } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
      out.push_back(wrap_new_state(value));
    }
    hosts();
  });
  return out;
}

nb::object tree_of_parts(const TreeDef& def, const Parts& parts, std::span<const nb::object> like) {
  return unflatten(def, leaves_of_parts(def, parts, like));
}

nb::object tree_of_tangent(const TreeDef& def, const Parts& tangent,
                           std::span<const nb::object> like) {
  std::vector<nb::object> leaves(def.leaves.size());
  const std::vector<FormLeaf>& form = def.form()->leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (def.leaves[i] == NodeKind::kHost) {
      leaves[i] = like[i];
      continue;
    }
    leaves[i] = nb::none();
    const int32_t at = form[static_cast<std::size_t>(def.form_leaves[i])].tangent;
    if (at < 0 || !is_differentiable_leaf(def.leaves[i], like[i])) continue;
    Parts::at(tangent, tangent.leaf(static_cast<std::size_t>(at)), [&](const auto& value) {
      using Leaf = std::remove_cvref_t<decltype(value)>;
      if constexpr (std::is_same_v<Leaf, Tensor>) {
        leaves[i] = wrap(value);
      } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
        leaves[i] = wrap_new_state(value);
      }
    });
  }
  return unflatten(def, leaves);
}

Parts tangent_of_tree(const TreeDef& def, nb::handle value, std::string_view what) {
  const std::vector<nb::object> leaves = leaves_like(def, value, what);
  Parts out = Parts::without_values(def.form()->tangent());
  const std::vector<FormLeaf>& form = def.form()->leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (def.leaves[i] == NodeKind::kHost || leaves[i].is_none()) continue;
    const int32_t at = form[static_cast<std::size_t>(def.form_leaves[i])].tangent;
    if (at < 0) continue;
    Parts::at(out, out.leaf(static_cast<std::size_t>(at)), [&](auto& to) {
      using Leaf = std::remove_cvref_t<decltype(to)>;
      if constexpr (std::is_same_v<Leaf, Tensor>) {
        to = as_tensor(leaves[i]);
      } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
        to = new_state_of(leaves[i]);
      }
    });
  }
  return out;
}

bool is_differentiable_leaf(NodeKind kind, nb::handle leaf) {
  switch (kind) {
    case NodeKind::kTensor: {
      if (leaf.is_none()) return false;
      const Tensor& x = tensor_of(leaf);
      return !x.has_value() || is_differentiable(x.dtype());
    }
    case NodeKind::kVariable:
      return is_differentiable(variable_of(leaf).dtype());
    case NodeKind::kState:
    case NodeKind::kNewState:
      return true;
    default:
      return false;
  }
}

bool has_derivative(const TreeDef& def, std::span<const nb::object> leaves) {
  const std::vector<FormLeaf>& form = def.form()->leaves();
  for (std::size_t i = 0; i < def.leaves.size(); ++i) {
    if (def.form_leaves[i] < 0) continue;
    if (form[static_cast<std::size_t>(def.form_leaves[i])].tangent < 0) continue;
    if (is_differentiable_leaf(def.leaves[i], leaves[i])) return true;
  }
  return false;
}

}  // namespace etude::python
