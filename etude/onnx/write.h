// SPDX-License-Identifier: Apache-2.0
// The wire format of ONNX: protocol buffers, messages of onnx.proto3.
#pragma once

#include <cstdint>
#include <filesystem>

#include "etude/core/dtype.h"
#include "etude/onnx/model.h"

namespace etude::onnx::internal {

// The number of a dtype in ONNX (TensorProto.DataType).
int64_t type_number(DType dtype);

// Writes a model to `file`, which appears whole or not at all. If its constants have more than
// `external_bytes` in all, large constants go to a second file in the same folder, since a message
// of protocol buffers has less than 2 GiB. The name of the second file contains the checksum of its
// bytes, so an older model keeps its own file.
//
// throws: the errors of AtomicFile. cost: no copy of a constant.
void write_model(const std::filesystem::path& file, const Model& model, int64_t external_bytes);

}  // namespace etude::onnx::internal
