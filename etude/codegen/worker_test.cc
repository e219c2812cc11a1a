// SPDX-License-Identifier: Apache-2.0
// The compiler as a process: how it starts, answers, ends and fails. Scripts play faulty compilers.
#include "etude/codegen/worker.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/codegen/check_program.h"
#include "etude/codegen/test_programs.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::codegen {
namespace {

namespace fs = std::filesystem;
using scalar::Fn;
using scalar::Program;
using tests::expect_error;
using namespace std::chrono_literals;

Request small() { return request_of(Product::kAssembly, program_of(Fn::kAdd), {}); }

TEST(Requests, AreReadAsTheyWereWritten) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const Program program = random_program(random, round % 40);
    const Product product = static_cast<Product>(round % 4);
    const CompileOptions options = {.tier = round % 2 == 0 ? Tier::kFast : Tier::kBest,
                                    .layout = round % 3 == 0 ? Layout::kStrided : Layout::kDense,
                                    .isa = static_cast<internal::Isa>(round % 3)};
    const Request read = read_request(to_string(request_of(product, program, options)));
    EXPECT_EQ(read.product, product);
    EXPECT_TRUE(read.options == options);
    EXPECT_EQ(read.kind, "program");
    const Program again = read_program(read.source);
    EXPECT_EQ(scalar::to_string(again), scalar::to_string(program));
    EXPECT_EQ(again.operands, program.operands);
    EXPECT_EQ(again.params, program.params);
    EXPECT_EQ(again.bools, program.bools);
    EXPECT_EQ(again.is_bool, program.is_bool);
  }
}

TEST(Requests, OthersAreRefused) {
  constexpr auto kWrong = ErrorCode::kInvalidArgument;
  for (const auto& [text, fragment] : {
           std::pair{"", "ends within its line"},
           {"object program 1 0 1", "ends within its line"},
           {"lunch program 1 0 1\n", "the compiler does not make 'lunch'"},
           {"object program 0 0 1\n", "is for tier 0"},
           {"object program 3 0 1\n", "has '3' where a number up to 2 is needed"},
           {"object program 1 -1 1\n", "has '-1' where a number up to 1"},
           {"object program 1 0 1 1\n", "more words than are read"},
       }) {
    expect_error([&, text = text] { read_request(text); }, kWrong, {fragment});
  }
  for (const auto& [text, fragment] : {
           std::pair{"2 0 0\nadd(x1, ", "received an invalid program: add(x1, "},
           {"1 0 0\nadd(x1, x2)", "of 1 operands and 0 parameters that reads more: add(x1, x2)"},
           {"2 2 0\nadd(x1, x2)", "'add', needs a number for argument 1, but node 1 is a bool"},
       }) {
    expect_error([&, text = text] { read_program(text); }, kWrong, {fragment});
  }
}

// Whether a process runs, without being its parent: an ended process may leave a name. Checks all
// threads: the first may have ended while another still holds the descriptors.
bool is_running(pid_t pid) {
  std::error_code gone;
  for (fs::directory_iterator at("/proc/" + std::to_string(pid) + "/task", gone), end;
       !gone && at != end; at.increment(gone)) {
    std::string state;
    std::ifstream stat(at->path() / "stat");
    stat >> state >> state >> state;
    if (!state.empty() && state != "Z" && state != "X") return true;
  }
  return false;
}
bool ends(pid_t pid) {
  for (int i = 0; i < 2000 && is_running(pid); ++i) std::this_thread::sleep_for(5ms);
  return !is_running(pid);
}
std::size_t descriptors(pid_t pid) {
  const fs::path folder = "/proc/" + std::to_string(pid) + "/fd";
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// 0 where f ends well, in a child of fork().
template <class F>
int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 99;
    try {
      status = f();
    } catch (const std::exception&) {
      // 99
    }
    _exit(status);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

class Compiler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build generates no code";
    settings_.program = find_compiler(settings_.why_absent);
  }
  WorkerSettings settings_;
};

TEST_F(Compiler, AnswersUntilItsOwnerIsGone) {
  pid_t pid = 0;
  {
    Worker worker(settings_);
    EXPECT_EQ(worker.pid(), 0);
    EXPECT_NE(worker.make(small()).find("ret"), std::string::npos);
    pid = worker.pid();
    EXPECT_TRUE(is_running(pid));
    expect_error([&] { worker.make({.kind = "poem"}); }, ErrorCode::kInvalidArgument,
                 {"the compiler was sent a 'poem', which it does not know"});
    EXPECT_NE(worker.make(small()).find("ret"), std::string::npos);
    EXPECT_EQ(worker.pid(), pid);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // it is no child
  }
  EXPECT_TRUE(ends(pid));
}

