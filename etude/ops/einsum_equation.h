// SPDX-License-Identifier: Apache-2.0
// The text of an einsum, read: which axes of which operands belong together. Used by einsum.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace etude::ops {

// Every axis has a label: 0 to 51 for A..Z and a..z, kEllipsisLabel + i for axis i, counted from
// the right, of those that an ellipsis stands for.
inline constexpr int kEllipsisLabel = 52;

struct EinsumEquation {
  std::vector<std::vector<int>> operands;  // one label per axis
  std::vector<int> result;                 // each once
};

// "bik,bkj->bij". Without an arrow the result has the axes of the ellipsis and then, in
// alphabetical order, the letters that occur once. Spaces have no meaning. throws: kInvalidArgument
// for a text that does not say what to do with operands of these ranks.
EinsumEquation parse_einsum(std::string_view text, std::span<const int> ranks);
// "i", or "axis -2 of ...".
std::string label_name(int label);

}  // namespace etude::ops
