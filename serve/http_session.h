// SPDX-License-Identifier: Apache-2.0
// One connection of the HTTP server: reads a request, waits for its answer, writes it, and begins
// again. Its functions run on the strand of its socket, one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include "serve/http_body.h"
#include "serve/http_server.h"

namespace etude::serve {

using tcp = boost::asio::ip::tcp;

class SessionBase {
 public:
  virtual ~SessionBase() = default;
  virtual void close_if_idle() = 0;
};

// The state that all connections share. threads: thread-safe.
struct HttpShared {
  HttpShared(Service& service_of, HttpOptions options_of)
      : service(service_of),
        options(std::move(options_of)),
        responses(service.metrics(), "etude_serve_http_responses_total",
                  "Answers by their status."),
        memory(options.memory_bytes) {}

  void add(const std::shared_ptr<SessionBase>& session) {
    const std::lock_guard lock(mutex);
    sessions.insert(session);
  }
  void remove(const std::weak_ptr<SessionBase>& session) {
    const std::lock_guard lock(mutex);
    sessions.erase(session);
  }

  Error no_memory() const {
    return {ErrorCode::kUnavailable,
            fmt::format("the bodies of requests and answers have reached the limit of {} bytes "
                        "(--memory). Ask again later",
                        options.memory_bytes)};
  }
  // For an answer of at least `bytes` to a request of `held` bytes.
  Error no_memory(int64_t bytes, int64_t held) const {
    if (bytes + held <= options.memory_bytes) return no_memory();
    return {ErrorCode::kResourceExhausted,
            fmt::format("the answer has at least {} bytes and its request {}, but the bodies of "
                        "requests and answers may have {} together (--memory). Ask for less at "
                        "once, or start the server with a larger --memory",
                        bytes, held, options.memory_bytes)};
  }

  Service& service;
  HttpOptions options;
  CodeCounters responses;
  MemoryBudget memory;
  std::atomic<int64_t> open{0};      // connections
  std::atomic<int64_t> requests{0};  // requests without an answer that can be written
  std::mutex mutex;
  std::set<std::weak_ptr<SessionBase>, std::owner_less<>> sessions;
};

inline std::string text(beast::string_view view) { return {view.data(), view.size()}; }

// Counts itself while it exists.
class Counted {
 public:
  using Count = std::atomic<int64_t> HttpShared::*;
  Counted(std::shared_ptr<HttpShared> shared, Count count)
      : shared_(std::move(shared)), count_(count) {
    ((*shared_).*count_).fetch_add(1);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { ((*shared_).*count_).fetch_sub(1); }

 private:
  std::shared_ptr<HttpShared> shared_;
  Count count_;
};

template <class Stream>
class Session final : public SessionBase, public std::enable_shared_from_this<Session<Stream>> {
  static constexpr bool kIsTls = !std::is_same_v<Stream, beast::tcp_stream>;

 public:
  template <class... A>
  Session(std::shared_ptr<HttpShared> shared, tcp::socket&& socket, A&... tls)
      : open_(shared, &HttpShared::open),
        shared_(std::move(shared)),
        stream_(std::move(socket), tls...) {
    boost::system::error_code ignored;
    const tcp::endpoint peer = lowest().socket().remote_endpoint(ignored);
    peer_ = peer.address().to_string(ignored);
    lowest().socket().set_option(tcp::no_delay(true), ignored);
  }

  void start() {
    shared_->add(this->shared_from_this());
    net::dispatch(stream_.get_executor(), [self = this->shared_from_this()] { self->handshake(); });
  }
  void close_if_idle() override {
    net::post(stream_.get_executor(), [self = this->shared_from_this()] {
      self->last_ = true;
      if (self->is_busy_) return;
      self->is_closing_ = true;  // the read that is pending ends, and closes
      boost::system::error_code ignored;
      self->lowest().socket().cancel(ignored);
    });
  }

 private:
  using Parser = http::request_parser<ChargedBody>;
  static constexpr uint32_t kHeaderBytes = 16 << 10;

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  void handshake() {
    if constexpr (kIsTls) {
      lowest().expires_after(shared_->options.read_timeout);
      stream_.async_handshake(net::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code error) {
                                if (error) return self->close();
                                self->read_header();
                              });
    } else {
      read_header();
    }
  }

