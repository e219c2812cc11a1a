// SPDX-License-Identifier: Apache-2.0
// A server without gRPC.
#include "serve/grpc_server.h"
#include "serve/refuse.h"

namespace etude::serve {

class GrpcServer::Impl {};

bool has_grpc() { return false; }

GrpcServer::GrpcServer(Service&, const GrpcOptions&) {
  refuse(ErrorCode::kUnimplemented,
         "this etude-serve was built without gRPC. Install libgrpc++-dev, libprotobuf-dev and "
         "protobuf-compiler-grpc, and build it again");
}
GrpcServer::~GrpcServer() = default;
uint16_t GrpcServer::port() const { return 0; }
bool GrpcServer::drain(Clock::time_point) { return true; }

}  // namespace etude::serve
