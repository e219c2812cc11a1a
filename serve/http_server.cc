// SPDX-License-Identifier: Apache-2.0
// Boost.Beast reads and writes HTTP. Servers with a thread for each connection, such as
// cpp-httplib, have none left when clients send slowly.
#include "serve/http_server.h"

#include <atomic>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "serve/http_session.h"
#include "serve/refuse.h"
#include "serve/threads.h"

namespace etude::serve {
namespace {

net::ssl::context tls_context(const TlsFiles& files) {
  net::ssl::context context(net::ssl::context::tls_server);
  if (files.certificate.empty()) return context;
  std::string file = files.certificate;
  try {
    context.set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                        net::ssl::context::no_tlsv1_1);
    context.use_certificate_chain_file(file);
    file = files.key;
    context.use_private_key_file(file, net::ssl::context::pem);
    if (!files.client_ca.empty()) {
      file = files.client_ca;
      context.load_verify_file(file);
      context.set_verify_mode(net::ssl::verify_peer | net::ssl::verify_fail_if_no_peer_cert);
    }
  } catch (const std::exception& error) {
    if (std::string_view(error.what()).find("key values mismatch") != std::string_view::npos) {
      refuse(ErrorCode::kInvalidArgument,
             "the key '{}' (--tls-key) does not belong to the certificate '{}' (--tls-cert). Give "
             "the key with which the certificate was made",
             files.key, files.certificate);
    }
    refuse(ErrorCode::kInvalidArgument, "'{}' cannot be used for TLS: {}. It must be a PEM file",
           file, error.what());
  }
  return context;
}

// A connection is an open file.
void raise_file_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Service& service, const HttpOptions& options)
      : shared_(std::make_shared<HttpShared>(service, options)),
        tls_(tls_context(options.tls)),
        io_(std::max(options.threads, 1)),
        acceptor_(net::make_strand(io_)),
        pause_(acceptor_.get_executor()),
        errors_(service.metrics().counter("etude_serve_internal_errors_total",
                                          "Exceptions that no handler expects.")) {
    raise_file_limit();
    listen(options);
    service.metrics().read_gauge("etude_serve_http_connections", "Open connections of HTTP.",
                                 [shared = shared_] { return shared->open.load(); });
    service.metrics().read_gauge(
        "etude_serve_http_body_bytes", "Bytes of the bodies of requests and answers.",
        [shared = shared_] { return shared->options.memory_bytes - shared->memory.left(); });
    accept();
    threads_.emplace("HTTP", std::max(options.threads, 1), [this](const auto&) { run(); });
  }
  ~Impl() { io_.stop(); }

  uint16_t port() const { return port_; }
  std::size_t threads() const { return threads_->count(); }

  void stop() {
    net::post(acceptor_.get_executor(), [this] {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
    });
    close_idle();
  }
  bool drain(Clock::time_point deadline) {
    // A connection without a request needs no time of the drain: it is closed after it, too, or
    // gets the rest of its answer. Shutdown ends the process if that does not end.
    while (shared_->open.load() > 0 && (Clock::now() < deadline || shared_->requests.load() == 0)) {
      close_idle();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return shared_->open.load() == 0;
  }

 private:
  void listen(const HttpOptions& options) {
    boost::system::error_code error;
    const net::ip::address address = net::ip::make_address(options.host, error);
    if (error) {
      refuse(ErrorCode::kInvalidArgument,
             "'{}' is no address. Write an IP address, such as 127.0.0.1", options.host);
    }
    const tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(4096, error);
    if (error) {
      refuse(ErrorCode::kUnavailable, "cannot listen on {}:{}: {}. Choose another --http-port",
             options.host, options.port, error.message());
    }
    port_ = acceptor_.local_endpoint().port();
  }

  // An exception that reaches this, such as for memory, ends one handler, not the server.
  void run() {
    for (;;) {
      try {
        if (!accepts_.load()) {
          net::post(acceptor_.get_executor(), [this] {
            if (!accepts_.load()) accept();
          });
        }
        io_.run();
        return;
      } catch (const std::exception&) {
        errors_.add();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }

  // Until a connection comes, accepts_ is true. If a handler ends by an exception, run() goes on.
  void accept() {
    acceptor_.async_accept(net::make_strand(io_),
                           [this](beast::error_code error, tcp::socket socket) {
                             accepts_ = false;
                             if (error == net::error::operation_aborted || !acceptor_.is_open())
                               return;
                             if (error) return pause();
                             accept();
                             begin(std::move(socket));
                           });
    accepts_ = true;
  }

  // After an error of the system, such as too many open files.
  void pause() {
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([this](beast::error_code stopped) {
      accepts_ = false;
      if (!stopped) accept();
    });
    accepts_ = true;
  }

  void begin(tcp::socket socket) {
    if (shared_->open.load() >= shared_->options.connections) {
      shared_->service.metrics()
          .counter("etude_serve_http_connections_refused_total",
                   "Connections beyond --connections, which were closed.")
          .add();
      return;
    }
    if (shared_->options.tls.certificate.empty()) {
      std::make_shared<Session<beast::tcp_stream>>(shared_, std::move(socket))->start();
    } else {
      std::make_shared<Session<beast::ssl_stream<beast::tcp_stream>>>(shared_, std::move(socket),
                                                                      tls_)
          ->start();
    }
  }

  void close_idle() {
    std::vector<std::shared_ptr<SessionBase>> all;
    {
      const std::lock_guard lock(shared_->mutex);
      for (const auto& weak : shared_->sessions) {
        if (auto session = weak.lock()) all.push_back(std::move(session));
      }
    }
    for (const std::shared_ptr<SessionBase>& session : all) session->close_if_idle();
  }

  std::shared_ptr<HttpShared> shared_;
  net::ssl::context tls_;
  net::io_context io_;
  tcp::acceptor acceptor_;
  net::steady_timer pause_;
  uint16_t port_ = 0;
  Counter& errors_;
  std::atomic<bool> accepts_{false};
  std::optional<Threads> threads_;  // the last member, since they use the others
};

HttpServer::HttpServer(Service& service, const HttpOptions& options)
    : impl_(std::make_unique<Impl>(service, options)) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->port(); }
std::size_t HttpServer::threads() const { return impl_->threads(); }

void HttpServer::stop() { impl_->stop(); }
bool HttpServer::drain(Clock::time_point deadline) { return impl_->drain(deadline); }

}  // namespace etude::serve
