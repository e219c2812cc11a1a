// SPDX-License-Identifier: Apache-2.0
// Tensors as JSON text, for logs, settings and tests. For large tensors see safetensors.h.
#pragma once

#include <string>
#include <string_view>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Writes {"dtype":"float32","shape":[2],"data":[0.1,-0.0]}, with the elements in row-major order.
// Numbers have enough digits to restore the same bits. Complex numbers are pairs. JSON has no
// infinities and no NaN; these are written as their bits: "0x7f800000".
//
// throws: kInvalidArgument for an absent tensor.
std::string to_json(const Tensor& x, CallSite where = CallSite::here());

// Reads the output of to_json, bit for bit. Also accepts integers as elements of floating dtypes.
// The text is not trusted.
//
// throws: kDataLoss, with the reason, for any other text; kResourceExhausted beyond read_limits(),
//         such as for brackets nested more than 100 levels deep.
Tensor from_json(std::string_view text, CallSite where = CallSite::here());

// Returns one line for a person: "float32[2,3]: min -1, max 4, mean 1.5, deviation 1.707825, 0 of 6
// not finite". The statistics cover finite elements only. Complex elements count by their
// magnitude, bools as 0 and 1.
//
// throws: kInvalidArgument for an absent tensor. cost: one pass in float64.
std::string describe(const Tensor& x, CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
