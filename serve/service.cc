// SPDX-License-Identifier: Apache-2.0
#include "serve/service.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/files/json_writer.h"
#include "etude/version.h"
#include "serve/datatype.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

using etude::internal::JsonWriter;

// The object that `members` writes, as the body of an answer. Texts may hold bytes of the request.
template <class F>
HttpResponse json_object(const F& members, int status = 200) {
  JsonWriter out(JsonWriter::Texts::kReplaced);
  out.object([&] { members(out); });
  return {status, out.text()};
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
    case ErrorCode::kFailedPrecondition:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kResourceExhausted:
      return 413;
    case ErrorCode::kUnimplemented:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kCancelled:
      return 504;
    default:
      return 500;
  }
}

// "models/lenet/versions/2/infer": the text before the next '/', which is removed.
std::string next_part(std::string_view& path) {
  const std::size_t slash = path.find('/');
  const std::string out(path.substr(0, slash));
  path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  return out;
}

struct ModelPath {
  std::string model, version, verb;  // verb: "", ready, infer, or another text
};

ModelPath model_path(std::string_view rest) {
  ModelPath out;
  out.model = next_part(rest);
  std::string part = next_part(rest);
  if (part == "versions") {
    out.version = next_part(rest);
    part = next_part(rest);
    if (out.version.empty()) part = "versions";
  }
  out.verb = rest.empty() ? part : part + "/" + std::string(rest);
  return out;
}

void write_tensors(JsonWriter& out, std::string_view key,
                   const std::vector<TensorMetadata>& tensors) {
  out.member(key, [&] {
    out.list(tensors, [&](const TensorMetadata& each) {
      out.object([&] {
        out.member("name", each.name);
        out.member("datatype", datatype_name(each.dtype));
        out.member("shape", [&] { out.list(each.shape); });
      });
    });
  });
}

HttpResponse unknown_path(const HttpRequest& request) {
  return error_response(
      404, fmt::format("there is no {} {}. The protocol has /v2, /v2/health/live, "
                       "/v2/health/ready, /v2/models/NAME[/versions/VERSION][/ready|/infer] and "
                       "/v2/repository/index; /metrics is beside it",
                       request.method.substr(0, 16), request.target.substr(0, 128)));
}

HttpResponse wrong_method(const HttpRequest& request, std::string_view needed) {
  HttpResponse out =
      error_response(405, fmt::format("{} takes {}, not {}", request.target.substr(0, 128), needed,
                                      request.method.substr(0, 16)));
  out.allow = needed == "GET" ? "GET, HEAD" : needed;
  return out;
}

std::optional<std::size_t> header_length_of(const HttpRequest& request) {
  if (!request.header_length) return std::nullopt;
  const std::string& text = *request.header_length;
  std::size_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc() || end != text.data() + text.size()) {
    refuse(ErrorCode::kInvalidArgument,
           "the header Inference-Header-Content-Length is '{}', but must be a number of bytes",
           text.substr(0, 32));
  }
  return out;
}

}  // namespace

HttpResponse error_response(int status, std::string_view text) noexcept {
  try {
    return json_object([&](JsonWriter& out) { out.member("error", text); }, status);
  } catch (const std::bad_alloc&) {
    return {503, "no memory", "text/plain"};  // short, so that it takes none
  }
}

HttpResponse error_response(const Error& error) noexcept {
  try {
    return error_response(status_of(error.code()), error.text());
  } catch (const std::bad_alloc&) {
    return error_response(503, "no memory");
  }
}

Service::Service(Repository& repository, Metrics& metrics, const ServiceOptions& options)
    : repository_(repository), metrics_(metrics), options_(options) {}

bool Service::is_authorized(std::string_view authorization) const {
  if (options_.token.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return false;
  const bool is_bearer = std::ranges::equal(
      authorization.substr(0, kScheme.size()), kScheme,
      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; });
  const std::string_view given = authorization.substr(kScheme.size());
  const std::string& wanted = options_.token;
  if (!is_bearer || given.size() != wanted.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    different |= static_cast<unsigned char>(given[i] ^ wanted[i]);
  }
  return different == 0;
}