  void read_header() {
    if (last_) return close();
    is_head_ = false;
    charge_.reset();
    answer_charge_.reset();
    parser_.emplace(std::piecewise_construct, std::forward_as_tuple(shared_->memory));
    parser_->header_limit(kHeaderBytes);
    parser_->body_limit(shared_->options.body_bytes);
    lowest().expires_after(shared_->options.read_timeout);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](
                                beast::error_code error, std::size_t) { self->on_header(error); });
  }

  // A message that cannot be read is answered, and the connection closed.
  void refuse_message(beast::error_code error) {
    begun_ = Clock::now();
    last_ = true;
    parser_.reset();  // others may use its memory
    if (error == boost::system::errc::no_buffer_space) {
      refuse_body();
    } else if (error == http::error::body_limit) {
      write(error_response(413, fmt::format("the body is larger than {} bytes, the limit of this "
                                            "server (--body-limit)",
                                            shared_->options.body_bytes)));
    } else if (error.category() == beast::error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      write(error_response(400, fmt::format("this is no HTTP request: {}", error.message())));
    } else {
      close();
    }
  }

  void refuse_body() {
    last_ = true;
    write(error_response(shared_->no_memory()));
  }

  void on_header(beast::error_code error) {
    if (error) return refuse_message(error);
    is_busy_ = true;
    request_.emplace(shared_, &HttpShared::requests);
    is_head_ = parser_->get().method() == http::verb::head;
    begun_ = Clock::now();
    // A body that cannot fit now is refused before it is sent.
    const auto length = parser_->content_length();
    if (length && shared_->memory.left() < static_cast<int64_t>(*length)) return refuse_body();
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue"))
      return write_continue();
    read_body();
  }

  void write_continue() {
    const auto empty =
        std::make_shared<http::response<http::empty_body>>(http::status::continue_, 11);
    http::async_write(
        stream_, *empty,
        [self = this->shared_from_this(), empty](beast::error_code error, std::size_t) {
          if (error) return self->close();
          self->read_body();
        });
  }

  void read_body() {
    // Else each read would take the 512 bytes with which the buffer begins.
    if (!parser_->is_done()) buffer_.reserve(kHeaderBytes);
    lowest().expires_after(shared_->options.read_timeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code error, std::size_t) {
                       if (error) return self->refuse_message(error);
                       self->ask();
                     });
  }

  void ask() {
    lowest().expires_never();
    auto message = parser_->release();
    last_ = last_ || !message.keep_alive();
    HttpRequest request;
    request.method = is_head_ ? "GET" : text(message.method_string());
    request.target = text(message.target());
    request.authorization = text(message[http::field::authorization]);
    request.content_encoding = text(message[http::field::content_encoding]);
    if (const auto at = message.find("Inference-Header-Content-Length"); at != message.end()) {
      request.header_length = text(at->value());
    }
    charge_.emplace(std::move(message.body().charge));
    answer_charge_ = std::make_shared<Charge>(shared_->memory);
    request.reserve = [shared = shared_, charge = answer_charge_,
                       held = charge_->bytes()](int64_t bytes) {
      const int64_t all = charge->bytes() + bytes;
      if (!charge->add(bytes)) throw shared->no_memory(all, held);
    };
    request.body = std::move(message.body().text);
    if (shared_->options.access_log) {
      line_ = request.method.substr(0, 16) + " " + request.target.substr(0, 256);
    }
    std::shared_ptr<Ticket> ticket = shared_->service.answer(
        std::move(request), [self = this->shared_from_this()](HttpResponse response) noexcept {
          try {
            net::post(self->stream_.get_executor(),
                      [self, response = std::move(response)]() mutable {
                        self->write(std::move(response));
                      });
          } catch (const std::exception&) {
            self->cut();
          }
        });
    ticket_ = std::move(ticket);
    if (ticket_ && buffer_.size() == 0) watch_client();
  }

  // Abandons the request if the client closes the connection before the answer.
  void watch_client() {
    lowest().socket().async_wait(
        tcp::socket::wait_read, [self = this->shared_from_this()](beast::error_code error) {
          if (self->is_cut_.load()) return self->close();
          if (error || !self->ticket_) return;
          char byte = 0;
          const auto got =
              ::recv(self->lowest().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
          if (got > 0) return;  // the next request
          // asio may also report an earlier state.
          if (got < 0 && (errno == EAGAIN || errno == EINTR)) return self->watch_client();
          self->shared_->service.metrics()
              .counter("etude_serve_clients_gone_total", "Clients that left before their answer.")
              .add();
          self->last_ = true;
          self->ticket_->abandon();
        });
  }

  // There is no memory to write an answer. The client sees the end of the connection, and
  // watch_client() closes it. Runs on any thread.
  void cut() noexcept {
    is_cut_ = true;
    ::shutdown(lowest().socket().native_handle(), SHUT_RDWR);
  }

  void write(HttpResponse response) {
    if (ticket_) {
      ticket_.reset();
      boost::system::error_code ignored;
      lowest().socket().cancel(ignored);
      // A small request may have a large answer, and a client that does not read it.
      const auto bytes = static_cast<int64_t>(response.body.size());
      const int64_t more = std::max<int64_t>(bytes - answer_charge_->bytes(), 0);
      if (response.status == 200 && !answer_charge_->add(more)) {
        response = error_response(shared_->no_memory(bytes, charge_->bytes()));
      }
      if (response.status != 200) answer_charge_.reset();
    }
    last_ = last_ || shared_->service.is_draining();
    const auto message = std::make_shared<http::response<http::string_body>>(
        static_cast<http::status>(response.status), 11);
    message->set(http::field::content_type,
                 beast::string_view(response.type.data(), response.type.size()));
    if (response.header_length) {
      message->set("Inference-Header-Content-Length", std::to_string(*response.header_length));
    }
    if (!response.allow.empty()) {
      message->set(http::field::allow,
                   beast::string_view(response.allow.data(), response.allow.size()));
    }
    if (response.status == 401) message->set(http::field::www_authenticate, "Bearer");
    message->keep_alive(!last_);
    message->body() = std::move(response.body);
    message->prepare_payload();
    // The client of a HEAD would take a body for the next answer.
    if (is_head_) message->body().clear();
    note(response.status, message->body().size());
    lowest().expires_after(shared_->options.read_timeout);
    request_.reset();  // before the client can have the answer, and then see the server end
    http::async_write(
        stream_, *message,
        [self = this->shared_from_this(), message](beast::error_code error, std::size_t) {
          self->is_busy_ = false;
          if (error || self->last_) return self->close();
          self->read_header();
        });
  }

  void note(int status, std::size_t bytes) {
    shared_->responses.add(status);
    if (!shared_->options.access_log) return;
    std::string safe;
    for (const char c : line_) safe += c >= ' ' && c < 127 && c != '"' ? c : '?';
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begun_).count();
    shared_->options.access_log(
        fmt::format("{} \"{}\" {} {} {:.2f} ms", peer_, safe, status, bytes, ms));
    line_.clear();
  }

  void close() {
    parser_.reset();  // others may use the memory of this request
    charge_.reset();
    answer_charge_.reset();
    shared_->remove(this->weak_from_this());
    boost::system::error_code ignored;
    // The peer may still be sending a body that was refused: it shall see the answer, no reset.
    lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (is_closing_ || kIsTls) {
      lowest().socket().close(ignored);
      return;
    }
    is_closing_ = true;
    lowest().expires_after(std::chrono::seconds(2));
    discard();
  }
  void discard() {
    buffer_.consume(buffer_.size());
    lowest().async_read_some(buffer_.prepare(4096), [self = this->shared_from_this()](
                                                        beast::error_code error, std::size_t) {
      if (error) {
        boost::system::error_code ignored;
        self->lowest().socket().close(ignored);
        return;
      }
      self->discard();
    });
  }

  // The first member, so the last that goes: when none is open, no session uses its executor.
  Counted open_;
  std::shared_ptr<HttpShared> shared_;
  Stream stream_;
  beast::flat_buffer buffer_{64 << 10};
  std::optional<Parser> parser_;
  std::optional<Counted> request_;
  std::shared_ptr<Ticket> ticket_;
  std::optional<Charge> charge_;           // of the request that is answered
  std::shared_ptr<Charge> answer_charge_;  // of its answer; also while a worker writes it
  std::string peer_, line_;
  Clock::time_point begun_ = Clock::now();
  bool last_ = false;     // close after this answer
  bool is_busy_ = false;  // from the header of a request to the end of its answer
  bool is_closing_ = false, is_head_ = false;
  std::atomic<bool> is_cut_{false};
};

}  // namespace etude::serve
