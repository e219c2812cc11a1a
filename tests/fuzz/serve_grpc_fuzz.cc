// SPDX-License-Identifier: Apache-2.0
// Messages of gRPC to the server: random bytes are no message, a request or an Error, and a request
// that is read can be answered.
#include <cstddef>
#include <cstdint>

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "serve/grpc/grpc_request.h"
#include "tests/fuzz/serve_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  google::protobuf::io::ArrayInputStream bytes(data, static_cast<int>(size));
  etude::serve::check_parts(bytes);  // these are too few bytes for too many parts
  inference::ModelInferRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  try {
    const auto request = etude::serve::read_infer(message, etude::serve::take_few_shapes);
    inference::ModelInferResponse response;
    etude::serve::write_infer(message.id(), etude::serve::echo_of(request), response);
    static_cast<void>(response.SerializeAsString());
  } catch (const etude::Error& error) {
    etude::serve::expect_known(error);
  }
  return 0;
}
