// SPDX-License-Identifier: Apache-2.0
// Calls of pullbacks of tensors, or of tensors and numbers, with values that are no cotangents.
// spec: G2.a
// error: etude: a pullback takes a cotangent of the result of the function: a value of its type
// error: etude: a pullback takes a cotangent of the result of the function: a value of its type
#include <string>

#include "etude/autodiff/gradient.h"
#include "etude/ops.h"

const std::string text = "one";
const etude::Tensor x = 1.0;
auto tensor = etude::pullback([](const etude::Tensor& at) { return at * at; }, x)(text);
const auto product = [](const etude::Tensor& at, auto by) { return at * by; };
auto mixed = etude::pullback(product, x, 3.0)(&text);
