// SPDX-License-Identifier: Apache-2.0
// Open sizes: combines the models of a function at several sizes. A number that differs between
// them is computed from the sizes of inputs when the model runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etude/graph/size_formula.h"
#include "etude/onnx/conversions.h"
#include "etude/onnx/model.h"
#include "etude/saved/source.h"

namespace etude::onnx::internal {

// Returns the model for all sizes. `models` are the models at `points`, with equal names.
// throws: kUnimplemented, with the user's line, if the models differ in more than numbers, or if a
//   number that differs has no formula or is an attribute.
GraphModel with_open_sizes(Writing& writing, std::vector<GraphModel> models,
                           const etude::internal::SizePoints& points,
                           const std::vector<saved::internal::OpenSize>& sizes);

}  // namespace etude::onnx::internal
