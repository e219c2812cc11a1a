// SPDX-License-Identifier: Apache-2.0
// Resize: interpolation along one axis after the other.
#pragma once

#include <vector>

#include "etude/onnx/import/importer.h"

namespace etude::onnx::importing {

std::vector<Tensor> resized(const NodeCall& n);
std::vector<Tensor> upsampled(const NodeCall& n);

}  // namespace etude::onnx::importing
