// SPDX-License-Identifier: Apache-2.0
// Control flow on Python callables: cond, switch_case, while_loop, fold and scan over pytrees.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "etude/autodiff/parts_operators.h"
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/stage/effects.h"
#include "python/src/convert.h"
#include "python/src/program/held.h"
#include "python/src/program/tree.h"

namespace etude::python {
namespace {

// The structure of results that have to be equal: of branches, or of the steps of a loop.
class SameStructure {
 public:
  SameStructure(std::string op, std::string what) : op_(std::move(op)), what_(std::move(what)) {}

  // Sets the structure, or compares with it. `where`: the origin of the value.
  void set(const Tree& tree, const std::string& where) {
    if (def_ == nullptr) {
      def_ = tree.def;
      first_ = where;
      hosts_ = tree.leaves;
      return;
    }
    ETUDE_REQUIRE(tree.def->unordered == def_->unordered,
                  "{}: the {} is {} {}, but {} {}. All have one structure: the same containers, "
                  "keys and kinds of leaves",
                  op_, what_, def_->to_string(), first_, tree.def->to_string(), where);
    for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
      if (def_->leaves[i] != NodeKind::kHost || tree.leaves[i].is(hosts_[i])) continue;
      ETUDE_REQUIRE(tree.leaves[i].equal(hosts_[i]),
                    "{}: {} is {} {}, but {} {}. A value that changes has to be a tensor", op_,
                    def_->python_path(i, what_), nb::cast<std::string>(nb::repr(hosts_[i])), first_,
                    nb::cast<std::string>(nb::repr(tree.leaves[i])), where);
    }
  }
  bool is_set() const { return def_ != nullptr; }
  nb::object tree(const Parts& parts) const { return tree_of_parts(*def_, parts, hosts_); }

