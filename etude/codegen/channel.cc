// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace etude::codegen {
namespace {

constexpr std::size_t kHead = 1 + sizeof(uint64_t);  // of a message: the letter and a length
constexpr std::string_view kLetters = "hqmfb";

}  // namespace

void Channel::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void Channel::shut() const { ::shutdown(descriptor_, SHUT_RDWR); }

bool Channel::is_ready(short events, Clock::time_point until) const {
  for (;;) {
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd entry{descriptor_, events, 0};
    const int found = ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (found > 0) return true;
    if (found == 0 && left <= (1 << 30)) return false;
    if (found < 0 && errno != EINTR && errno != EAGAIN) return false;
  }
}

bool Channel::waits_for_reading(Clock::time_point until) const { return is_ready(POLLIN, until); }

bool Channel::send(Message message, std::string_view bytes, Clock::time_point until) const {
  std::string text(1, static_cast<char>(message));
  const uint64_t size = bytes.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size);
  text += bytes;
  for (std::string_view left = text; !left.empty();) {
    if (!is_ready(POLLOUT, until)) return false;
    const ssize_t n = ::send(descriptor_, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (n > 0) left.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

Received::State Channel::read(char* to, std::size_t size, Clock::time_point until) const {
  for (std::size_t done = 0; done < size;) {
    if (!is_ready(POLLIN, until)) return Received::State::kLate;
    const ssize_t n = ::recv(descriptor_, to + done, size - done, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return Received::State::kClosed;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return Received::State::kMessage;
}

Received Channel::receive(Clock::time_point until) const {
  Received out;
  char head[kHead];
  out.state = read(head, sizeof head, until);
  if (out.state != Received::State::kMessage) return out;
  uint64_t size = 0;
  std::memcpy(&size, head + 1, sizeof size);
  if (kLetters.find(head[0]) == std::string_view::npos || size > kMostBytes) {
    out.state = Received::State::kBroken;
    return out;
  }
  out.message = static_cast<Message>(head[0]);
  out.bytes.resize(size);
  out.state = read(out.bytes.data(), size, until);
  return out;
}

}  // namespace etude::codegen
