// SPDX-License-Identifier: Apache-2.0
// The messages of gRPC to requests and back. Messages are not trusted.
#pragma once

#include "inference.pb.h"
#include "serve/request.h"

namespace etude::serve {

// throws: kInvalidArgument, with the input; kResourceExhausted beyond the limits; the errors of
//   `check`.
InferRequest read_infer(const inference::ModelInferRequest& message, const CheckInput& check,
                        const RequestLimits& limits = {});
// All outputs have raw contents.
void write_infer(const inference::ModelInferRequest& request, const InferResult& result,
                 inference::ModelInferResponse& to);

}  // namespace etude::serve
