// SPDX-License-Identifier: Apache-2.0
// Bodies that arrive in pieces, and the budget that they share.
#include "serve/http_body.h"

#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

namespace etude::serve {
namespace {

using BodyParser = http::request_parser<ChargedBody>;
constexpr const char* kChunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

class Arrival {
 public:
  explicit Arrival(MemoryBudget& budget)
      : parser_(std::piecewise_construct, std::forward_as_tuple(budget)) {
    parser_.eager(true);
  }
  // Bytes that the parser does not take yet come again, before the next ones.
  beast::error_code arrive(const std::string& bytes) {
    rest_ += bytes;
    beast::error_code error;
    while (!rest_.empty() && !error) {
      rest_.erase(0, parser_.put(net::buffer(rest_), error));
      if (parser_.is_done()) break;
    }
    return error == http::error::need_more ? beast::error_code() : error;
  }
  BodyParser& parser() { return parser_; }

 private:
  BodyParser parser_;
  std::string rest_;
};

TEST(HttpBody, CountsBytesThatHaveArrived) {
  MemoryBudget budget(1000);
  {
    Arrival chunked(budget), known(budget);
    EXPECT_FALSE(chunked.arrive(kChunked + std::string("200\r\n")));
    EXPECT_FALSE(known.arrive("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"));
    EXPECT_EQ(budget.left(), 1000);
    EXPECT_FALSE(chunked.arrive(std::string(100, 'a')));
    EXPECT_EQ(budget.left(), 900);
    EXPECT_FALSE(known.arrive(std::string(300, 'b')));
    EXPECT_EQ(budget.left(), 600);
    EXPECT_LE(known.parser().get().body().text.capacity(), 1200U);
    EXPECT_FALSE(chunked.arrive(std::string(0x200 - 100, 'c')));
    EXPECT_FALSE(chunked.arrive("\r\n0\r\n\r\n"));
    EXPECT_TRUE(chunked.parser().is_done());
    EXPECT_EQ(chunked.parser().get().body().text,
              std::string(100, 'a') + std::string(0x200 - 100, 'c'));
    EXPECT_EQ(budget.left(), 700 - 0x200);
  }
  EXPECT_EQ(budget.left(), 1000);
}

TEST(HttpBody, FailsWhenItsBytesDoNotFit) {
  MemoryBudget budget(150);
  Arrival first(budget), second(budget);
  EXPECT_FALSE(first.arrive(kChunked + std::string("64\r\n") + std::string(100, 'a')));
  EXPECT_EQ(second.arrive(kChunked + std::string("64\r\n") + std::string(51, 'b')),
            boost::system::errc::no_buffer_space);
  EXPECT_EQ(budget.left(), 50);
  EXPECT_FALSE(first.arrive("\r\n32\r\n"));
  EXPECT_FALSE(first.arrive(std::string(50, 'c')));
  EXPECT_FALSE(first.arrive("\r\n0\r\n\r\n"));
  EXPECT_TRUE(first.parser().is_done());
  EXPECT_EQ(budget.left(), 0);
}

TEST(HttpBody, TheChargeOutlivesTheText) {
  MemoryBudget budget(10);
  {
    Arrival request(budget);
    EXPECT_FALSE(request.arrive("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789"));
    auto message = request.parser().release();
    const Charge charge = std::move(message.body().charge);
    const std::string text = std::move(message.body().text);
    message.body().text.clear();
    EXPECT_EQ(text, "0123456789");
    EXPECT_EQ(budget.left(), 0);
  }
  EXPECT_EQ(budget.left(), 10);
}

}  // namespace
}  // namespace etude::serve
