// SPDX-License-Identifier: Apache-2.0
// Tensors as JSON text, for logs, settings and tests; large ones belong into safetensors.h.
#pragma once

#include <string>
#include <string_view>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// {"dtype":"float32","shape":[2],"data":[0.1,-0.0]}, elements in row-major order. Numbers have the
// digits that bring back the same bits; complex ones are pairs; infinities and NaN, which JSON has
// not, are their bits: "0x7f800000".
//
// throws: kInvalidArgument for an absent tensor.
std::string to_json(const Tensor& x, CallSite where = CallSite::here());

// The tensor that to_json wrote, bit for bit. Text of other origin may give integers for floats.
//
// throws: kDataLoss, with what is wrong, for anything else: it is not trusted.
Tensor from_json(std::string_view text, CallSite where = CallSite::here());

// One line for a person: "float32[2,3]: min -1, max 4, mean 1.5, deviation 1.707825, 0 of 6 not
// finite". Complex elements count by magnitude, truths as 0 and 1; statistics are of the finite
// ones.
//
// throws: kInvalidArgument for an absent tensor. cost: one pass in float64.
std::string describe(const Tensor& x, CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
