// SPDX-License-Identifier: Apache-2.0
// serve-load PORT CLIENTS SECONDS METHOD PATH [BODY_FILE]: clients of HTTP on one thread. Each has
// a connection, and sends its next request when it has its answer. Prints JSON: the answers in a
// second, and percentiles of their time. A client in Python would use more of the processor than
// the server.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("the server refuses a connection");
    }
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(socket_); }

  int socket() const { return socket_; }

  // A request is shorter than the buffer of a socket, so it is sent at once.
  void send(std::string_view request) {
    begun_ = Clock::now();
    got_.clear();
    while (!request.empty()) {
      const ssize_t sent = ::send(socket_, request.data(), request.size(), MSG_NOSIGNAL);
      if (sent <= 0) throw std::runtime_error("a request cannot be sent");
      request.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Reads the bytes that have come. The seconds from the request to the end of its answer; negative
  // before.
  double receive() {
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) throw std::runtime_error("the server closes a connection");
    got_.append(bytes, static_cast<std::size_t>(count));
    const std::size_t head = got_.find("\r\n\r\n");
    if (head == std::string::npos || got_.size() < head + 4 + length_of_body(head)) return -1;
    if (!got_.starts_with("HTTP/1.1 200")) throw std::runtime_error(got_.substr(0, 300));
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }

 private:
  std::size_t length_of_body(std::size_t head) const {
    constexpr std::string_view kName = "\r\ncontent-length: ";
    const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
    const auto at = std::search(got_.begin(), got_.begin() + static_cast<std::ptrdiff_t>(head),
                                kName.begin(), kName.end(), same);
    const std::size_t begin = static_cast<std::size_t>(at - got_.begin()) + kName.size();
    std::size_t out = 0;
    if (begin > head ||
        std::from_chars(got_.data() + begin, got_.data() + head, out).ec != std::errc()) {
      throw std::runtime_error("an answer has no length: " + got_.substr(0, 300));
    }
    return out;
  }

  int socket_;
  std::string got_;
  Clock::time_point begun_;
};

std::string request_of(const std::string& method, const std::string& path, const char* body_file) {
  std::string out = method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  if (body_file == nullptr) return out + "\r\n";
  std::ifstream in(body_file, std::ios::binary);
  const std::string body{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (body.empty()) throw std::runtime_error("the file of the body is missing or empty");
  return out + "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

void run(char** argv, int argc) {
  const auto port = static_cast<uint16_t>(std::atoi(argv[1]));
  const int count = std::atoi(argv[2]);
  const double seconds = std::atof(argv[3]);
  const std::string request = request_of(argv[4], argv[5], argc > 6 ? argv[6] : nullptr);
  const int poll = ::epoll_create1(0);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(port));
    epoll_event event = {.events = EPOLLIN, .data = {.ptr = clients.back().get()}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, clients.back()->socket(), &event);
    clients.back()->send(request);
  }
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<epoll_event> events(static_cast<std::size_t>(count));
  while (Clock::now() < end) {
    const int ready = ::epoll_wait(poll, events.data(), count, 10000);
    if (ready <= 0) throw std::runtime_error("the server is silent for 10 seconds");
    for (int i = 0; i < ready; ++i) {
      auto* client = static_cast<Client*>(events[static_cast<std::size_t>(i)].data.ptr);
      const double took = client->receive();
      if (took < 0) continue;
      times.push_back(took);
      client->send(request);
    }
  }
  const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
  ::close(poll);
  if (times.empty()) throw std::runtime_error("there was no answer");
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return 1e3 * times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  std::printf("{\"rate\": %.1f, \"p50_ms\": %.4f, \"p99_ms\": %.4f}\n",
              static_cast<double>(times.size()) / whole, at(0.5), at(0.99));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 6 && argc != 7) throw std::runtime_error("six or seven arguments");
    run(argv, argc);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serve-load: %s\n", error.what());
    return 1;
  }
}
