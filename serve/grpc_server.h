// SPDX-License-Identifier: Apache-2.0
// gRPC for a Service. Without the packages of gRPC, grpc/absent.cc takes its place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/http_server.h"
#include "serve/service.h"

namespace etude::serve {

struct GrpcOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8001;  // 0: a free one
  std::size_t message_bytes = std::size_t{256} << 20;
  int64_t memory_bytes = int64_t{1} << 30;        // of gRPC's buffers
  int calls = 1024;                               // of one connection at the same time
  std::chrono::milliseconds read_timeout{30000};  // until a connection is ready, and has answered
  TlsFiles tls;
};

// Whether this program was built with gRPC.
bool has_grpc();

// threads: confined to the thread that made it.
class GrpcServer {
 public:
  // Listens, and answers from then on.
  // throws: kUnimplemented without gRPC, with the packages that it needs; kUnavailable if the
  //   address is taken; kInvalidArgument for a file of TLS that cannot be read.
  GrpcServer(Service& service, const GrpcOptions& options);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  uint16_t port() const;
  // Takes no more calls and waits for running calls, at most until `deadline`. Returns false if
  // some still run or are not sent then; the destructor cancels them. Otherwise ends the
  // connections, and returns true. A connection without a call needs no time of the drain.
  bool drain(Clock::time_point deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace etude::serve
