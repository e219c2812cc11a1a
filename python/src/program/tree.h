// SPDX-License-Identifier: Apache-2.0
// Pytrees: Python containers of tensors as Parts (etude/parts/parts.h), and back. A container is a
// list, a tuple, a dict, a named tuple, a dataclass, a Module, a layer, or a registered class. All
// else is a leaf. Used by every operator that takes a structure.
//
// All functions need the GIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/parts/parts.h"
#include "python/src/bind.h"

namespace etude::python {

enum class NodeKind : uint8_t {
  // Leaves.
  kTensor,
  kVariable,
  kState,     // a LayerState of a layer
  kNewState,  // its update, in a tangent
  kHost,      // any other value; no part of Parts
  // Nodes.
  kNone,
  kList,
  kTuple,
  kDict,
  kNamedTuple,
  kDataclass,
  kModule,
  kLayer,
  kOptimizer,  // its state is constant for derivatives
  kCustom,
  kConstant,  // no_derivative(x)
};

// The nesting of a pytree, its Python classes and keys, without leaves. Interned: equal ones are
// one object, compared by address and never freed, as Forms are.
struct TreeDef {
  NodeKind kind = NodeKind::kNone;
  PyTypeObject* type = nullptr;       // of a node
  std::vector<PyObject*> keys;        // of a dict; names of fields
  PyObject* aux = nullptr;            // of kCustom; the layer or optimiser without tensors; the
                                      // default_factory of a dict
  std::vector<const TreeDef*> parts;  // of a layer or an optimiser: its leaves
  std::vector<std::string> names;     // path components of the parts
  // Of a dict: the places of the parts in the order in which the program put the keys in; empty if
  // that is the order of the keys.
  std::vector<uint32_t> order;
  const TreeDef* unordered = nullptr;  // the same without orders of keys

  // Of the whole tree.
  std::vector<NodeKind> leaves;
  std::vector<std::string> paths;    // "layers/0/weight", as C++ structs have them
  std::vector<int32_t> form_leaves;  // the number of a leaf in the form; -1 for host values
  Parts prototype;                   // with the form, and without values

  const Form* form() const noexcept { return prototype.form(); }
  // "params['w']", "layers[0].bias": the path of leaf i below `root`, as Python writes it.
  std::string python_path(std::size_t i, std::string_view root = "") const;
  // "{'w': tensor, 'b': tensor}", for messages.
  std::string to_string() const;
};

// A leaf and its position in the order of the containers. The leaves of a TreeDef have the order of
// their paths: the keys of dicts are sorted.
struct TreeLeaf {
  nb::object value;
  uint32_t position = 0;
};

// Host numbers that become tensors when a pytree is read. kFloats: float and complex, and only
// outside of classes, whose numbers are options.
enum class Numbers : uint8_t {
  kKeep,
  kFloats,
  kAll,
  kValues  // all, and Variables are read
};

struct Tree {
  const TreeDef* def = nullptr;
  std::vector<nb::object> leaves;  // in the order of the def

