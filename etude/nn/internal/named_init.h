// SPDX-License-Identifier: Apache-2.0
// The target of initialisers that are made of numbers, such as nn::constant(0.5), so that kinds/
// can describe them where they are defaults of options.
#pragma once

#include <array>
#include <string_view>

#include "etude/core/shape.h"
#include "etude/core/tensor.h"

namespace etude::nn::internal {

struct NamedInit {
  std::string_view name;                  // of the function that makes it
  std::array<std::string_view, 2> names;  // of its parameters; empty at the end
  std::array<double, 2> numbers;
  Tensor (*run)(const Shape& shape, double first, double second);

  Tensor operator()(const Shape& shape) const { return run(shape, numbers[0], numbers[1]); }
};

}  // namespace etude::nn::internal
