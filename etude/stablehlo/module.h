// SPDX-License-Identifier: Apache-2.0
// The text of a module of StableHLO while it is written: blocks of lines on named values. Terms
// are values with operators that add lines; broadcasting follows the rules of this library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/core/dtype.h"
#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/core/type.h"
#include "etude/saved/axes.h"

namespace etude::stablehlo::internal {

using Sizes = std::vector<int64_t>;

class Writer;

// A value. Operators add lines to the current block of its writer.
struct Term {
  Writer* writer = nullptr;
  std::string name = {};       // "%12"; "" for an absent operand
  const Type* type = nullptr;  // without device
  bool is_absent() const { return name.empty(); }
  DType dtype() const { return type->dtype(); }
  const Shape& shape() const { return type->shape(); }
  int rank() const { return type->rank(); }
};
using Terms = std::vector<Term>;

// The body of a region: gets its arguments, and returns its results.
using MakeBody = etude::internal::FunctionRef<Terms(const Terms& arguments)>;

// Lines of text, in blocks: one for the function, and one for each region that is being written.
class Writer {
 public:
  Writer() { open_block(); }

  // The lines of the outermost block.
  const std::string& text() const { return blocks_.front().text; }
  // Names of the user, which values do not get.
  std::unordered_set<std::string> taken = {};
  // The user's line of the lines that are added: loc("train.cc":12:0); "" without one.
  std::string location = {};

  // "%12 = <text>" with results of these types.
  Terms add(std::string_view text, const std::vector<const Type*>& results);
  Term add(std::string_view text, const Type* result);
  // The text of a region with these arguments, from "{" to "}".
  std::string region(const std::vector<const Type*>& arguments, MakeBody make);
  // A constant. Equal numbers are one value.
  Term constant(const Tensor& value);
  Term number(double value, DType dtype);

 private:
  struct Block {
    std::string text;
    std::map<std::string, std::string> constants;  // names by text
  };
  void open_block() { blocks_.emplace_back(); }
  std::string fresh();
  void line(std::string_view text);

  std::vector<Block> blocks_;
  int64_t next_ = 0;
};

// "tensor<2x3xf32>"; a list of types in parentheses, "(tensor<f32>, tensor<f32>)".
std::string type_text(const Type* type);
std::string element_text(DType dtype);
std::string type_list(const Terms& terms);
std::string type_list(const std::vector<const Type*>& types);
// "%1, %2".
std::string name_list(const Terms& terms);
// "1, 2".
std::string number_list(const Sizes& numbers);
// A text in quotes.
std::string in_quotes(std::string_view text);

// --- Terms ---

// An operator of StableHLO with operands of equal shapes and a result of this type.
Term apply(std::string_view op, const Terms& operands, const Type* result);
// The same with the type of its only operand.
Term apply(std::string_view op, const Term& x);
Term convert(const Term& x, DType dtype);
Term reshape(const Term& x, const Shape& shape);
Term transpose(const Term& x, const Sizes& axes);
// Axis i of x is axis axes[i] of the result; sizes of 1 become larger.
Term broadcast(const Term& x, const Shape& shape, const Sizes& axes);
// By the rules of NumPy.
Term broadcast(const Term& x, const Shape& shape);
Term slice(const Term& x, const Sizes& starts, const Sizes& stops, const Sizes& steps);
Term reverse(const Term& x, const Sizes& axes);
// Widths may be negative, except `interior`.
Term pad(const Term& x, const Term& value, const Sizes& low, const Sizes& high,
         const Sizes& interior);
Term concatenate(const Terms& parts, int64_t axis);
// 0, 1, 2, ... along an axis of the shape.
Term counted(Writer& writer, const Shape& shape, int axis, DType dtype);
Term filled(Writer& writer, double value, DType dtype, const Shape& shape);

// A reduction by an operator: "add", with the first value `init`, a scalar.
Term reduce(const Term& x, std::string_view op, const Term& init, const Sizes& axes);
// The same, and the axes stay, with size 1.
Term reduce_keeping(const Term& x, std::string_view op, const Term& init, const Sizes& axes);
// Sums and maxima of floats and integers, without the axes.
Term sum(const Term& x, const Sizes& axes);
Term sum_keeping(const Term& x, const Sizes& axes);
Term max_keeping(const Term& x, const Sizes& axes);

// Windows of one size, that move by strides over a padded x.
struct Windows {
  Sizes window, strides, low, high;
};
// A reduction of each window by an operator: "add", with the first value `init`, a scalar, which is
// also the padding.
Term reduce_windows(const Term& x, std::string_view op, const Term& init, const Windows& windows);

struct DotAxes {
  Sizes x_batch = {}, y_batch = {}, x_contracted = {}, y_contracted = {};
};
// The axes of the result: batch axes, free axes of x, free axes of y.
Term dot(const Term& x, const Term& y, const DotAxes& axes);

// With broadcasting.
Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator*(const Term& a, double b);
Term operator/(const Term& a, double b);
Term operator-(double a, const Term& b);
Term operator/(double a, const Term& b);
Term operator-(const Term& a);
Term operator<(const Term& a, const Term& b);
Term operator<(const Term& a, double b);
Term operator>(const Term& a, const Term& b);
Term operator>(const Term& a, double b);
Term operator==(const Term& a, const Term& b);
Term operator==(const Term& a, double b);
// Of bools, or of bits.
Term operator&(const Term& a, const Term& b);
Term operator|(const Term& a, const Term& b);
Term operator!(const Term& a);
Term maximum(const Term& a, const Term& b);
Term minimum(const Term& a, const Term& b);
Term power(const Term& a, const Term& b);
// direction: EQ, NE, LT, LE, GT, GE.
Term compare(std::string_view direction, const Term& a, const Term& b);
Term where(const Term& condition, const Term& a, const Term& b);

// The least and the greatest number of a dtype; infinities of floating dtypes.
Term lowest(Writer& writer, DType dtype);
Term highest(Writer& writer, DType dtype);

using saved::internal::all_axes;
using saved::internal::axes_from_front;
using saved::internal::axis_from_front;
// All axes, with this axis and the last one exchanged.
Sizes last_swapped(int rank, int64_t axis);
// The axes of a rank that are not in the list.
Sizes other_axes(const Sizes& axes, int rank);

}  // namespace etude::stablehlo::internal
