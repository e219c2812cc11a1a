// SPDX-License-Identifier: Apache-2.0
// Named tensors in one safetensors file, for the command-line program.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "etude/core/tensor.h"

namespace etude::tools {

using TensorMap = std::map<std::string, Tensor>;

// throws: kNotFound, kDataLoss for a file that is torn, kUnimplemented for a dtype without a
// tensor.
TensorMap load_tensors(const std::filesystem::path& file);
// The file appears whole or not at all. throws: kUnimplemented for complex128.
void save_tensors(const std::filesystem::path& file, const TensorMap& tensors);

}  // namespace etude::tools
