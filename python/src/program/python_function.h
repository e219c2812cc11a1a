// SPDX-License-Identifier: Apache-2.0
// A Python function of pytrees as a function of Parts, for the operators of parts_operators.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "etude/parts/parts.h"
#include "python/src/program/held.h"
#include "python/src/program/tree.h"

namespace etude::python {

// Leaves in a tuple, so that they may die on any thread.
class KeptLeaves {
 public:
  KeptLeaves() = default;
  // Requires the GIL, as get().
  explicit KeptLeaves(std::span<const nb::object> leaves);
  std::vector<nb::object> get() const;

 private:
  KeptObject tuple_;
};

// f(*args, **keywords), where `args` is a tree of a tuple. Shared by the calls that a derivative
// makes. threads: the calls take the GIL.
class PythonFunction {
 public:
  // `name`: of the operator, for messages. Requires the GIL.
  PythonFunction(std::string name, nb::handle f, const TreeDef* args,
                 std::span<const nb::object> leaves, nb::handle keywords);

  // The values of the result; they have the structure of the latest call.
  Parts operator()(const Parts& args);
  // The result, which has to be a tensor or a number. With `has_aux` it is a pair, and aux()
  // returns the second part.
  Tensor scalar(const Parts& args, bool has_aux);

  // Requires the GIL, all below.
  const TreeDef& args() const noexcept { return *args_; }
  std::vector<nb::object> arg_leaves() const { return leaves_.get(); }
  nb::object aux() const { return nb::borrow(aux_.get()); }
  const TreeDef& result() const noexcept { return *result_; }
  nb::object tree_of_result(const Parts& value) const;
  nb::object tangent_of_result(const Parts& value, const Parts& tangent) const;
  Parts cotangent(nb::handle value, std::string_view what) const;
  nb::object tree_of_args_tangent(const Parts& tangent) const;

 private:
  nb::object call(const Parts& args) const;

  std::string name_;
  KeptObject f_, keywords_;
  const TreeDef* args_;
  KeptLeaves leaves_;
  const TreeDef* result_ = nullptr;
  KeptLeaves result_leaves_;
  KeptObject aux_;
};

}  // namespace etude::python
