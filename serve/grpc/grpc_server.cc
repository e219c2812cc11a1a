// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include "etude/version.h"
#include "inference.grpc.pb.h"
#include "serve/datatype.h"
#include "serve/grpc/grpc_request.h"
#include "serve/json_reader.h"
#include "serve/refuse.h"
#include "serve/threads.h"

namespace etude::serve {
namespace {

namespace rpc = inference;
using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

grpc::StatusCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kOutOfRange:
      return grpc::StatusCode::OUT_OF_RANGE;
    case ErrorCode::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case ErrorCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case ErrorCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ErrorCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kCancelled:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

// A text of an error may hold bytes of the request; gRPC sends UTF-8. It is a header, in which a
// byte may take three. A client that gets more than 8 KiB of headers sees another error.
grpc::Status status_of(const Error& error) noexcept {
  constexpr std::size_t kMost = 2000;
  try {
    std::string text = error.text();
    if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    return {code_of(error.code()), text};
  } catch (const std::bad_alloc&) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no memory"};  // short, so that it takes none
  }
}

// A call that waits for the model. gRPC deletes it by OnDone().
class InferCall final : public Reactor {
 public:
  InferCall(Counter& open, Counter& unsent) : open_(std::in_place, open), unsent_(unsent) {}
  void OnDone() override { delete this; }
  // The client has gone, or its deadline has passed.
  void OnCancel() override {
    if (const std::shared_ptr<Ticket> ticket = ticket_.lock()) ticket->abandon();
  }
  void wait_for(const std::shared_ptr<Ticket>& ticket) { ticket_ = ticket; }
  // The call counts until the client can have its answer, and then see the server end.
  void answer(const grpc::Status& status) {
    open_.reset();
    Finish(status);
  }

 private:
  ~InferCall() override = default;
  std::optional<CountScope> open_;
  CountScope unsent_;
  std::weak_ptr<Ticket> ticket_;
};

void set_tensors(
    const std::vector<TensorMetadata>& from,
    google::protobuf::RepeatedPtrField<rpc::ModelMetadataResponse::TensorMetadata>* to) {
  for (const TensorMetadata& each : from) {
    auto* tensor = to->Add();
    tensor->set_name(each.name);
    tensor->set_datatype(std::string(datatype_name(each.dtype)));
    for (const int64_t size : each.shape) tensor->add_shape(size);
  }
}

// Frees the bytes. throws: kInvalidArgument; kResourceExhausted for too many parts.
rpc::ModelInferRequest parse_infer(const grpc::ByteBuffer* message) {
  // gRPC made it for this call, and has no other use of it.
  auto* bytes = const_cast<grpc::ByteBuffer*>(message);  // NOLINT(*-const-cast): see above
  {
    grpc::ProtoBufferReader reader(bytes);
    if (reader.status().ok()) check_parts(reader);
  }
  rpc::ModelInferRequest out;
  if (!grpc::SerializationTraits<rpc::ModelInferRequest>::Deserialize(bytes, &out).ok()) {
    refuse(ErrorCode::kInvalidArgument, "the message is no ModelInferRequest");
  }
  return out;
}

grpc::Status answer_infer(const std::string& id, const InferResult& result, grpc::ByteBuffer& to) {
  rpc::ModelInferResponse response;
  write_infer(id, result, response);
  bool is_owned = false;
  return grpc::SerializationTraits<rpc::ModelInferResponse>::Serialize(response, &to, &is_owned);
}

// All methods by callbacks. ModelInfer gets bytes, since the object of a message can take much more
// memory than its bytes.
using S = rpc::GRPCInferenceService;
using Callbacks = S::WithRawCallbackMethod_ModelInfer<S::WithCallbackMethod_ServerLive<
    S::WithCallbackMethod_ServerReady<S::WithCallbackMethod_ModelReady<
        S::WithCallbackMethod_ServerMetadata<S::WithCallbackMethod_ModelMetadata<
            S::WithCallbackMethod_RepositoryIndex<S::WithCallbackMethod_RepositoryModelLoad<
                S::WithCallbackMethod_RepositoryModelUnload<S::Service>>>>>>>>>;

class Calls final : public Callbacks {
 public:
  explicit Calls(serve::Service& service)
      : service_(service),
        responses_(service.metrics(), "etude_serve_grpc_responses_total",
                   "Answers of gRPC by their status code."),
        open_(service.metrics().gauge("etude_serve_grpc_calls",
                                      "Calls of gRPC that wait for a model or for a load.")) {}

