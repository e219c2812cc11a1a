// SPDX-License-Identifier: Apache-2.0
// The compiler: a program that holds LLVM. A process of Etude starts it with a socket as descriptor
// 0 (worker.h), and requests object files and texts on it (request.h).
#include <charconv>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/raw_ostream.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etude/base/check.h"
#include "etude/codegen/channel.h"
#include "etude/codegen/cluster_request.h"
#include "etude/codegen/llvm/emit.h"
#include "etude/codegen/llvm/ir_math.h"
#include "etude/codegen/llvm/target.h"
#include "etude/codegen/request.h"

namespace etude::codegen {
namespace {

using Clock = Channel::Clock;
using ModulePtr = std::unique_ptr<llvm::Module>;

// Kinds of sources, and the function that makes a module of a source.
struct Kind {
  std::string_view name;
  ModulePtr (*emit)(llvm::LLVMContext&, const std::string& source, const CompileOptions&);
};
constexpr Kind kKinds[] = {
    {"program",
     [](llvm::LLVMContext& context, const std::string& source, const CompileOptions& options) {
       return emit_module(context, kKernelName, read_program(source), options);
     }},
    {"cluster",
     [](llvm::LLVMContext& context, const std::string& source, const CompileOptions& options) {
       return emit_cluster(context, kKernelName, read_cluster(source), options);
     }},
};

ModulePtr emit(llvm::LLVMContext& context, const Request& request) {
  for (const Kind& kind : kKinds) {
    if (kind.name == request.kind) return kind.emit(context, request.source, request.options);
  }
  ETUDE_THROW(kInvalidArgument, "the compiler was sent a '{}', which it does not know",
              request.kind);
}

std::string ir_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

std::string make(const Request& request) {
  const bool is_arm64 = request.product == Product::kArm64Object;
  emitted_kind = is_arm64 ? MachineKind::kArm64 : MachineKind::kThis;
  llvm::LLVMContext context;
  const ModulePtr module = emit(context, request);
  if (request.product == Product::kIr) return ir_of(*module);
  const Target target(request.options);
  target.optimize(*module);
  switch (request.product) {
    case Product::kAssembly:
      return target.assembly(*module);
    case Product::kObject:
    case Product::kArm64Object:
      return target.object(*module)->getBuffer().str();
    default:
      return ir_of(*module);
  }
}

// A message to be sent.
struct Answer {
  Message message;
  std::string bytes;
};

Answer failed(ErrorCode code, std::string_view why) {
  return {Message::kFailed, static_cast<char>('a' + static_cast<int>(code)) + std::string(why)};
}

Answer answer(std::string_view request) {
  try {
    return {Message::kMade, make(read_request(request))};
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::kResourceExhausted, "the host has no memory left for making code");
  } catch (const std::exception& error) {
    return failed(ErrorCode::kInternal, error.what());
  }
}

Channel& channel() {
  static auto* const it = new Channel(0);
  return *it;
}

void send(const Answer& answer) {
  if (!channel().send(answer.message, answer.bytes, Clock::time_point::max())) _exit(0);
}

// A fatal error of LLVM, such as an instruction that it cannot select.
void answer_fatal_error(void*, const char* reason, bool) {
  send(failed(ErrorCode::kInternal, fmt::format("LLVM gave up: {}", reason)));
  _exit(1);
}

// Leaves the process that was started, which its parent waits for, its terminal and its folder.
void leave_parent() {
  if (::fork() != 0) _exit(0);  // without a second process there is none
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDWR);
  if (::chdir("/") != 0 || nothing < 0) return;
  ::dup2(nothing, 1);
#ifndef ETUDE_PORTABLE_PROGRAMS
  ::dup2(nothing, 2);  // sanitizers report there
#endif
  if (nothing > 2) ::close(nothing);
}

// Ends this process with the other one, whatever LLVM does meanwhile.
void watch_other_end() {
  try {
    std::thread([] {
      pollfd entry{0, POLLRDHUP, 0};
      while (::poll(&entry, 1, -1) <= 0) {
      }
      _exit(0);
    }).detach();
  } catch (const std::exception&) {
    _exit(1);  // without a thread this process could outlive the other one
  }
}

[[noreturn]] void run(std::chrono::milliseconds idle) {
  watch_other_end();
  llvm::install_fatal_error_handler(answer_fatal_error);
  send({Message::kHello, fmt::format("{}\n{}", ::getpid(), build_text())});
  for (;;) {
    const Received request = channel().receive(Clock::now() + idle);
    if (request.state == Received::State::kLate) send({Message::kBye, ""});
    if (request.state != Received::State::kMessage) _exit(0);
    send(answer(request.bytes));
  }
}

}  // namespace
}  // namespace etude::codegen

int main(int count, char** arguments) {
  int idle_ms = 0;
  sockaddr name{};
  socklen_t size = sizeof name;
  const std::string_view text = count == 2 ? arguments[1] : "";
  const auto read = std::from_chars(text.data(), text.data() + text.size(), idle_ms);
  if (read.ec != std::errc() || idle_ms < 0 || ::getsockname(0, &name, &size) != 0) {
    fmt::print(stderr,
               "{}: makes machine code for programs of Etude, which start it by themselves\n",
               count > 0 ? arguments[0] : "etude-codegen");
    return 2;
  }
  etude::codegen::leave_parent();
  etude::codegen::run(std::chrono::milliseconds(idle_ms));
}
