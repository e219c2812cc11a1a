// SPDX-License-Identifier: Apache-2.0
// Requests to a server, without sockets: the threads that read them, and the threads that run the
// model.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/metrics.h"
#include "serve/repository.h"
#include "serve/service.h"
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace serve_parts {

// A folder that is removed without failures: std::filesystem::remove_all needs memory.
class Folder {
 public:
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    quietly([this] { made_.reset(); });
  }
  const std::filesystem::path& path() const { return made_->path(); }

 private:
  std::unique_ptr<internal::TempFolder> made_ = std::make_unique<internal::TempFolder>();
};

class Server {
 public:
  // A request waits `delay` for others.
  explicit Server(int64_t workers, std::chrono::milliseconds delay = {}) {
    const std::string path = (folder_.path() / "scaled").string();
    quietly([&] {
      const auto scaled = function([](const Tensor& x) { return tanh(x) * 2.0F; },
                                   {.name = "scaled", .arg_names = {"x"}});
      for (const int64_t n : {2, 3}) scaled(zeros({n, 3}));
      saved::save(path, {{"scaled", scaled}});
    });
    serve::RepositoryOptions options;
    options.model.workers = workers;
    options.model.max_rows = 12;
    options.model.delay = delay;
    options.poll = std::chrono::hours(1);
    repository_ = std::make_unique<serve::Repository>(std::vector<std::filesystem::path>{path},
                                                      options, metrics_, [](const std::string&) {});
    service_ = std::make_unique<serve::Service>(*repository_, metrics_, serve::ServiceOptions());
  }

  // Sends `count` requests, and returns the body of their answers. throws: kResourceExhausted if
  // one of them is that error.
  std::string ask(int count = 1) {
    auto requests = quietly([&] {
      serve::HttpRequest made;
      made.method = "POST";
      made.target = "/v2/models/scaled/infer";
      made.body = R"({"id":"a request","inputs":[{"name":"x","datatype":"FP32","shape":[2,3],)"
                  R"("data":[1,2,[3,4],5,0.5]}]})";
      return std::vector(static_cast<std::size_t>(count), made);
    });
    answer_ = serve::HttpResponse();
    for (serve::HttpRequest& request : requests) {
      ++asked_;
      service_->answer(std::move(request), [this](serve::HttpResponse response) {
        const std::lock_guard lock(mutex_);
        ++answers_;
        if (answer_.status == 200) answer_ = std::move(response);
        answered_.notify_all();
      });
    }
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [this] { return answers_ >= asked_; });
    if (answer_.status == 200) return std::move(answer_.body);
    const Quiet quiet;
    const bool has_no_memory = answer_.status == 413 || answer_.status == 503;
    throw Error(has_no_memory ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
                std::to_string(answer_.status) + ": " + answer_.body);
  }
  // Of a server that answers each request once.
  std::string state() {
    const std::string text = ask();
    const std::lock_guard lock(mutex_);
    return text + std::to_string(answers_ - asked_);
  }

 private:
  Folder folder_;
  serve::Metrics metrics_;
  std::unique_ptr<serve::Repository> repository_;
  std::unique_ptr<serve::Service> service_;
  std::mutex mutex_;
  std::condition_variable answered_;
  int asked_ = 0, answers_ = 0;
  serve::HttpResponse answer_;  // the first error, or else the last answer
};

Run request() {
  auto server = std::make_shared<Server>(1);
  server->ask();  // the first request makes some things once
  return {[=] { return server->ask(); }, [=] { return server->state(); }};
}

// Five requests of two rows: a call of eight rows, and a call of two.
Run joined_requests() {
  auto server = std::make_shared<Server>(1, std::chrono::milliseconds(5));
  server->ask(5);
  return {[=] { return server->ask(5); }, [=] { return server->state(); }};
}

}  // namespace serve_parts

std::vector<Job> serve_jobs() {
  using namespace serve_parts;
  return {
      {"serve: a request", request},
      anywhere({"serve: a request, any thread", request}),
      anywhere({"serve: joined requests", joined_requests}),
      plain_job("serve: a server with three workers", [] { return Server(3).ask(); }),
  };
}

}  // namespace etude::failures
