// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol without a transport: answers HTTP requests, and calls of gRPC
// through the same functions. Knows no socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "etude/base/error.h"
#include "serve/load_queue.h"
#include "serve/metrics.h"
#include "serve/repository.h"
#include "serve/request.h"
#include "serve/ticket.h"

namespace etude::serve {

struct ServiceOptions {
  std::string token;                         // "": none is needed
  std::chrono::milliseconds timeout{60000};  // the longest that a request may take
  RequestLimits limits;
};

struct HttpRequest {
  std::string method, target, authorization;
  std::optional<std::string> header_length;  // Inference-Header-Content-Length
  std::string content_encoding;
  std::string body;
  Reserve reserve = {};  // for the answer; called before the answer is given
};
struct HttpResponse {
  int status = 200;
  std::string body;
  std::string_view type = "application/json";  // a literal
  std::optional<std::size_t> header_length = std::nullopt;
  std::string_view allow = {};  // for 405: the methods of the path; a literal
};

// The status of an error, and its body {"error": "..."}; without memory for it, a short text.
HttpResponse error_response(const Error& error) noexcept;
HttpResponse error_response(int status, std::string_view text) noexcept;

// threads: thread-safe.
class Service {
 public:
  Service(Repository& repository, Metrics& metrics, const ServiceOptions& options);

  // Answers a request: before it returns, or later on another thread. `done` runs once, and must
  // not throw. Returns the ticket of a request that waits, which may be abandoned; else null.
  std::shared_ptr<Ticket> answer(HttpRequest request, std::function<void(HttpResponse)> done);

  // Queues an inference for a model of the repository, or for its present version if that model is
  // being unloaded and `version` is "". `done` gets the outputs that are wanted, or an error, and
  // must not throw.
  // throws: the errors of Repository::find() and Model::submit(); then `done` does not run.
  using InferDone = std::function<void(std::variant<InferResult, Error>)>;
  std::shared_ptr<Ticket> infer(std::shared_ptr<Model> model, const std::string& version,
                                InferRequest request, InferDone done);

  // Whether the text is "Bearer TOKEN"; the case of "Bearer" does not matter. Takes the same time
  // for all texts of one length.
  bool is_authorized(std::string_view authorization) const;
  bool is_ready() const { return !draining_.load() && repository_.is_ready(); }
  // Is no longer ready. Requests are still answered.
  void drain() { draining_ = true; }
  bool is_draining() const { return draining_.load(); }
  Repository& repository() { return repository_; }
  // The thread that changes the repository for requests.
  LoadQueue& loads() { return loads_; }
  Metrics& metrics() { return metrics_; }

 private:
  HttpResponse answer_at_once(const HttpRequest& request);
  HttpResponse answer_or_error(const HttpRequest& request) noexcept;
  HttpResponse model_answer(const HttpRequest& request, std::string_view rest);
  HttpResponse repository_answer(const HttpRequest& request, std::string_view rest);
  std::shared_ptr<Ticket> answer_infer(HttpRequest request, const std::string& model,
                                       const std::string& version,
                                       std::function<void(HttpResponse)> done);

  Repository& repository_;
  Metrics& metrics_;
  ServiceOptions options_;
  std::atomic<bool> draining_{false};
  Deadlines deadlines_;
  LoadQueue loads_;
};

}  // namespace etude::serve
