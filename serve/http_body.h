// SPDX-License-Identifier: Apache-2.0
// The bodies of HTTP requests, and the budget of memory that they share with answers. The bytes of
// a body count when they arrive. If its announced length counted, few clients could take the whole
// budget and send nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/optional.hpp>

namespace etude::serve {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;

// threads: thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes) : left_(bytes) {}
  int64_t left() const { return left_.load(); }
  // Takes n bytes. Returns false if fewer are left; then none are taken.
  bool take(int64_t n) {
    int64_t left = left_.load();
    while (left >= n) {
      if (left_.compare_exchange_weak(left, left - n)) return true;
    }
    return false;
  }
  void give_back(int64_t n) { left_.fetch_add(n); }

 private:
  std::atomic<int64_t> left_;
};

// Bytes of a budget, which come back with the object. The budget must outlive it.
class Charge {
 public:
  explicit Charge(MemoryBudget& budget) : budget_(&budget) {}
  Charge(Charge&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() { budget_->give_back(bytes_); }

  int64_t bytes() const { return bytes_; }
  // Takes n bytes more. Returns false if fewer are left; then none are taken.
  bool add(int64_t n) {
    if (!budget_->take(n)) return false;
    bytes_ += n;
    return true;
  }

 private:
  MemoryBudget* budget_;
  int64_t bytes_ = 0;
};

struct RequestBody {
  explicit RequestBody(MemoryBudget& budget) : charge(budget) {}
  std::string text;
  Charge charge;
};

// A body for http::request_parser. Reading fails with errc::no_buffer_space if more bytes arrive
// than the budget has left.
struct ChargedBody {
  using value_type = RequestBody;

  class reader {  // NOLINT(readability-identifier-naming): the name that Beast looks for
   public:
    template <class Header>
    reader(const Header&, RequestBody& body) : body_(body) {}
    void init(const boost::optional<uint64_t>& length, beast::error_code& error) {
      length_ = length ? static_cast<std::size_t>(*length) : 0;
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, beast::error_code& error) {
      const std::size_t more = beast::buffer_bytes(buffers), size = body_.text.size() + more;
      if (!body_.charge.add(static_cast<int64_t>(more))) {
        error = boost::system::errc::make_error_code(boost::system::errc::no_buffer_space);
        return 0;
      }
      error = {};
      // A text grows to twice its size. An announced length saves most copies, but memory for all
      // of it would be given to clients that have sent little.
      if (size > body_.text.capacity()) body_.text.reserve(std::min(length_, 4 * size));
      for (const net::const_buffer each : beast::buffers_range_ref(buffers)) {
        body_.text.append(static_cast<const char*>(each.data()), each.size());
      }
      return more;
    }
    void finish(beast::error_code& error) { error = {}; }

   private:
    RequestBody& body_;
    std::size_t length_ = 0;  // 0: unknown
  };
};

}  // namespace etude::serve
