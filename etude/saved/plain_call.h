// SPDX-License-Identifier: Apache-2.0
// Calls of loaded functions without Parts, for bindings to other languages.
#pragma once

#include <span>

#include "etude/saved/program.h"

namespace etude::saved::internal {

struct PlainCall {
  // Calls a graph that takes one tensor for each parameter, and returns a tensor. Returns false,
  // and runs nothing, if no graph of this form takes these tensors: Function::call() then finds
  // another graph or throws.
  static bool run(const Function& function, std::span<const Tensor* const> arguments,
                  Tensor& result, CallSite where) {
    return function.call_plain(arguments, result, where);
  }
};

}  // namespace etude::saved::internal