  // Calls that wait.
  int64_t open() const { return open_.value(); }
  // Calls of ModelInfer that wait, or whose answers are not yet sent.
  int64_t unsent() const { return unsent_.value(); }

  Reactor* ServerLive(Context* context, const rpc::ServerLiveRequest*,
                      rpc::ServerLiveResponse* response) override {
    response->set_live(true);
    return finish(context, grpc::Status::OK);
  }
  Reactor* ServerReady(Context* context, const rpc::ServerReadyRequest*,
                       rpc::ServerReadyResponse* response) override {
    response->set_ready(service_.is_ready());
    return finish(context, grpc::Status::OK);
  }
  Reactor* ModelReady(Context* context, const rpc::ModelReadyRequest* request,
                      rpc::ModelReadyResponse* response) override {
    return answer(context, [&] {
      try {
        response->set_ready(service_.repository().find(request->name(), request->version()) !=
                            nullptr);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnavailable) throw;
        response->set_ready(false);
      }
    });
  }
  Reactor* ServerMetadata(Context* context, const rpc::ServerMetadataRequest*,
                          rpc::ServerMetadataResponse* response) override {
    return answer(context, [&] {
      response->set_name("etude");
      response->set_version(etude::version());
      response->add_extensions("model_repository");
    });
  }
  Reactor* ModelMetadata(Context* context, const rpc::ModelMetadataRequest* request,
                         rpc::ModelMetadataResponse* response) override {
    return answer(context, [&] {
      const auto model = service_.repository().find(request->name(), request->version());
      response->set_name(model->name());
      response->set_platform("etude");
      for (const std::string& version : service_.repository().versions_of(model->name())) {
        response->add_versions(version);
      }
      set_tensors(model->metadata().inputs, response->mutable_inputs());
      set_tensors(model->metadata().outputs, response->mutable_outputs());
    });
  }
  Reactor* RepositoryIndex(Context* context, const rpc::RepositoryIndexRequest* request,
                           rpc::RepositoryIndexResponse* response) override {
    return answer(context, [&] {
      for (const IndexEntry& each : service_.repository().index()) {
        if (request->ready() && each.state != "READY") continue;
        auto* model = response->add_models();
        model->set_name(each.name);
        model->set_version(each.version);
        model->set_state(each.state);
        model->set_reason(each.reason);
      }
    });
  }
  Reactor* RepositoryModelLoad(Context* context, const rpc::RepositoryModelLoadRequest* request,
                               rpc::RepositoryModelLoadResponse*) override {
    return answer_later(context,
                        [this, request] { service_.repository().load(request->model_name()); });
  }
  Reactor* RepositoryModelUnload(Context* context, const rpc::RepositoryModelUnloadRequest* request,
                                 rpc::RepositoryModelUnloadResponse*) override {
    return answer_later(context,
                        [this, request] { service_.repository().unload(request->model_name()); });
  }

