// SPDX-License-Identifier: Apache-2.0
// Deflate streams of zlib: zip archives and gzip files. zlib's statuses are checked only here.
// Readers count against their budgets before they inflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace etude::internal {

// No stream grows by more: zlib, "Maximum Compression Factor".
inline constexpr uint64_t kMaxInflation = 1032;

// threads: confined to one reader.
class InflateStream {
 public:
  enum class Form { kRaw, kGzip };
  // `name`, the file in errors, must outlive the stream. throws: kResourceExhausted.
  InflateStream(Form form, std::string_view name);

  struct Step {
    std::size_t read = 0, made = 0;  // bytes
    bool is_end = false;             // of the stream
    const char* damage = nullptr;    // the fault of the stream; null: none
  };
  // Inflates from `from` to `to` until one of them has no room left. A step that is not the end,
  // and neither reads nor makes a byte, needs more of both.
  // throws: kResourceExhausted without memory.
  Step step(std::span<const uint8_t> from, std::span<uint8_t> to);

 private:
  struct State;
  struct End {
    void operator()(State* state) const noexcept;
  };
  std::unique_ptr<State, End> state_;
  std::string_view name_;
};

// The raw stream of both parts, one after the other. throws: kResourceExhausted.
std::vector<uint8_t> deflated(std::span<const uint8_t> head, std::span<const uint8_t> body);

}  // namespace etude::internal
