// SPDX-License-Identifier: Apache-2.0
// One end of the socket between a process and its compiler: messages of a letter and bytes. Used by
// worker.cc and, in the other process, by compiler_main.cc.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace etude::codegen {

// The type of a message. The compiler first sends kHello, with its process id and build_text().
// Then it answers each kRequest with one message. After an idle time it sends kBye and ends.
enum class Message : char {
  kHello = 'h',
  kRequest = 'q',
  kMade = 'm',    // the requested product
  kFailed = 'f',  // the letter 'a' + ErrorCode, and the message
  kBye = 'b',
};

struct Received {
  enum class State { kMessage, kClosed, kLate, kBroken } state = State::kClosed;
  Message message = Message::kBye;
  std::string bytes;
};

// Owns a descriptor. Never raises SIGPIPE. threads: thread-compatible.
class Channel {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of a message

  Channel() = default;
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void reset(int descriptor) {
    close();
    descriptor_ = descriptor;
  }
  void close();
  // Ends the connection, and wakes the other process and all threads that wait on this channel. The
  // descriptor stays open. threads: any.
  void shut() const;

  // Returns whether all bytes were taken before `until`.
  bool send(Message message, std::string_view bytes, Clock::time_point until) const;
  // Returns kBroken for an invalid message.
  Received receive(Clock::time_point until) const;
  // Returns whether a message, or the end of the connection, arrives before `until`.
  bool waits_for_reading(Clock::time_point until) const;

 private:
  bool is_ready(short events, Clock::time_point until) const;
  Received::State read(char* to, std::size_t size, Clock::time_point until) const;

  int descriptor_ = -1;
};

}  // namespace etude::codegen
