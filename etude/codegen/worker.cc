// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/worker.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "etude/base/check.h"
#include "etude/files/safe_owner.h"

namespace etude::codegen {
namespace {

namespace fs = std::filesystem;

#ifdef ETUDE_HAS_LLVM
constexpr char kFile[] = "etude-codegen";

// A possible path of the compiler, and a file of this process in the same installation.
struct Place {
  fs::path compiler, beside;
};

std::vector<Place> places() {
  std::vector<Place> out;
  const auto add = [&out](const fs::path& file) {
    std::error_code failed;
    const fs::path whole = fs::canonical(file, failed);
    if (failed) return;
    out.push_back({whole.parent_path() / kFile, whole});
    out.push_back({whole.parent_path().parent_path() / "lib" / kFile, whole});
  };
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&find_compiler), &info) != 0 &&
      info.dli_fname != nullptr) {
    add(info.dli_fname);
  }
  add("/proc/self/exe");
  return out;
}
#endif

// The processor's description of itself. LLVM derives its model and its features from it.
std::string processor_text() {
  std::string out;
#if defined(__x86_64__)
  struct Leaf {
    unsigned number, part;
    bool has_b;  // leaf 1 describes one core in it, not the machine
  };
  constexpr Leaf kLeaves[] = {{0, 0, true},          {1, 0, false},        {7, 0, true},
                              {7, 1, true},          {0xd, 1, false},      {0x14, 0, true},
                              {0x19, 0, true},       {0x1e, 1, true},      {0x24, 0, true},
                              {0x80000001, 0, true}, {0x80000008, 0, true}};
  for (const Leaf& leaf : kLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf.number, leaf.part, &a, &b, &c, &d);
    out += fmt::format("{:x}.{:x}.{:x}.{:x} ", a, leaf.has_b ? b : 0, c, d);
  }
#endif
  return out;
}

std::string file_text(const std::string& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0) return "";
  return fmt::format("{} {}.{}", facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

using Clock = Channel::Clock;

constexpr int kMostFailures = 3;

std::string text_of_errno(int number) { return std::system_category().message(number); }

// Descriptors 0 to 2 may be closed; a socket in their place would get output meant for them.
int above_standard(int descriptor) {
  if (descriptor < 0 || descriptor > 2) return descriptor;
  const int above = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  ::close(descriptor);
  return above;
}

// Starts `program` with the socket as its descriptor 0, no others except 1 and 2, and default
// signals; returns 0 or an error number. Its environment has only the variables that find its
// libraries.
int spawn_process(const std::string& program, const std::string& idle_ms, int socket, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int failed = posix_spawn_file_actions_init(&actions)) return failed;
  if (const int failed = posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return failed;
  }
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  std::string library_path;
  std::array<char*, 2> environment{};
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    library_path = std::string("LD_LIBRARY_PATH=") + path;
    environment[0] = library_path.data();
  }
  std::string name = program, idle = idle_ms;
  char* const arguments[] = {name.data(), idle.data(), nullptr};
  int failed = posix_spawn_file_actions_adddup2(&actions, socket, 0);
