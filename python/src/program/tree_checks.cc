// SPDX-License-Identifier: Apache-2.0
// Checks of pytrees: values that no operator can look into, and paths of files.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "etude/base/check.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"
#include "python/src/program/host_value.h"
#include "python/src/program/tree.h"

namespace etude::python {
namespace {

bool is_instance(nb::handle value, const char* module, const char* name) {
  const nb::object type = nb::module_::import_(module).attr(name);
  const int found = PyObject_IsInstance(value.ptr(), type.ptr());
  if (found < 0) throw nb::python_error();
  return found != 0;
}

// A value that holds no tensor.
bool is_plain(nb::handle value) {
  PyObject* const x = value.ptr();
  if (PyUnicode_Check(x) != 0 || PyBytes_Check(x) != 0 || PyLong_Check(x) != 0 ||
      PyFloat_Check(x) != 0 || PyComplex_Check(x) != 0 || PyType_Check(x) != 0 ||
      PySlice_Check(x) != 0 || PyRange_Check(x) != 0 || x == Py_Ellipsis) {
    return true;
  }
  return Py_TYPE(x) == Py_TYPE(dtype_object(kFloat32).ptr()) ||
         is_instance(value, "enum", "Enum") || is_instance(value, "datetime", "date");
}

// Whether a value is a tensor, or a list, tuple or dict with one among its elements.
bool has_tensor(nb::handle value, int depth = 0) {
  if (is_tensor(value) || is_variable(value) ||
      class_of(Py_TYPE(value.ptr())).of == Class::kArray) {
    return true;
  }
  PyObject* const x = value.ptr();
  const bool is_container = PyDict_Check(x) != 0 || PyList_Check(x) != 0 || PyTuple_Check(x) != 0;
  if (!is_container || depth > 8) return false;
  const nb::object all =
      PyDict_Check(x) != 0 ? nb::object(value.attr("values")()) : nb::object(nb::borrow(value));
  for (const nb::handle each : nb::iter(all)) {
    if (has_tensor(each, depth + 1)) return true;
  }
  return false;
}

// Whether a model may be without a tensor: some layers and optimisers have none.
bool has_layer(const TreeDef& def) {
  if (def.kind == NodeKind::kLayer || def.kind == NodeKind::kOptimizer ||
      def.kind == NodeKind::kModule) {
    return true;
  }
  return std::ranges::any_of(def.parts, [](const TreeDef* part) { return has_layer(*part); });
}

constexpr const char* kNextStep =
    "a tuple, list, dict, named tuple or dataclass of tensors, or register the class: "
    "et.register_pytree";

}  // namespace

void require_results(const Tree& tree, std::string_view op) {
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    if (tree.def->leaves[i] != NodeKind::kHost || is_plain(tree.leaves[i])) continue;
    ETUDE_THROW(kInvalidArgument,
                "{}: the function returns {}, a {}, as {}. Its tensors would be lost. Return {}",
                op, host_text(tree.leaves[i].ptr()), type_text(tree.leaves[i]),
                tree.def->python_path(i, "the result"), kNextStep);
  }
}

void require_arguments(const Tree& tree, std::string_view op, std::string_view root) {
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    if (tree.def->leaves[i] != NodeKind::kHost || !has_tensor(tree.leaves[i])) continue;
    ETUDE_THROW(kInvalidArgument,
                "{}: {} is a {} with tensors, which is no structure. Its tensors would be left "
                "out. Pass {}",
                op, tree.def->python_path(i, root), type_text(tree.leaves[i]), kNextStep);
  }
}

void require_file_paths(const Tree& tree, std::string_view op) {
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    if (tree.def->leaves[i] == NodeKind::kHost) continue;
    const auto [at, is_new] = seen.emplace(tree.def->paths[i], i);
    ETUDE_REQUIRE(
        is_new,
        "{}: two parts have the path '{}': {} and {}. A file holds one tensor for a path. "
        "Rename a key",
        op, tree.def->paths[i], tree.def->python_path(at->second, "model"),
        tree.def->python_path(i, "model"));
  }
  require_arguments(tree, op, "model");
  if (!seen.empty() || has_layer(*tree.def)) return;
  if (tree.def->kind == NodeKind::kHost) {
    ETUDE_THROW(kInvalidArgument,
                "{}: the model is a {}, in which the library sees no tensor. Pass {}", op,
                type_text(tree.leaves[0]), kNextStep);
  }
  ETUDE_THROW(kInvalidArgument,
              "{}: the model has no tensor: it is {}. Pass a structure with tensors", op,
              tree.def->to_string());
}

}  // namespace etude::python
