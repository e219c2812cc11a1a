// SPDX-License-Identifier: Apache-2.0
// A parsed einsum equation: the labels of the axes of its operands. Used by einsum.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace etude::ops {

// Every axis has a label: 0 to 51 for A..Z and a..z; kEllipsisLabel + i for axis i of an ellipsis,
// counted from the right.
inline constexpr int kEllipsisLabel = 52;

struct EinsumEquation {
  std::vector<std::vector<int>> operands;  // one label per axis
  std::vector<int> result;                 // each label once
};

// Parses "bik,bkj->bij". Without an arrow the result has the axes of the ellipsis and then, in
// alphabetical order, the letters that occur once. Spaces are ignored. throws: kInvalidArgument for
// a text that does not describe operands of these ranks.
EinsumEquation parse_einsum(std::string_view text, std::span<const int> ranks);
// "i", or "axis -2 of ...".
std::string label_name(int label);

}  // namespace etude::ops
