// SPDX-License-Identifier: Apache-2.0
// Names of layers that exist for 1, 2 and 3 axes. Used by convolution.cc and pooling.cc.
#pragma once

namespace etude::nn::internal {

// Returns the name for `axes` axes.
template <int axes>
constexpr const char* name_of(const char* one, const char* two, const char* three) {
  return axes == 1 ? one : axes == 2 ? two : three;
}

}  // namespace etude::nn::internal
