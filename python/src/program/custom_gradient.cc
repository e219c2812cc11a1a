// SPDX-License-Identifier: Apache-2.0
// custom_gradient for Python. As run_custom() of autodiff/custom_gradient.h, with the parameters of
// the pullback known at run time.
#include "etude/autodiff/custom_gradient.h"

#include <utility>

#include "etude/base/check.h"
#include "python/src/program/held.h"
#include "python/src/program/python_function.h"

namespace etude::python {
namespace {

// The pullback that a rule returned.
struct PythonPullback {
  SharedObject f;
  std::shared_ptr<KeptLeaves> variables;  // as Python objects
  bool takes_variables = false;
  const TreeDef* value = nullptr;
  std::size_t inputs = 0;  // without Variables
  std::size_t arguments = 0;
  const TreeDef* args = nullptr;

  std::vector<Tensor> operator()(std::span<const Tensor> dy) const {
    return with_gil([&] { return run(dy); });
  }

 private:
  std::vector<Tensor> run(std::span<const Tensor> dy) const {
    std::vector<nb::object> leaves;
    for (const Tensor& each : dy) leaves.push_back(wrap(each));
    const nb::object tree = unflatten(*value, leaves);
    // One argument for each part of a tuple.
    const nb::object args_tuple = value->kind == NodeKind::kTuple ? tree : nb::make_tuple(tree);
    nb::dict keywords;
    nb::list listed;
    for (const nb::object& v : variables->get()) listed.append(v);
    if (takes_variables) keywords["variables"] = listed;
    nb::object found = f->get()(*nb::borrow<nb::tuple>(args_tuple), **keywords);
    std::vector<Tensor> out;
    nb::object of_variables = nb::none();
    if (takes_variables && nb::len(listed) > 0) {
      ETUDE_REQUIRE(nb::isinstance<nb::tuple>(found) && nb::len(found) == 2,
                    "custom_gradient: a pullback with variables= returns a pair: the gradients of "
                    "the arguments, and a list with those of the Variables; it returned a {}",
                    type_text(found));
      of_variables = nb::object(found[1]);
      found = nb::object(found[0]);
    }
    append_gradients(found, out);
    if (!of_variables.is_none()) {
      ETUDE_REQUIRE(nb::len(of_variables) == nb::len(listed),
                    "custom_gradient: the pullback returned {} gradients of Variables, but the "
                    "function reads {}",
                    nb::len(of_variables), nb::len(listed));
      for (const nb::handle each : nb::iter(of_variables)) {
        out.push_back(each.is_none() ? Tensor() : as_tensor(each));
      }
    }
    return out;
  }

  // One gradient per argument, in the structure of the argument; for one argument no tuple is
  // needed.
  void append_gradients(const nb::object& found, std::vector<Tensor>& out) const {
    const bool is_list = nb::isinstance<nb::tuple>(found) || nb::isinstance<nb::list>(found);
    const bool is_bare = arguments == 1 && !(is_list && nb::len(found) == 1);
    const nb::object all = is_bare ? nb::object(nb::make_tuple(found)) : found;
    ETUDE_REQUIRE(is_bare || is_list,
                  "custom_gradient: the pullback returned a {}, but the function has {} arguments. "
                  "Return a tuple with one gradient for each",
                  type_text(found), arguments);
    // A parameter with a default that the call leaves out may have a None.
    std::size_t count = nb::len(all);
    while (count > arguments && nb::object(all[count - 1]).is_none()) --count;
    ETUDE_REQUIRE(count == arguments,
                  "custom_gradient: the pullback returned {} gradients, but the function has {} "
                  "arguments. Return one for each; None for an argument without one",
                  nb::len(all), arguments);
    nb::list used;
    for (std::size_t i = 0; i < count; ++i) used.append(all[i]);
    const std::vector<nb::object> leaves =
        leaves_like(*args, used, "custom_gradient: the gradient");
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const NodeKind kind = args->leaves[i];
      if (kind != NodeKind::kTensor && kind != NodeKind::kVariable) continue;
      out.push_back(leaves[i].is_none() ? Tensor() : as_tensor(leaves[i]));
    }
  }
};

// Calls rule(*args), which returns (value, pullback), and attaches the pullback to the value.
// `takes_variables(pullback)` is true if it has a parameter `variables`.
nb::object custom_gradient(nb::handle rule, const nb::tuple& args, nb::handle takes_variables) {
  const CallSite where = here();
  return with_user_line([&] {
    const Tree tree = tree_of(args, Numbers::kFloats);
    require_arguments(tree, "custom_gradient", "args");
    const Parts parts = parts_of_tree(tree);
    const internal::LeafList leaves(parts);
    std::vector<Tensor> inputs = internal::values_of(leaves);
    internal::ReadList reads;
    internal::RuleCaptures captures(leaves, inputs);
    const nb::object pair = rule(*nb::borrow<nb::tuple>(unflatten(*tree.def, tree.leaves)));
    ETUDE_REQUIRE(nb::isinstance<nb::tuple>(pair) && nb::len(pair) == 2,
                  "custom_gradient: the function returned a {}, but returns a pair: the value and "
                  "its pullback",
                  type_text(pair));
    reads.stop();
    const Tree value = tree_of(nb::object(pair[0]), Numbers::kValues);
    require_results(value, "custom_gradient");
    const Parts made = parts_of_tree(value);
    const std::vector<Tensor> results = internal::values_of(internal::LeafList(made));
    captures.finish(results, reads.snapshots, where);
    reads.remove(leaves);
    PythonPullback pull;
    pull.f = share(pair[1]);
    pull.takes_variables = nb::cast<bool>(takes_variables(nb::object(pair[1])));
    if (!pull.takes_variables && !reads.variables.empty()) {
      internal::throw_unlisted_variables(reads.variables);
    }
    std::vector<nb::object> listed;
    for (const Variable& v : reads.variables) listed.push_back(wrap_variable(v));
    pull.variables = std::make_shared<KeptLeaves>(listed);
    pull.value = value.def;
    pull.args = tree.def;
    pull.arguments = args.size();
    inputs.insert(inputs.end(), reads.snapshots.begin(), reads.snapshots.end());
    std::vector<Tensor> attached =
        internal::attach_rule({inputs, results, pull, "custom_gradient", true, where});
    std::vector<nb::object> out;
    std::size_t next = 0;
    for (std::size_t i = 0; i < value.leaves.size(); ++i) {
      const bool is_value = value.def->leaves[i] == NodeKind::kTensor;
      out.push_back(is_value ? wrap(std::move(attached[next++])) : value.leaves[i]);
    }
    return unflatten(*value.def, out);
  });
}

}  // namespace

void bind_custom_gradient(nb::module_& m) { m.def("_custom_gradient", custom_gradient); }

}  // namespace etude::python
