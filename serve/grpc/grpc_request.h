// SPDX-License-Identifier: Apache-2.0
// The messages of gRPC to requests and back. Messages are not trusted.
#pragma once

#include <string>

#include <google/protobuf/io/zero_copy_stream.h>

#include "inference.pb.h"
#include "serve/request.h"

namespace etude::serve {

// Reads the bytes of a ModelInferRequest without making one: an object of a message has a hundred
// bytes for as few as two in the request. Bytes that are no message pass.
//
// throws: kResourceExhausted for too many parts.
// cost:   one pass over the fields, and over numbers that are not packed.
void check_parts(google::protobuf::io::ZeroCopyInputStream& bytes,
                 const RequestLimits& limits = {});
// throws: kInvalidArgument, with the input; kResourceExhausted beyond the limits; the errors of
//   `check`.
InferRequest read_infer(const inference::ModelInferRequest& message, const CheckInput& check,
                        const RequestLimits& limits = {});
// All outputs have raw contents.
void write_infer(const std::string& id, const InferResult& result,
                 inference::ModelInferResponse& to);

}  // namespace etude::serve
