// SPDX-License-Identifier: Apache-2.0
// What a pullback of tensors, or of tensors and numbers, is called with is no cotangent.
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