#if __GLIBC_PREREQ(2, 34)
  if (failed == 0) failed = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
  if (failed == 0) failed = posix_spawnattr_setsigmask(&attributes, &none);
  if (failed == 0) failed = posix_spawnattr_setsigdefault(&attributes, &all);
  if (failed == 0) {
    failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  if (failed == 0) {
    failed =
        posix_spawn(pid, program.c_str(), &actions, &attributes, arguments, environment.data());
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

// The process that was started is over at once, once the compiler has left it.
void wait_for_spawned(pid_t pid, bool is_left) {
  if (pid <= 0) return;
  if (!is_left && ::waitpid(pid, nullptr, WNOHANG) == 0) ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Processes without a parent go to the first process of a container, or to a subreaper; this
// process may be either.
void wait_if_adopted(pid_t pid) {
  int adopts = 0;
  if (pid <= 0 ||
      (::getpid() != 1 && (::prctl(PR_GET_CHILD_SUBREAPER, &adopts) != 0 || adopts == 0))) {
    return;
  }
  for (int i = 0; i < 200 && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it ends as its socket is closed
  }
}

std::atomic<Worker*> of_this_process{nullptr};

}  // namespace

std::string find_compiler(std::string& why) {
#if !defined(ETUDE_HAS_LLVM)
  why =
      "this build of Etude generates no code. Configure it with -DETUDE_CODEGEN=ON, which needs "
      "LLVM 22.1";
#elif !defined(__x86_64__)
  why = "code is generated for x86-64 only";
#else
  why = fmt::format("{} was not found beside libetude.so, where it is installed with it", kFile);
  for (const Place& place : places()) {
    std::error_code failed;
    if (!fs::exists(place.compiler, failed)) continue;
    const std::string unsafe = internal::why_unsafe_program(place.compiler, place.beside);
    if (unsafe.empty()) return place.compiler;
    why = fmt::format(
        "'{}' is not run, since another user may have written it: {}. Change its owner "
        "or its mode",
        place.compiler.string(), unsafe);
  }
#endif
  return "";
}

std::string maker() {
  static const std::string* const text = [] {
    std::string why;
    const std::string file = find_compiler(why);
    ETUDE_REQUIRE_CODE(kUnimplemented, !file.empty(), "no code is generated: {}", why);
#ifdef ETUDE_HAS_LLVM
    constexpr char kLlvm[] = ETUDE_HAS_LLVM;
#else
    constexpr char kLlvm[] = "";
#endif
    return new std::string(
        fmt::format("{} LLVM {} {} {}", build_text(), kLlvm, file_text(file), processor_text()));
  }();
  return *text;
}

Worker::~Worker() { hang_up(); }

Worker& Worker::of_process() {
  static const bool is_made = [] {
    WorkerSettings settings;
    settings.program = find_compiler(settings.why_absent);
    of_this_process = new Worker(std::move(settings));
    return pthread_atfork([] { of_this_process.load()->state_.lock(); },
                          [] { of_this_process.load()->state_.unlock(); }, after_fork) == 0;
  }();
  static_cast<void>(is_made);
  return *of_this_process.load();
}

// In the child, where another thread's talk with the compiler is cut off: that goes on in the
// parent.
void Worker::after_fork() {
  Worker& old = *of_this_process.load();
  auto* const fresh = new Worker(old.settings_);
  fresh->failures_ = old.failures_;
  fresh->why_ = old.why_;
  old.channel_.close();
  old.other_end_.close();
  of_this_process = fresh;
  old.state_.unlock();
}

std::string Worker::why_absent() const {
  const std::lock_guard lock(state_);
  return settings_.program.empty() ? settings_.why_absent : why_;
}

pid_t Worker::pid() const {
  const std::lock_guard lock(state_);
  return pid_;
}

void Worker::end() {
  const std::lock_guard lock(state_);
  is_over_ = true;
  if (channel_.is_open()) channel_.shut();
}

void Worker::hang_up() {
  pid_t ended = 0;
  {
    const std::lock_guard lock(state_);
    channel_.close();
    ended = std::exchange(pid_, 0);
  }
  wait_if_adopted(ended);
}

void Worker::fail(const std::string& why) {
  hang_up();
  if (is_over_) ETUDE_THROW(kUnavailable, "no code is made any more: the process ends");
  {
    const std::lock_guard lock(state_);
    if (++failures_ >= kMostFailures) why_ = why;
  }
  throw Error(ErrorCode::kUnavailable, why);
}

// 0 or an error number.
int Worker::spawn() {
  const std::lock_guard lock(state_);
  if (is_over_) return ECANCELED;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  channel_.reset(above_standard(ends[0]));
  other_end_.reset(above_standard(ends[1]));
  int failed = EMFILE;
  spawned_ = 0;
  if (channel_.is_open() && other_end_.is_open()) {
    failed = spawn_process(settings_.program, std::to_string(settings_.idle.count()),
                           other_end_.descriptor(), &spawned_);
  }
  other_end_.close();
  if (failed != 0) spawned_ = 0;
  return failed;
}

// The fault of a first message; "": none.
std::string Worker::check_hello(const Received& hello, pid_t& pid) const {
  if (hello.state == Received::State::kLate) {
    return fmt::format("{} did not answer within {} ms", settings_.program,
                       settings_.start.count());
  }
  if (hello.state != Received::State::kMessage || hello.message != Message::kHello) {
    return fmt::format("{} ended as it started", settings_.program);
  }
  const char* const end = hello.bytes.data() + hello.bytes.size();
  const auto number = std::from_chars(hello.bytes.data(), end, pid);
  if (number.ec != std::errc() || std::string_view(number.ptr, end) != "\n" + build_text()) {
    pid = 0;
    return fmt::format(
        "{} is of another build than the library that started it. Install both together",
        settings_.program);
  }
  return "";
}

void Worker::start() {
  if (const int failed = spawn()) {
    fail(fmt::format("{} could not be started: {}", settings_.program, text_of_errno(failed)));
  }
  const Received hello = channel_.receive(Clock::now() + settings_.start);
  pid_t pid = 0;
  const std::string wrong = check_hello(hello, pid);
  wait_for_spawned(std::exchange(spawned_, 0), wrong.empty());
  if (!wrong.empty()) fail(wrong);
  const std::lock_guard lock(state_);
  pid_ = pid;
}

void Worker::connect() {
  if (is_over_) ETUDE_THROW(kUnavailable, "no code is made any more: the process ends");
  const std::string absent = why_absent();
  ETUDE_REQUIRE_CODE(kUnimplemented, absent.empty(), "no code is generated: {}", absent);
  // The only message without a request is its end.
  if (channel_.is_open() && channel_.waits_for_reading(Clock::now())) hang_up();
  if (!channel_.is_open()) start();
}

std::string Worker::make(const Request& request) {
  const std::lock_guard one(asking_);
  try {
    return ask(to_string(request));
  } catch (const std::bad_alloc&) {
    hang_up();  // in the middle of a message
    wait_for_spawned(std::exchange(spawned_, 0), false);
    throw;
  }
}

std::string Worker::ask(const std::string& request) {
  for (int tries = 0; tries < kMostFailures; ++tries) {
    connect();
    const Clock::time_point until = Clock::now() + settings_.answer;
    channel_.send(Message::kRequest, request, until);  // a failure shows in receive()
    Received answer = channel_.receive(until);
    const bool is_bye =
        answer.state == Received::State::kMessage && answer.message == Message::kBye;
    if (!is_bye) return take(std::move(answer));
    hang_up();  // it ended as it was asked: another one is
  }
  fail("the compiler ended each time before it was asked");
}

std::string Worker::take(Received answer) {
  using State = Received::State;
  if (answer.state == State::kClosed) fail("the compiler ended while it made this");
  if (answer.state == State::kLate) {
    fail(fmt::format("the compiler did not make this within {} ms", settings_.answer.count()));
  }
  const bool is_made = answer.message == Message::kMade;
  const int code = answer.bytes.empty() ? -1 : answer.bytes[0] - 'a';
  const bool is_error = answer.message == Message::kFailed && code >= 0 &&
                        code <= static_cast<int>(ErrorCode::kInternal);
  if (answer.state == State::kBroken || (!is_made && !is_error)) {
    fail("the compiler sent an invalid answer");
  }
  {
    const std::lock_guard lock(state_);
    failures_ = 0;
  }
  if (is_made) return std::move(answer.bytes);
  throw Error(static_cast<ErrorCode>(code), answer.bytes.substr(1));
}

}  // namespace etude::codegen
