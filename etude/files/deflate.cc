// SPDX-License-Identifier: Apache-2.0
#include "etude/files/deflate.h"

#include <algorithm>
#include <utility>

#include <zlib.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

constexpr int kRawWindow = -15, kGzipWindow = 15 + 16;  // zlib: 32 KiB; no header, gzip's header
constexpr std::size_t kStep = std::size_t{1} << 30;     // fits zlib's uInt

Bytef* bytes_of(std::span<const uint8_t> from) {
  return const_cast<Bytef*>(from.data());  // zlib does not write to it
}

}  // namespace

struct InflateStream::State {
  z_stream stream = {};
  bool is_ready = false;
};

void InflateStream::End::operator()(State* state) const noexcept {
  if (state->is_ready) inflateEnd(&state->stream);
  delete state;
}

InflateStream::InflateStream(Form form, std::string_view name) : state_(new State), name_(name) {
  const int window = form == Form::kRaw ? kRawWindow : kGzipWindow;
  state_->is_ready = inflateInit2(&state_->stream, window) == Z_OK;
  ETUDE_REQUIRE_CODE(kResourceExhausted, state_->is_ready, "{}: no memory to inflate", name_);
}

InflateStream::Step InflateStream::step(std::span<const uint8_t> from, std::span<uint8_t> to) {
  z_stream& stream = state_->stream;
  const std::size_t given = std::min(from.size(), kStep), room = std::min(to.size(), kStep);
  uint8_t none = 0;  // zlib wants a place also for nothing
  stream.next_in = bytes_of(from);
  stream.avail_in = static_cast<uInt>(given);
  stream.next_out = room == 0 ? &none : to.data();
  stream.avail_out = static_cast<uInt>(room);
  const int status = inflate(&stream, Z_NO_FLUSH);
  ETUDE_REQUIRE_CODE(kResourceExhausted, status != Z_MEM_ERROR, "{}: no memory to inflate", name_);
  Step out{given - stream.avail_in, room - stream.avail_out, status == Z_STREAM_END, nullptr};
  if (!out.is_end && status != Z_OK && status != Z_BUF_ERROR) {
    out.damage = stream.msg != nullptr ? stream.msg : "needs a dictionary";
  }
  return out;
}

std::vector<uint8_t> deflated(std::span<const uint8_t> head, std::span<const uint8_t> body) {
  constexpr int kMemory = 8;  // zlib's default
  constexpr std::size_t kPart = std::size_t{1} << 20;
  z_stream stream = {};
  ETUDE_REQUIRE_CODE(kResourceExhausted,
                     deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawWindow, kMemory,
                                  Z_DEFAULT_STRATEGY) == Z_OK,
                     "no memory to deflate");
  const std::unique_ptr<z_stream, void (*)(z_stream*)> ends(
      &stream, [](z_stream* used) { deflateEnd(used); });
  std::vector<uint8_t> out;
  for (const auto& [part, flush] : {std::pair(head, Z_NO_FLUSH), std::pair(body, Z_FINISH)}) {
    std::span<const uint8_t> rest = part;
    for (bool is_done = false; !is_done;) {
      const std::size_t give = std::min(rest.size(), kPart), made = out.size();
      out.resize(made + kPart);
      stream.next_in = bytes_of(rest);
      stream.avail_in = static_cast<uInt>(give);
      stream.next_out = out.data() + made;
      stream.avail_out = static_cast<uInt>(kPart);
      const int status = deflate(&stream, give == rest.size() ? flush : Z_NO_FLUSH);
      ETUDE_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR,
                  "zlib did not deflate: status {}", status);
      rest = rest.subspan(give - stream.avail_in);
      out.resize(out.size() - stream.avail_out);
      is_done = flush == Z_FINISH ? status == Z_STREAM_END : rest.empty();
    }
  }
  return out;
}

}  // namespace etude::internal