TEST_F(Compiler, EndsWithTheProcessThatAsked) {
  int ends_of_pipe[2];
  ASSERT_EQ(pipe2(ends_of_pipe, O_CLOEXEC), 0);
  EXPECT_EQ(in_child([&] {
              Worker worker(settings_);
              worker.make(small());
              const pid_t pid = worker.pid();
              const bool is_written = write(ends_of_pipe[1], &pid, sizeof pid) == sizeof pid;
              _exit(is_written ? 0 : 1);  // no destructor
              return 2;
            }),
            0);
  pid_t pid = 0;
  ASSERT_EQ(read(ends_of_pipe[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  EXPECT_TRUE(ends(pid));
  close(ends_of_pipe[0]);
  close(ends_of_pipe[1]);
}

TEST_F(Compiler, EndsWhenNothingIsAskedAndComesAgain) {
  settings_.idle = 20ms;
  Worker worker(settings_);
  for (int i = 0; i < 20; ++i) {  // it ends before, after, and while it is asked
    EXPECT_NE(worker.make(small()).find("ret"), std::string::npos);
    std::this_thread::sleep_for(std::chrono::microseconds(18'000 + 200 * i));
  }
  EXPECT_TRUE(ends(worker.pid()));
  EXPECT_EQ(worker.why_absent(), "");
}

TEST_F(Compiler, IsStartedAgainWhereSomebodyEndedIt) {
  Worker worker(settings_);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(worker.make(small()).find("ret"), std::string::npos);
    const pid_t pid = worker.pid();
    kill(pid, SIGKILL);
    EXPECT_TRUE(ends(pid));
  }
  EXPECT_EQ(worker.why_absent(), "");
}

TEST_F(Compiler, MayTakeOnlySoLong) {
  settings_.answer = 2000ms;
  Worker worker(settings_);
  worker.make(small());
  const pid_t pid = worker.pid();
  kill(pid, SIGSTOP);
  expect_error([&] { worker.make(small()); }, ErrorCode::kUnavailable,
               {"the compiler did not make this within 2000 ms"});
  kill(pid, SIGCONT);
  EXPECT_TRUE(ends(pid));
  EXPECT_NE(worker.make(small()).find("ret"), std::string::npos);
}

TEST_F(Compiler, EndOfTheProcessEndsWhatWaits) {
  Worker worker(settings_);
  worker.make(small());
  const pid_t pid = worker.pid();
  kill(pid, SIGSTOP);
  std::thread waits([&] {
    expect_error([&] { worker.make(small()); }, ErrorCode::kUnavailable,
                 {"no code is made any more: the process ends"});
  });
  worker.end();
  waits.join();
  kill(pid, SIGCONT);
  EXPECT_TRUE(ends(pid));
}

TEST_F(Compiler, HasNoDescriptorOfTheProgramAndNoSignalOfIts) {
  const int inherited = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GT(inherited, 2);
  sigset_t blocked, before;
  sigfillset(&blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const auto old = std::signal(SIGTERM, SIG_IGN);
  Worker worker(settings_);
  worker.make(small());
  std::signal(SIGTERM, old);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(inherited);
  EXPECT_LE(descriptors(worker.pid()), 3u);
  EXPECT_NE(getsid(worker.pid()), getsid(0));
  kill(worker.pid(), SIGTERM);
  EXPECT_TRUE(ends(worker.pid()));
}

TEST_F(Compiler, NeedsNoStandardDescriptors) {
  EXPECT_EQ(in_child([&] {
              for (int i = 0; i < 3; ++i) close(i);
              Worker worker(settings_);
              if (worker.make(small()).empty()) return 1;
              for (int i = 0; i < 3; ++i) {
                if (fcntl(i, F_GETFD) != -1) return 2 + i;
              }
              return 0;
            }),
            0);
}

// The first process of a container inherits all orphans.
TEST_F(Compiler, LeavesNothingToWaitForWhereItIsAdopted) {
  EXPECT_EQ(in_child([&] {
              prctl(PR_SET_CHILD_SUBREAPER, 1);
              {
                Worker worker(settings_);
                worker.make(small());
              }
              return waitpid(-1, nullptr, WNOHANG) == -1 ? 0 : 1;
            }),
            0);
}

TEST_F(Compiler, AChildOfForkHasItsOwn) {
  Worker& worker = Worker::of_process();
  worker.make(small());
  const pid_t pid = worker.pid();
  const std::size_t open_here = descriptors(getpid());
  EXPECT_EQ(in_child([&] {
              if (Worker::of_process().pid() != 0) return 1;
              if (descriptors(getpid()) != open_here - 1) return 2;
              if (Worker::of_process().make(small()).empty()) return 3;
              return Worker::of_process().pid() != pid ? 0 : 4;
            }),
            0);
  EXPECT_FALSE(worker.make(small()).empty());
  EXPECT_EQ(worker.pid(), pid);
}

// A script in place of the compiler, which counts its starts. $hello is the greeting of the real
// compiler; commands run in a process for which its parent does not wait.
class Played : public ::testing::Test {
 protected:
  Played() { settings_.program = folder_ + "/compiler"; }

  void play(const std::string& commands, const std::string& hello_text = build_text()) {
    const std::string text = "1\n" + hello_text;
    const uint64_t size = text.size();
    std::ofstream(folder_ + "/hello", std::ios::binary)
        << 'h' << std::string_view(reinterpret_cast<const char*>(&size), sizeof size) << text;
    std::ofstream(settings_.program)
        << "#!/bin/sh\ncd " << folder_ << "\necho >> count\nexec 3<&0\n( " << commands
        << " ) <&3 >&3 2> /dev/null 3<&- &\n";
    ASSERT_EQ(chmod(settings_.program.c_str(), 0700), 0);
  }
  std::size_t starts() const {
    std::error_code none;
    const auto size = fs::file_size(folder_ + "/count", none);
    return none ? 0 : size;
  }

  // Fails three times with this, and then without another start.
  void expect_given_up(const std::string& why) {
    const std::size_t open_before = descriptors(getpid());
    Worker worker(settings_);
    for (std::size_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(worker.why_absent(), "");
      expect_error([&] { worker.make(small()); }, ErrorCode::kUnavailable, {why});
    }
    expect_error([&] { worker.make(small()); }, ErrorCode::kUnimplemented,
                 {"no code is generated: " + why});
    EXPECT_EQ(worker.why_absent(), why);
    EXPECT_EQ(worker.pid(), 0);
    EXPECT_EQ(descriptors(getpid()), open_before);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  }

  const internal::TempFolder own_;
  const std::string folder_ = own_.path().string();
  WorkerSettings settings_;
};

TEST_F(Played, OneThatEndsOnWhatItIsAsked) {
  play("cat hello; head -c 9 > /dev/null");
  expect_given_up("the compiler ended while it made this");
  EXPECT_EQ(starts(), 3u);
}

TEST_F(Played, OneThatHearsNothing) {
  play("cat hello");  // a message to it would raise SIGPIPE
  expect_given_up("the compiler ended while it made this");
  EXPECT_EQ(starts(), 3u);
}

TEST_F(Played, OneThatNeverAnswers) {
  settings_.answer = 100ms;
  play("cat hello; cat > /dev/null");
  expect_given_up("the compiler did not make this within 100 ms");
}

TEST_F(Played, OneThatTalksNonsense) {
  play("cat hello; head -c 9 > /dev/null; echo nonsense; cat > /dev/null");
  expect_given_up("the compiler sent an invalid answer");
}

TEST_F(Played, OneOfAnotherBuild) {
  play("cat hello; cat > /dev/null", "another");
  expect_given_up(settings_.program +
                  " is of another build than the library that started it. Install both together");
}

TEST_F(Played, OneThatEndsAsItStarts) {
  play("true");
  expect_given_up(settings_.program + " ended as it started");
}

TEST_F(Played, OneThatSaysNothing) {
  settings_.start = 100ms;
  play("cat > /dev/null");
  expect_given_up(settings_.program + " did not answer within 100 ms");
}

TEST_F(Played, OneThatAlwaysEndsBeforeItIsAsked) {
  play("cat hello; printf 'b\\0\\0\\0\\0\\0\\0\\0\\0'");
  expect_given_up("the compiler ended each time before it was asked");
}

TEST_F(Played, OneThatMayNotBeRun) {
  std::ofstream(settings_.program) << "text";
  expect_given_up(settings_.program + " could not be started: Permission denied");
}

TEST_F(Played, OneThatIsNotThere) {
  settings_.program = folder_ + "/none";
  expect_given_up(settings_.program + " could not be started: No such file or directory");
  settings_.program = "";
  settings_.why_absent = "it was not built";
  Worker worker(settings_);
  expect_error([&] { worker.make(small()); }, ErrorCode::kUnimplemented,
               {"no code is generated: it was not built"});
}

}  // namespace
}  // namespace etude::codegen