  std::span<const nb::object> view() const { return leaves; }
};

// Arrays of other libraries become tensors.
// throws: kInvalidArgument for a pytree that is nested more than 256 deep, such as a list
//         that contains itself, and for a dict with two keys of one text.
Tree tree_of(nb::handle value, Numbers numbers);
// The same, with the leaves in both orders.
const TreeDef* flatten(nb::handle value, Numbers numbers, std::vector<TreeLeaf>& leaves);
// Builds new containers.
nb::object unflatten(const TreeDef& def, std::span<const nb::object> leaves);
// A node over other trees. `keys`: the names of the parts of kDataclass and kDict, else empty.
const TreeDef* make_def(NodeKind kind, PyTypeObject* type, std::vector<PyObject*> keys,
                        std::vector<const TreeDef*> parts, PyObject* aux = nullptr,
                        std::vector<uint32_t> order = {});
const TreeDef* leaf_def(NodeKind kind);
// The leaves of `value`, which has to have this nesting. A leaf may be any object; None
// for a missing leaf. throws: kInvalidArgument, naming the first part that differs.
std::vector<nb::object> leaves_like(const TreeDef& def, nb::handle value, std::string_view what);

// The tensors, Variables and states of a tree. `leaves` has host values too, which are left out.
Parts parts_of_leaves(const TreeDef& def, std::span<const nb::object> leaves);
inline Parts parts_of_tree(const Tree& tree) { return parts_of_leaves(*tree.def, tree.leaves); }
// The leaves of a tree for the values of `parts`, and the host values of `like`.
std::vector<nb::object> leaves_of_parts(const TreeDef& def, const Parts& parts,
                                        std::span<const nb::object> like);
nb::object tree_of_parts(const TreeDef& def, const Parts& parts, std::span<const nb::object> like);
// The tangent of a tree as Python sees it: the classes of the tree; None for leaves without one.
nb::object tree_of_tangent(const TreeDef& def, const Parts& tangent,
                           std::span<const nb::object> like);
// The inverse: `value` has the nesting of the tree.
Parts tangent_of_tree(const TreeDef& def, nb::handle value, std::string_view what);

// throws: kInvalidArgument for a result of `op` that may hold tensors and is no structure, such
//         as a deque: its tensors would have no derivatives.
void require_results(const Tree& tree, std::string_view op);
// throws: kInvalidArgument for a subclass of dict, list or tuple that has tensors and is no
//         structure.
void require_arguments(const Tree& tree, std::string_view op, std::string_view root);
// throws: kInvalidArgument for two tensors with one path, and for a model without a tensor.
void require_file_paths(const Tree& tree, std::string_view op);

// Replaces the tensors and states of a tree by the values of `parts`, which has its form.
void assign_leaves(const Tree& tree, Parts parts);

// Whether a leaf has a derivative: a tensor of a floating or complex dtype, a Variable, or state.
bool is_differentiable_leaf(NodeKind kind, nb::handle leaf);
// Whether a part of the tree is differentiated.
bool has_derivative(const TreeDef& def, std::span<const nb::object> leaves);

// Classes.
enum class Class : uint8_t {
  kTensor,
  kVariable,
  kArray,  // of another library
  kNumber,
  kHost,
  kNode  // see node
};
struct ClassInfo {
  Class of = Class::kHost;
  NodeKind node = NodeKind::kNone;
  PyTypeObject* type = nullptr;
  std::vector<PyObject*> fields;  // of a named tuple or a dataclass: interned names
  bool has_default = false;       // of kDict: a defaultdict
  PyObject* flatten = nullptr;    // of kCustom
  PyObject* unflatten = nullptr;
};
const ClassInfo& class_of(PyTypeObject* type);
// An equal key that is never freed, so that its address identifies it.
PyObject* canonical_key(PyObject* key);
// A dict with the items of a dict of any class, in the order in which the program sees them. The
// memory of an OrderedDict may have another order.
nb::object plain_dict(nb::handle dict);
// The key as a path component.
std::string key_text(PyObject* key);

// A state of a layer, or its update, as a leaf. Defined in layers.cc.
nb::object wrap_state(LayerState<Tensor> state);
nb::object wrap_new_state(NewState<Tensor> state);
// A tensor as a leaf of this kind: a tensor, a state, or an update; an absent one is an update of
// nothing.
nb::object wrap_leaf(NodeKind kind, Tensor value);
bool is_state(nb::handle leaf);
LayerState<Tensor>& state_of(nb::handle leaf);
NewState<Tensor> new_state_of(nb::handle leaf);         // of none for None
std::optional<Tensor> value_of_state(nb::handle leaf);  // of either; none for an update of none
// The same state or update with another value.
nb::object state_with(nb::handle leaf, Tensor value);
// The class of layers, with its subclasses.
void set_layer_class(PyTypeObject* type);
// Layers, defined in layers.cc.
bool is_layer(nb::handle value);
const Parts& parts_of_layer(nb::handle layer);
std::span<const nb::object> leaves_of_layer(nb::handle layer);
uint64_t key_of_layer(nb::handle layer);
nb::object layer_with(nb::handle like, std::vector<nb::object> leaves);
nb::object wrap_variable(const Variable& variable);
// Optimisers, defined in optimizers.cc.
void set_optimizer_class(PyTypeObject* type);
bool is_optimizer(nb::handle value);
std::span<const nb::object> leaves_of_optimizer(nb::handle optimizer);
const std::vector<std::string>& names_of_optimizer(nb::handle optimizer);
uint64_t key_of_optimizer(nb::handle optimizer);
nb::object optimizer_with(nb::handle like, std::vector<nb::object> leaves);
// Puts a state of another structure, which `like` has, into an optimiser.
void take_grown_state(nb::handle optimizer, nb::handle like, std::vector<nb::object> leaves);

}  // namespace etude::python
