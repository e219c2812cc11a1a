// SPDX-License-Identifier: Apache-2.0
// Initialisers that are plain functions, and their kinds. Options have such functions as defaults.
// Used by convert.cc and initializer_rows.cc.
#pragma once

#include <string_view>

#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/nn/init.h"

namespace etude::kinds {

using InitializerFunction = Tensor (*)(const Shape&);
struct NamedInitializer {
  const char* kind;
  InitializerFunction function;
};
inline constexpr NamedInitializer kInitializers[] = {
    {"nn.zeros", nn::zeros},
    {"nn.ones", nn::ones},
    {"nn.glorot_uniform", nn::glorot_uniform},
    {"nn.glorot_normal", nn::glorot_normal},
    {"nn.he_uniform", nn::he_uniform},
    {"nn.he_normal", nn::he_normal},
    {"nn.lecun_uniform", nn::lecun_uniform},
    {"nn.lecun_normal", nn::lecun_normal},
    {"nn.identity", nn::identity},
};

// The kind of a function; empty if it has none.
inline std::string_view initializer_name(InitializerFunction function) {
  for (const NamedInitializer& row : kInitializers) {
    if (row.function == function) return row.kind;
  }
  return {};
}

}  // namespace etude::kinds