std::shared_ptr<Ticket> Service::infer(std::shared_ptr<Model> model, const std::string& version,
                                       InferRequest request, InferDone done) {
  auto wait = std::chrono::duration_cast<std::chrono::microseconds>(options_.timeout);
  if (request.timeout_us && *request.timeout_us > 0) {
    wait = std::min(wait, std::chrono::microseconds(*request.timeout_us));
  }
  const std::string name = model->name();
  // A version may end between these lines. Then a newer version has taken its place.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (attempt > 0) model = repository_.find(name, version);
    // Before the model runs: a name that it does not have must cost nothing.
    check_outputs(name, request.outputs, *model->output_names());
    // It does not own the model: a thread of a model must not be its last owner.
    auto answer = [name, version = model->version(), names = model->output_names(),
                   wanted = request.outputs, done](Outcome outcome) {
      if (const auto* error = std::get_if<Error>(&outcome)) return done(*error);
      std::variant<InferResult, Error> result = kNoMemory;
      try {
        result = InferResult{name, version,
                             wanted_outputs(wanted, *names, std::get<io::NamedTensors>(outcome))};
      } catch (const std::exception& error) {
        result = error_of(error);
      }
      done(std::move(result));
    };
    const auto ticket =
        std::make_shared<Ticket>(request.inputs, Clock::now() + wait, std::move(answer));
    deadlines_.add(ticket);
    try {
      if (model->submit(ticket)) return ticket;
    } catch (const std::exception&) {
      if (!ticket->withdraw()) return ticket;  // its deadline has passed
      throw;
    }
    if (!ticket->withdraw()) return ticket;
  }
  refuse(ErrorCode::kUnavailable, "model '{}' is being unloaded. Ask again", name);
}

std::shared_ptr<Ticket> Service::answer_infer(HttpRequest request, const std::string& model,
                                              const std::string& version,
                                              std::function<void(HttpResponse)> done) {
  if (!request.content_encoding.empty() && request.content_encoding != "identity") {
    refuse(ErrorCode::kUnimplemented,
           "the body has the encoding '{}', but this server reads plain bodies only",
           request.content_encoding.substr(0, 32));
  }
  std::shared_ptr<Model> found = repository_.find(model, version);
  const CheckInput check = [&](const auto& name, DType dtype, const auto& shape) {
    found->check(name, dtype, shape);
  };
  InferRequest read = read_infer(request.body, header_length_of(request), check, options_.limits);
  std::string().swap(request.body);  // its tensors are copies
  InferRequest form;                 // the parts of the request that the answer needs
  form.id = read.id;
  form.outputs = read.outputs;
  form.binary_outputs = read.binary_outputs;
  return infer(std::move(found), version, std::move(read),
               [form = std::move(form), done = std::move(done),
                reserve = std::move(request.reserve)](std::variant<InferResult, Error> outcome) {
                 if (const auto* error = std::get_if<Error>(&outcome))
                   return done(error_response(*error));
                 HttpResponse response;
                 try {
                   InferBody body = write_infer(form, std::get<InferResult>(outcome), reserve);
                   response.body = std::move(body.text);
                   response.header_length = body.header_length;
                   if (body.header_length) response.type = "application/octet-stream";
                 } catch (const std::exception& error) {
                   response = error_response(error_of(error));
                 }
                 done(std::move(response));
               });
}

HttpResponse Service::model_answer(const HttpRequest& request, std::string_view rest) {
  const ModelPath path = model_path(rest);
  if (path.verb == "infer") return wrong_method(request, "POST");
  if (path.verb != "" && path.verb != "ready") return unknown_path(request);
  if (request.method != "GET") return wrong_method(request, "GET");
  const std::shared_ptr<Model> model = repository_.find(path.model, path.version);
  return json_object([&](JsonWriter& out) {
    if (path.verb == "ready") {
      out.member("name", model->name());
      out.member("ready", true);
      return;
    }
    write_tensors(out, "inputs", model->metadata().inputs);
    out.member("name", model->name());
    write_tensors(out, "outputs", model->metadata().outputs);
    out.member("platform", "etude");
    out.member("versions", [&] { out.list(repository_.versions_of(model->name())); });
  });
}

