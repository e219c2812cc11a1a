// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 for a Service, with TLS if wished. A connection costs a socket and a small buffer, no
// thread; each phase of a request has a deadline; the bodies of requests and answers have one
// budget.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/service.h"

namespace etude::serve {

struct TlsFiles {
  std::string certificate, key;  // PEM; empty: no TLS
  std::string client_ca;         // PEM; clients need a certificate that it has signed
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: a free one
  int threads = 2;
  int64_t connections = 16384;
  std::size_t body_bytes = std::size_t{256} << 20;
  int64_t memory_bytes = int64_t{1} << 30;  // of the bodies of requests and answers
  std::chrono::milliseconds read_timeout{30000};
  TlsFiles tls;
  // Gets a line for each answer; may be empty.
  std::function<void(const std::string&)> access_log;
};

// threads: confined to the thread that made it.
class HttpServer {
 public:
  // Listens, and answers from then on.
  // throws: kResourceExhausted if it gets no thread; kUnavailable if the address is taken;
  // kInvalidArgument for an address or files of TLS
  //   that cannot be used.
  HttpServer(Service& service, const HttpOptions& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  // The threads that read and write: fewer than wished if the process gets no further thread.
  std::size_t threads() const;
  // Accepts no more connections and closes idle connections. The others end after their answer.
  void stop();
  // After stop(): waits for requests, at most until `deadline`, and then for connections without a
  // request, which end at once. Returns whether all requests were answered.
  bool drain(Clock::time_point deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace etude::serve
