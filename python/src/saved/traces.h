// SPDX-License-Identifier: Apache-2.0
// Staged functions of Python as entries of saved::save().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "etude/saved/saved.h"
#include "python/src/bind.h"
#include "python/src/program/staged.h"
#include "python/src/program/tree.h"

namespace etude::python {

// An argument that becomes state of the saved function.
struct BoundArgument {
  nb::object value;
  const Parts* identity = nullptr;  // equal for the arguments of all functions that share its state
};

// The method of an instance that is a structure passes the instance as its first argument.
inline bool passes_self(const StagedFunction& f) {
  return f.host.self != nullptr && !f.host.is_self_bound;
}
// The names of the parameters, without a self that is no argument.
std::vector<std::string> parameter_names(const StagedFunction& f);

// The graphs of a function for the present values of its first arguments. Symbolic graphs do not
// serve sizes of 1 and 0: the function is traced for these sizes.
//
// throws: kUnimplemented for a graph that exists only in this process, with the argument. Requires
// the GIL.
saved::internal::GivenFunction given_function(const StagedFunction& f,
                                              std::span<const BoundArgument> bound);

}  // namespace etude::python