  Reactor* ModelInfer(Context* context, const grpc::ByteBuffer* message,
                      grpc::ByteBuffer* answer) override {
    if (!has_token(context)) return finish(context, no_token());
    auto* call = new InferCall(open_, unsent_);  // gRPC owns it
    try {
      const rpc::ModelInferRequest request = parse_infer(message);
      const auto done = [this, call, id = request.id(),
                         answer](std::variant<InferResult, Error> outcome) {
        grpc::Status status = grpc::Status::OK;
        try {
          if (const auto* error = std::get_if<Error>(&outcome)) throw *error;
          status = answer_infer(id, std::get<InferResult>(outcome), *answer);
        } catch (const std::exception& caught) {
          status = status_of(error_of(caught));
        }
        count(status);
        call->answer(status);
      };
      std::shared_ptr<Model> model =
          service_.repository().find(request.model_name(), request.model_version());
      const CheckInput check = [&](const auto& name, DType dtype, const auto& shape) {
        model->check(name, dtype, shape);
      };
      InferRequest read = read_infer(request, check);
      call->wait_for(
          service_.infer(std::move(model), request.model_version(), std::move(read), done));
    } catch (const std::exception& error) {
      const grpc::Status status = status_of(error_of(error));
      count(status);
      call->answer(status);
    }
    return call;
  }

