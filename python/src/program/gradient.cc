// SPDX-License-Identifier: Apache-2.0
// Differential operators on Python functions of pytrees.
#include "etude/autodiff/gradient.h"

#include <optional>
#include <utility>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/parts_operators.h"
#include "etude/base/check.h"
#include "etude/ops.h"
#include "python/src/program/held.h"
#include "python/src/program/python_function.h"

namespace etude::python {
namespace {

nb::handle constant_class;

// The arguments of a call, and the differentiated ones among them.
struct Selection {
  const TreeDef* def = nullptr;  // of a tuple; constants are kConstant
  std::vector<nb::object> leaves;
  std::vector<std::size_t> chosen;
  bool is_single = false;  // one gradient instead of a tuple of them

  // Of the tangents of all arguments.
  nb::object pick(const nb::object& all) const {
    if (is_single) return nb::object(all[chosen[0]]);
    nb::list out;
    for (const std::size_t i : chosen) out.append(all[i]);
    return nb::tuple(out);
  }
};

const TreeDef* constant_of(const TreeDef* def) {
  if (def->form()->tangent()->leaves().empty()) return def;
  return make_def(NodeKind::kConstant, reinterpret_cast<PyTypeObject*>(constant_class.ptr()), {},
                  {def});
}

// `argnums`: None for all that have a derivative, a number, or a tuple of numbers.
Selection select(const std::string& op, const nb::tuple& args, nb::handle argnums) {
  Selection out;
  std::vector<Tree> trees;
  for (const nb::handle arg : args) {
    trees.push_back(tree_of(arg, Numbers::kFloats));
    require_arguments(trees.back(), op, "argument " + std::to_string(trees.size() - 1));
  }
  const auto choose = [&](int64_t i) {
    const auto count = static_cast<int64_t>(trees.size());
    ETUDE_REQUIRE_CODE(kOutOfRange, i >= -count && i < count,
                       "{}: argnums names argument {}, but the call has {}", op, i, count);
    out.chosen.push_back(static_cast<std::size_t>(i < 0 ? i + count : i));
    const Tree& tree = trees[out.chosen.back()];
    ETUDE_REQUIRE(has_derivative(*tree.def, tree.leaves),
                  "{}: argument {} has no derivative: it is {} without a floating-point tensor. "
                  "Pass a float, a tensor of a floating dtype, or a structure of them",
                  op, i, tree.def->to_string());
  };
  if (argnums.is_none()) {
    for (std::size_t i = 0; i < trees.size(); ++i) {
      if (has_derivative(*trees[i].def, trees[i].leaves)) out.chosen.push_back(i);
    }
    ETUDE_REQUIRE(!out.chosen.empty(),
                  "{}: no argument has a derivative. Pass a float, a tensor of a floating dtype, "
                  "or a structure of them",
                  op);
    out.is_single = out.chosen.size() == 1;
  } else if (PyLong_Check(argnums.ptr()) != 0) {
    choose(nb::cast<int64_t>(argnums));
    out.is_single = true;
  } else {
    for (const nb::handle i : nb::iter(argnums)) choose(nb::cast<int64_t>(i));
  }
  std::vector<const TreeDef*> defs;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const bool is_chosen = std::ranges::find(out.chosen, i) != out.chosen.end();
    defs.push_back(is_chosen ? trees[i].def : constant_of(trees[i].def));
    out.leaves.insert(out.leaves.end(), trees[i].leaves.begin(), trees[i].leaves.end());
  }
  out.def = make_def(NodeKind::kTuple, &PyTuple_Type, {}, std::move(defs));
  return out;
}

using Function = std::shared_ptr<PythonFunction>;

Function function_of(const std::string& op, nb::handle f, const Selection& args,
                     nb::handle keywords) {
  return std::make_shared<PythonFunction>(op, f, args.def, args.leaves, keywords);
}

nb::tuple value_with_gradient(const std::string& op, nb::handle f, const nb::tuple& args,
                              nb::handle keywords, nb::handle argnums, bool has_aux) {
  const Selection selection = select(op, args, argnums);
  const Function function = function_of(op, f, selection, keywords);
  const Parts at = parts_of_leaves(*selection.def, selection.leaves);
  const CallSite where = here();
  const auto [value, gradient] = with_user_line_released([&] {
    return parts::value_with_gradient([&](const Parts& x) { return function->scalar(x, has_aux); },
                                      at, where);
  });
  nb::object picked = selection.pick(tree_of_tangent(*selection.def, gradient, selection.leaves));
  return nb::make_tuple(wrap(value), has_aux ? function->aux() : nb::none(), std::move(picked));
}

// Returns the value and a function from a cotangent of it to the cotangents of the arguments.
nb::tuple value_with_pullback(nb::handle f, const nb::tuple& args, nb::handle keywords,
                              nb::handle argnums) {
  const auto selection = std::make_shared<Selection>(select("pullback", args, argnums));
  const Function function = function_of("pullback", f, *selection, keywords);
  const Parts at = parts_of_leaves(*selection->def, selection->leaves);
  const CallSite where = here();
  auto made = with_user_line_released([&] {
    return parts::value_with_pullback([function](const Parts& x) { return (*function)(x); }, at,
                                      where);
  });
  nb::object value = function->tree_of_result(made.first);
  const TreeDef* const result = &function->result();
  nb::object pull = nb::cpp_function(
      [selection, result, pull = std::move(made.second)](nb::handle cotangent) {
        const Parts ct = tangent_of_tree(*result, cotangent, "the cotangent");
        const Parts found = with_user_line_released([&] { return pull(ct); });
        return selection->pick(tree_of_tangent(*selection->def, found, selection->leaves));
      },
      nb::arg("cotangent").none());
  return nb::make_tuple(std::move(value), std::move(pull));
}

nb::tuple jvp(nb::handle f, const nb::tuple& primals, nb::handle tangents, nb::handle keywords) {
  const Selection selection = select("jvp", primals, nb::none());
  const Function function = function_of("jvp", f, selection, keywords);
  const Parts at = parts_of_leaves(*selection.def, selection.leaves);
  const Parts along = tangent_of_tree(*selection.def, tangents, "jvp: the tangents");
  const CallSite where = here();
  const auto [value, tangent] = with_user_line_released(
      [&] { return parts::jvp([&](const Parts& x) { return (*function)(x); }, at, along, where); });
  return nb::make_tuple(function->tree_of_result(value),
                        function->tangent_of_result(value, tangent));
}

nb::object hvp(nb::handle f, const nb::tuple& primals, nb::handle tangents, nb::handle keywords) {
  const Selection selection = select("hvp", primals, nb::none());
  const Function function = function_of("hvp", f, selection, keywords);
  const Parts at = parts_of_leaves(*selection.def, selection.leaves);
  const Parts along = tangent_of_tree(*selection.def, tangents, "hvp: the tangents");
  const CallSite where = here();
  const Parts found = with_user_line_released([&] {
    return parts::hvp([&](const Parts& x) { return function->scalar(x, false); }, at, along, where);
  });
  return selection.pick(tree_of_tangent(*selection.def, found, selection.leaves));
}

// The derivatives of a tensor by a tensor.
nb::object jacobian(nb::handle f, nb::handle x) {
  const SharedObject shared = share(f);
  const Tensor at = as_tensor(x);
  const CallSite where = here();
  const auto of_tensor = [&](const Tensor& y) {
    return with_gil([&] { return as_tensor(shared->get()(wrap(y))); });
  };
  return wrap(
      with_user_line_released([&] { return etude::jacobian<Tensor>(of_tensor, at, where); }));
}

Tensor moved(const Tensor& x, int64_t from, int64_t to) {
  return from == to ? x : moveaxis(x, {from}, {to});
}

Parts with_axes(Parts parts, int64_t from, int64_t to) {
  parts.each_part([&](const FormLeaf& leaf, auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Tensor>) {
      if (!leaf.is_marked && value.has_value()) value = moved(value, from, to);
    }
  });
  return parts;
}