// The repository extension: index, models/NAME/load, models/NAME/unload.
HttpResponse Service::repository_answer(const HttpRequest& request, std::string_view rest) {
  if (request.method != "POST") return wrong_method(request, "POST");
  if (rest == "index") {
    JsonWriter out(JsonWriter::Texts::kReplaced);
    out.list(repository_.index(), [&](const IndexEntry& each) {
      out.object([&] {
        out.member("name", each.name);
        if (!each.reason.empty()) out.member("reason", each.reason);
        out.member("state", each.state);
        if (!each.version.empty()) out.member("version", each.version);
      });
    });
    return {200, out.text()};
  }
  if (next_part(rest) != "models") return unknown_path(request);
  const std::string model = next_part(rest);
  if (rest == "load") {
    repository_.load(model);
  } else if (rest == "unload") {
    repository_.unload(model);
  } else {
    return unknown_path(request);
  }
  return {200, ""};
}

HttpResponse Service::answer_at_once(const HttpRequest& request) {
  std::string_view path = request.target;
  path = path.substr(0, path.find('?'));
  const bool is_get = request.method == "GET";
  if (path == "/metrics") {
    if (!is_get) return wrong_method(request, "GET");
    return {200, metrics_.to_text(), "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (path == "/v2" || path == "/v2/") {
    if (!is_get) return wrong_method(request, "GET");
    return json_object([](JsonWriter& out) {
      constexpr const char* kExtensions[] = {"binary_tensor_data", "model_repository"};
      out.member("extensions", [&] { out.list(kExtensions); });
      out.member("name", "etude");
      out.member("version", etude::version());
    });
  }
  constexpr std::string_view kModels = "/v2/models/", kRepository = "/v2/repository/";
  if (path.starts_with(kModels)) return model_answer(request, path.substr(kModels.size()));
  if (path.starts_with(kRepository)) {
    return repository_answer(request, path.substr(kRepository.size()));
  }
  return unknown_path(request);
}

HttpResponse Service::answer_or_error(const HttpRequest& request) noexcept {
  try {
    return answer_at_once(request);
  } catch (const std::exception& error) {
    return error_response(error_of(error));
  }
}

std::shared_ptr<Ticket> Service::answer(HttpRequest request,
                                        std::function<void(HttpResponse)> done) {
  HttpResponse response;
  try {
    const std::string_view path =
        std::string_view(request.target).substr(0, request.target.find('?'));
    // Probes have no token.
    if (path == "/v2/health/live" || path == "/v2/health/ready") {
      const bool is_live = path.ends_with("live");
      const bool holds = is_live || is_ready();
      response = wrong_method(request, "GET");
      if (request.method == "GET") {
        response =
            json_object([&](JsonWriter& out) { out.member(is_live ? "live" : "ready", holds); },
                        holds ? 200 : 503);
      }
      done(std::move(response));
      return nullptr;
    }
    if (!is_authorized(request.authorization)) {
      done(error_response(401,
                          "the request needs the header 'Authorization: Bearer TOKEN' with the "
                          "token of this server"));
      return nullptr;
    }
    constexpr std::string_view kModels = "/v2/models/";
    if (path.starts_with(kModels) && request.method == "POST") {
      const ModelPath parts = model_path(path.substr(kModels.size()));
      if (parts.verb == "infer") {
        return answer_infer(std::move(request), parts.model, parts.version, done);
      }
    }
    if (path.starts_with("/v2/repository/models/") && request.method == "POST") {
      loads_.add([this, request = std::move(request), done] { done(answer_or_error(request)); });
      return nullptr;
    }
    response = answer_or_error(request);
  } catch (const std::exception& error) {
    response = error_response(error_of(error));
  }
  done(std::move(response));
  return nullptr;
}

}  // namespace etude::serve