 private:
  static Reactor* finish(Context* context, const grpc::Status& status) {
    Reactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  bool has_token(Context* context) const {
    const auto found = context->client_metadata().find("authorization");
    const std::string_view given =
        found == context->client_metadata().end()
            ? std::string_view()
            : std::string_view(found->second.data(), found->second.size());
    return service_.is_authorized(given);
  }
  static grpc::Status no_token() {
    return {grpc::StatusCode::UNAUTHENTICATED,
            "the call needs the metadata 'authorization: Bearer TOKEN' with the token of this "
            "server"};
  }

  // Returns the status of f(), or of the error that it throws.
  template <class F>
  grpc::Status counted(const F& f) noexcept {
    grpc::Status status = grpc::Status::OK;
    try {
      status = f();
    } catch (const std::exception& error) {
      status = status_of(error_of(error));
    }
    count(status);
    return status;
  }

  template <class F>
  Reactor* answer(Context* context, const F& f) {
    return finish(context, counted([&] {
                    if (!has_token(context)) return no_token();
                    f();
                    return grpc::Status::OK;
                  }));
  }

  // On the thread for loads.
  template <class F>
  Reactor* answer_later(Context* context, const F& f) {
    if (!has_token(context)) return answer(context, f);
    Reactor* reactor = context->DefaultReactor();
    try {
      const auto open = std::make_shared<std::optional<CountScope>>(std::in_place, open_);
      service_.loads().add([this, reactor, f, open] {
        const grpc::Status status = counted([&] {
          f();
          return grpc::Status::OK;
        });
        open->reset();
        reactor->Finish(status);
      });
    } catch (const std::exception& error) {
      reactor->Finish(counted([&] { return status_of(error_of(error)); }));
    }
    return reactor;
  }

  void count(const grpc::Status& status) noexcept { responses_.add(status.error_code()); }

  serve::Service& service_;
  CodeCounters responses_;
  Counter& open_;
  Counter unsent_;
};

std::string file_text(const std::string& path) {
  if (path.empty()) return "";
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) {
    refuse(ErrorCode::kInvalidArgument, "'{}' cannot be used for TLS: it cannot be read", path);
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsFiles& files) {
  if (files.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      files.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                              : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = file_text(files.client_ca);
  options.pem_key_cert_pairs.push_back({file_text(files.key), file_text(files.certificate)});
  return grpc::SslServerCredentials(options);
}

// Calls each(json) for the elements of the list `key` of a page of channelz, the statistics of
// gRPC, and returns whether there are further pages.
template <class F>
bool read_page(char* page, std::string_view key, F&& each) {
  const std::unique_ptr<char, decltype(&gpr_free)> owner(page, gpr_free);
  if (page == nullptr) return false;
  bool is_last = false;
  JsonReader json(page, 16);
  json.object([&](const std::string& found) {
    if (found == key) return json.list([&] { each(json); });
    if (found != "end") return json.skip();
    is_last = json.flag();
  });
  return !is_last;
}

// The id in {"socketId":"12"}.
int64_t id_of(JsonReader& json, std::string_view key) {
  int64_t out = -1;
  json.object([&](const std::string& found) {
    if (found != key) return json.skip();
    out = std::stoll(json.text());
  });
  return out;
}

// The connections of all gRPC servers of this process. 0 if gRPC was built without statistics.
int64_t count_connections() {
  try {
    std::vector<int64_t> servers;
    bool has_more = true;
    for (int64_t next = 0; has_more;) {
      has_more = read_page(grpc_channelz_get_servers(next), "server", [&](JsonReader& json) {
        json.object([&](const std::string& key) {
          if (key != "ref") return json.skip();
          servers.push_back(id_of(json, "serverId"));
          next = servers.back() + 1;
        });
      });
    }
    int64_t out = 0;
    for (const int64_t server : servers) {
      has_more = true;
      for (int64_t next = 0; has_more;) {
        char* page = grpc_channelz_get_server_sockets(server, next, 0);
        has_more = read_page(page, "socketRef", [&](JsonReader& json) {
          next = id_of(json, "socketId") + 1;
          ++out;
        });
      }
    }
    return out;
  } catch (const std::exception&) {  // another form of the statistics
    return 0;
  }
}

}  // namespace

class GrpcServer::Impl {
 public:
  Impl(Service& service, const GrpcOptions& options) : calls_(service) {
    grpc::ResourceQuota quota("etude-serve");
    quota.Resize(static_cast<std::size_t>(options.memory_bytes));
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::size_t>(
        options.message_bytes, std::size_t{std::numeric_limits<int>::max()})));
    const bool is_six = options.host.find(':') != std::string::npos;
    builder.AddListeningPort(
        fmt::format("{}{}{}:{}", is_six ? "[" : "", options.host, is_six ? "]" : "", options.port),
        credentials_of(options.tls), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // A short message could become one of any length, before its limit is seen.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    // Against clients that hold a connection and send nothing, or that have gone without a word.
    const auto wait = static_cast<int>(options.read_timeout.count());
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, wait);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, wait);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, wait);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.calls);
    builder.RegisterService(&calls_);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      refuse(ErrorCode::kUnavailable,
             "gRPC cannot listen on {}:{}. Choose another --grpc-port, or 'off'", options.host,
             options.port);
    }
    service.metrics().read_gauge("etude_serve_grpc_connections", "Open connections of gRPC.",
                                 count_connections);
  }

  int port() const { return port_; }
  ~Impl() {
    if (stopper_) end_connections();  // calls were open at the deadline
  }

  bool drain(Clock::time_point deadline) {
    constexpr std::chrono::milliseconds kForAnswers(200);
    // Takes no more calls, and waits for running calls and for the connections of their clients.
    stopper_.emplace("the end of gRPC", 1, [this](const auto&) {
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::hours(24 * 365));
      is_stopped_ = true;
    });
    const auto is_idle = [this] { return calls_.open() == 0 && calls_.unsent() == 0; };
    do {  // a call may begin before gRPC takes no more
      if (!wait_until(deadline, [this] { return calls_.open() == 0; })) return false;
      // The last answers are on their way.
      if (!wait_until(std::max(deadline, Clock::now() + kForAnswers), is_idle)) return false;
      wait_until(Clock::now() + kForAnswers, [this] { return is_stopped_.load(); });
    } while (!is_stopped_.load() && !is_idle());
    end_connections();  // clients without a call may keep theirs
    server_->Wait();
    return true;
  }

 private:
  template <class F>
  static bool wait_until(Clock::time_point end, const F& holds) {
    while (!holds()) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  // Again and again, since a connection may just be beginning.
  void end_connections() {
    while (!is_stopped_.load()) {
      grpc_server_cancel_all_calls(server_->c_server());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    stopper_.reset();
  }

  Calls calls_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> is_stopped_{false};
  std::optional<Threads> stopper_;
};

bool has_grpc() { return true; }

GrpcServer::GrpcServer(Service& service, const GrpcOptions& options)
    : impl_(std::make_unique<Impl>(service, options)) {}
GrpcServer::~GrpcServer() = default;

uint16_t GrpcServer::port() const { return static_cast<uint16_t>(impl_->port()); }

bool GrpcServer::drain(Clock::time_point deadline) { return impl_->drain(deadline); }

}  // namespace etude::serve