// f on all examples. `axes`: for each argument the axis of the examples; None: the same for all.
nb::object vmap(nb::handle f, const nb::tuple& args, nb::handle keywords, const nb::tuple& axes,
                int64_t out_axis, const std::string& randomness) {
  std::vector<const TreeDef*> defs;
  std::vector<nb::object> leaves;
  for (std::size_t i = 0; i < args.size(); ++i) {
    Tree tree = tree_of(args[i], Numbers::kKeep);
    require_arguments(tree, "vmap", "argument " + std::to_string(i));
    const nb::handle axis = axes[i];
    if (!axis.is_none()) {
      const int64_t from = nb::cast<int64_t>(axis);
      const Parts moved_parts =
          with_user_line_released([&] { return with_axes(parts_of_tree(tree), from, 0); });
      tree.leaves = leaves_of_parts(*tree.def, moved_parts, tree.leaves);
    }
    defs.push_back(axis.is_none() ? constant_of(tree.def) : tree.def);
    leaves.insert(leaves.end(), tree.leaves.begin(), tree.leaves.end());
  }
  Selection selection;
  selection.def = make_def(NodeKind::kTuple, &PyTuple_Type, {}, std::move(defs));
  selection.leaves = std::move(leaves);
  const Function function = function_of("vmap", f, selection, keywords);
  const Parts at = parts_of_leaves(*selection.def, selection.leaves);
  const CallSite where = here();
  const Parts out = with_user_line_released([&] {
    const parts::ToParts batched = parts::vmap(
        [function](const Parts& x) { return (*function)(x); }, {.randomness = randomness}, where);
    return with_axes(batched(at), 0, out_axis);
  });
  return function->tree_of_result(out);
}