 private:
  std::string op_, what_;
  const TreeDef* def_ = nullptr;
  std::string first_;
  std::vector<nb::object> hosts_;
};

Tensor tensor_result(const std::string& op, const nb::object& result) {
  ETUDE_REQUIRE(is_tensor(result) || is_array_like(result),
                "{}: the condition returned a {}, but must return one bool tensor", op,
                type_text(result));
  return is_tensor(result) ? tensor_of(result) : as_tensor(result);
}

nb::object switch_case(const std::string& op, nb::handle index, const nb::sequence& branches,
                       const nb::tuple& operands) {
  const Tree args = tree_of(operands, Numbers::kKeep);
  SameStructure result(op, "result");
  std::vector<parts::ToParts> all;
  std::vector<nb::object> callables;
  for (const nb::handle branch : branches) callables.push_back(nb::borrow(branch));
  for (std::size_t i = 0; i < callables.size(); ++i) {
    all.emplace_back([&, i](const Parts& x) {
      return with_gil([&] {
        const nb::object given = tree_of_parts(*args.def, x, args.leaves);
        const nb::object made = callables[i](*nb::borrow<nb::tuple>(given));
        const Tree tree = tree_of(made, Numbers::kValues);
        result.set(tree, op == "cond" ? (i == 0 ? "in the first branch" : "in the other branch")
                                      : "in branch " + std::to_string(i));
        return parts_of_tree(tree);
      });
    });
  }
  const Tensor choice = is_tensor(index) ? tensor_of(index) : as_tensor(index);
  const Parts at = parts_of_tree(args);
  const CallSite where = here();
  if (op == "cond") {  // one bool, also where an index would do
    with_user_line([&] { static_cast<void>(internal::bool_of("cond", choice, where)); });
  }
  const Parts out =
      with_user_line_released([&] { return parts::switch_case(Arg(choice, where), all, at); });
  return result.tree(out);
}

// A callable on a state: a tuple is passed as separate arguments if it takes as many.
struct OnState {
  nb::object f;
  bool is_spread;
  nb::object operator()(const nb::object& state, nb::handle row = {}) const {
    nb::list args;
    if (is_spread) {
      for (const nb::handle part : nb::iter(state)) args.append(part);
    } else {
      args.append(state);
    }
    if (row.is_valid()) args.append(row);
    return f(*nb::tuple(args));
  }
};

nb::object while_loop(nb::handle condition, bool spreads_condition, nb::handle body,
                      bool spreads_body, nb::handle init, nb::handle max_iterations,
                      const nb::dict& shapes) {
  const Tree start = tree_of(init, Numbers::kAll);
  SameStructure state("while_loop", "state");
  state.set(start, "before the first step");
  const OnState test{nb::borrow(condition), spreads_condition},
      step{nb::borrow(body), spreads_body};
  LoopOptions options;
  if (!max_iterations.is_none()) options.max_iterations = nb::cast<int64_t>(max_iterations);
  for (const auto& [path, sizes] : shapes) {
    options.shapes[nb::cast<std::string>(path)] = open_shape(sizes, "while_loop: a shape");
  }
  const CallSite where = here();
  const Parts out = with_user_line_released([&] {
    return parts::while_loop(
        [&](const Parts& x) {
          return with_gil([&] { return tensor_result("while_loop", test(state.tree(x))); });
        },
        [&](const Parts& x) {
          return with_gil([&] {
            const Tree next = tree_of(step(state.tree(x)), Numbers::kValues);
            state.set(next, "after a step");
            return parts_of_tree(next);
          });
        },
        with_gil([&] { return parts_of_tree(start); }), options, where);
  });
  return state.tree(out);
}

nb::object fold(nb::handle body, bool spreads, nb::handle init, nb::handle rows) {
  const Tree start = tree_of(init, Numbers::kAll), xs = tree_of(rows, Numbers::kAll);
  SameStructure state("fold", "state");
  state.set(start, "before the first step");
  const OnState step{nb::borrow(body), spreads};
  const Parts first = parts_of_tree(start), all = parts_of_tree(xs);
  const CallSite where = here();
  const Parts out = with_user_line_released([&] {
    return parts::fold(
        [&](const Parts& s, const Parts& x) {
          return with_gil([&] {
            const nb::object row = tree_of_parts(*xs.def, x, xs.leaves);
            const Tree next = tree_of(step(state.tree(s), row), Numbers::kValues);
            state.set(next, "after a step");
            return parts_of_tree(next);
          });
        },
        first, all, where);
  });
  return state.tree(out);
}

nb::tuple scan(nb::handle body, bool spreads, nb::handle init, nb::handle rows) {
  const Tree start = tree_of(init, Numbers::kAll), xs = tree_of(rows, Numbers::kAll);
  SameStructure state("scan", "state"), output("scan", "output row");
  state.set(start, "before the first step");
  const OnState step{nb::borrow(body), spreads};
  const Parts first = parts_of_tree(start), all = parts_of_tree(xs);
  const CallSite where = here();
  const auto out = with_user_line_released([&] {
    return parts::scan(
        [&](const Parts& s, const Parts& x) {
          return with_gil([&] {
            const nb::object made = step(state.tree(s), tree_of_parts(*xs.def, x, xs.leaves));
            ETUDE_REQUIRE(nb::isinstance<nb::tuple>(made) && nb::len(made) == 2,
                          "scan: the body returned a {}, but returns a pair: the next state and an "
                          "output row",
                          type_text(made));
            const Tree next = tree_of(nb::object(made[0]), Numbers::kValues);
            state.set(next, "after a step");
            const Tree row = tree_of(nb::object(made[1]), Numbers::kValues);
            output.set(row, "in the first step");
            return std::pair{parts_of_tree(next), parts_of_tree(row)};
          });
        },
        first, all, where);
  });
  return nb::make_tuple(state.tree(out.first), output.tree(out.second));
}

void check_true(nb::handle condition, const std::string& message) {
  const Tensor x = is_tensor(condition) ? tensor_of(condition) : as_tensor(condition);
  const CallSite where = here();
  with_user_line_released([&] { assert_true(x, message, where); });
}

// `text` as a part of the attribute of the op `print`, where "{}" marks an operand.
void append_escaped(std::string& out, const std::string& text) {
  for (const char c : text) {
    out += c;
    if (c == '{' || c == '}') out += c;
  }
}

// Prints the values one after the other, with a separator.
void print_pieces(nb::handle values, const std::string& separator) {
  std::string text;
  std::vector<Tensor> operands;
  const CallSite where = here();
  bool is_first = true;
  for (const nb::handle value : nb::iter(values)) {
    if (!std::exchange(is_first, false)) append_escaped(text, separator);
    if (is_tensor(value) || is_variable(value)) {
      text += "{}";
      operands.push_back(as_tensor(value));
    } else {
      append_escaped(text, nb::cast<std::string>(nb::str(value)));
    }
  }
  with_user_line_released([&] {
    internal::located("print", where, [&] { internal::print_operands(text, operands, where); });
  });
}

// Lines go where the program's own prints go: a notebook, a capture of a test.
void print_to_python(std::string_view line) {
  if (Py_IsInitialized() == 0) return;
  with_gil([&] {
    const nb::object out = nb::module_::import_("sys").attr("stdout");
    if (out.is_none()) return;
    out.attr("write")(nb::str(line.data(), line.size()) + nb::str("\n"));
  });
}

}  // namespace

void bind_control(nb::module_& m) {
  m.def("_switch_case", switch_case);
  m.def("_while_loop", while_loop, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
        nb::arg().none(), nb::arg());
  m.def("_fold", fold, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  m.def("_scan", scan, nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  m.def("assert_true", check_true, nb::arg("condition"), nb::arg("message") = "",
        "Fails unless all elements are true: now, or when the graph runs.");
  m.def(
      "print", [](const nb::args& values) { print_pieces(values, " "); },
      "Prints the values in a line, now or when the graph runs.");
  m.def("_print_pieces", [](nb::handle pieces) { print_pieces(pieces, ""); });
  set_print_sink(print_to_python);
  m.def("_is_tracing", [] { return internal::is_tracing(); });
  m.def(
      "is_staged", [](nb::handle x) { return is_traced(x); },
      "Whether x is a tensor without elements: its value is not known while a function is traced.");
}

}  // namespace etude::python
