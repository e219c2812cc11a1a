// SPDX-License-Identifier: Apache-2.0
// Arguments that no derivative is taken by.
// spec: G2.a, G3
// error: etude: no argument is Differentiable: an integer does not move; write 3.0 for 3
// error: etude: no argument is Differentiable: an integer does not move; write 3.0 for 3
// error: etude: no argument is Differentiable: integers, texts and what is wrapped in no_derivative
// error: etude: no argument is Differentiable: integers, texts and what is wrapped in no_derivative
// error: an argument is not Differentiable; wrap it in no_derivative(), or pass the value itself
// error: an argument is not Differentiable; wrap it in no_derivative(), or pass std::array or std::
// error: derivatives of plain C++ are with respect to real numbers: pass the real and the
// error: a std::span is a view of memory that others own, and derivatives outlive their arguments
// error: an argument is not Differentiable; wrap it in no_derivative(); a class of your own lists
// error: etude: derivative(f, x) is with respect to one number; use gradient for the gradient of a
// expect: double*
// expect: Hidden
#include <complex>
#include <span>
#include <string>
#include <vector>

#include "etude/diff.h"

const auto square = [](auto x) { return x * x; };
const auto first = [](const auto& x) { return x[0]; };

auto integer = etude::gradient(square, 3);
auto same = etude::gradient(square, 4);  // the same message again: printed once
auto integers = etude::value_with_gradient([](auto x, auto y) { return x * y; }, 3, 4);
auto slope = etude::derivative(square, 3);
auto list = etude::gradient(first, std::vector{1, 2});
auto later = etude::gradient(square)(3);
auto text = etude::pullback([](const std::string& s) { return s.size(); }, std::string("a"));
const double* nowhere = nullptr;
auto pointer = etude::gradient([](auto x, const auto* p) { return x * p[0]; }, 3.0, nowhere);
double numbers[2] = {1, 2};
auto c_array = etude::jvp(first, numbers, numbers);

auto complex = etude::gradient([](auto z) { return z.real(); }, std::complex<double>(1, 2));
const std::vector<double> held = {1, 2};
auto view = etude::gradient(first, std::span<const double>(held));

class Hidden {
 public:
  explicit Hidden(double value) : value_(value) {}
  double value() const { return value_; }

 private:
  double value_;
};
auto hidden = etude::gradient([](const auto& s) { return s.value(); }, Hidden(2));

auto several = etude::derivative(first, std::vector{1.0, 2.0});