nb::object stop(nb::handle x) {
  const Tree tree = tree_of(x, Numbers::kFloats);
  std::vector<nb::object> out;
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    if (tree.def->leaves[i] == NodeKind::kTensor) {
      out.push_back(wrap(with_user_line([&] { return stop_gradient(tensor_of(tree.leaves[i])); })));
    } else if (tree.def->leaves[i] == NodeKind::kVariable) {
      out.push_back(
          wrap(with_user_line([&] { return stop_gradient(variable_of(tree.leaves[i])); })));
    } else {
      out.push_back(tree.leaves[i]);
    }
  }
  if (tree.def->kind == NodeKind::kVariable) return out[0];
  return unflatten(*tree.def, out);
}

nb::object recompute(nb::handle f, const nb::tuple& args, nb::handle keywords) {
  Selection selection;
  const Tree tree = tree_of(args, Numbers::kFloats);
  require_arguments(tree, "recompute_grad", "args");
  selection.def = tree.def;
  selection.leaves = tree.leaves;
  const Function function = function_of("recompute_grad", f, selection, keywords);
  const Parts at = parts_of_tree(tree);
  const Parts out = with_user_line_released([&] {
    return parts::recompute_grad([function](const Parts& x) { return (*function)(x); })(at);
  });
  return function->tree_of_result(out);
}

// Moves the tensors of `x` along a tangent, in place.
void move_tree(nb::handle x, nb::handle by) {
  const Tree tree = tree_of(x, Numbers::kKeep);
  const Parts along = tangent_of_tree(*tree.def, by, "move: the tangent");
  Parts at = parts_of_tree(tree);
  with_user_line_released([&] { etude::move(at, along); });
  assign_leaves(tree, std::move(at));
}

}  // namespace

void assign_leaves(const Tree& tree, Parts parts) {
  std::size_t i = 0;
  parts.each_part([&](const FormLeaf&, auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    if constexpr (!std::is_same_v<Leaf, Described>) {
      while (tree.def->leaves[i] == NodeKind::kHost) ++i;
      const nb::handle leaf = tree.leaves[i++];
      if constexpr (std::is_same_v<Leaf, Tensor>) {
        if (is_tensor(leaf)) mutable_tensor_of(leaf) = std::move(value);
      } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
        state_of(leaf).value = std::move(value.value);
      }
    }
  });
}

void bind_gradient(nb::module_& m) {
  m.def("_set_constant_type", [](nb::handle type) { constant_class = type.inc_ref(); });
  m.def("_value_with_gradient", value_with_gradient, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg().none(), nb::arg());
  m.def("_value_with_pullback", value_with_pullback, nb::arg(), nb::arg(), nb::arg(),
        nb::arg().none());
  m.def("_jvp", jvp);
  m.def("_hvp", hvp);
  m.def("_jacobian", jacobian);
  m.def("_vmap", vmap);
  m.def("_stop_gradient", stop, nb::arg().none());
  m.def("_recompute", recompute);
  m.def("_move", move_tree, nb::arg().none(), nb::arg().none());
}

}  // namespace etude::python
