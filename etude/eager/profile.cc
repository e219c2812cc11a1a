// SPDX-License-Identifier: Apache-2.0
#include "etude/eager/profile.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "etude/base/internal/hash.h"
#include "etude/core/buffer.h"
#include "etude/core/device.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/late_calls.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/op.h"
#include "etude/eager/profiler.h"
#include "etude/files/atomic_file.h"

namespace etude {
namespace internal {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kMostEvents = 1000000;

// One origin for the times of all threads.
const Clock::time_point kStart = Clock::now();

int64_t nanoseconds(Clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

thread_local Recorder* recorder = nullptr;

}  // namespace

// The calls of one thread.
class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  struct Event {
    const Op* op;
    CallSite where;
    int64_t start, duration;  // nanoseconds
    int64_t bytes;
  };
  struct Key {
    const Op* op;
    const char* file;
    int line;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const {
      return mix(mix(reinterpret_cast<uintptr_t>(k.op), reinterpret_cast<uintptr_t>(k.file)),
                 static_cast<uint64_t>(k.line));
    }
  };

  explicit Recorder(int thread) : thread_(thread) {}

  static std::shared_ptr<Recorder> make() {
    static std::atomic<int> threads{0};
    return std::make_shared<Recorder>(++threads);
  }
  static Profile profile_of(std::vector<std::shared_ptr<Recorder>> threads) {
    return Profile(std::move(threads));
  }

  // Work of one call on a device with a queue.
  struct LateEvent {
    std::string device;
    Event event;
  };

  // `seconds` and `own` are nanoseconds. The profile lacks a call for which there is no memory.
  void add(const Event& event, int64_t seconds, int64_t own, int64_t allocations) noexcept {
    try {
      ProfileEntry& sum = sums_[{event.op, event.where.file, event.where.line}];
      ++sum.calls;
      sum.seconds += 1e-9 * static_cast<double>(seconds);
      sum.own_seconds += 1e-9 * static_cast<double>(own);
      sum.bytes += event.bytes;
      sum.allocations += allocations;
      if (events_.size() < kMostEvents) {
        events_.push_back(event);
        return;
      }
    } catch (const std::bad_alloc&) {  // it is left out
    }
    ++left_out_;
  }

  // threads: thread-safe: called on the thread of a device.
  void add_late(LateEvent late) {
    const std::lock_guard lock(late_mutex_);
    const Event& event = late.event;
    late_seconds_[{event.op, event.where.file, event.where.line}] +=
        1e-9 * static_cast<double>(event.duration);
    if (late_events_.size() < kMostEvents) {
      late_events_.push_back(std::move(late));
    } else {
      ++late_left_out_;
    }
  }

  // The sums of all calls, with the time of their work on devices.
  auto sums() const {
    std::unordered_map<Key, ProfileEntry, Hash> out = sums_;
    const std::lock_guard lock(late_mutex_);
    for (const auto& [key, seconds] : late_seconds_) {
      out[key].seconds += seconds;
      out[key].own_seconds += seconds;
    }
    return out;
  }
  const std::vector<Event>& events() const { return events_; }
  std::vector<LateEvent> late_events() const {
    const std::lock_guard lock(late_mutex_);
    return late_events_;
  }
  int64_t left_out() const {
    const std::lock_guard lock(late_mutex_);
    return left_out_ + late_left_out_;
  }
  int thread() const { return thread_; }

  int64_t inside = 0, allocations_inside = 0;  // of the calls within the current one
  ProfiledCall* innermost = nullptr;           // the current one
  bool has_late_calls = false;

 private:
  int thread_;
  std::unordered_map<Key, ProfileEntry, Hash> sums_;
  std::vector<Event> events_;
  int64_t left_out_ = 0;
  mutable std::mutex late_mutex_;
  std::unordered_map<Key, double, Hash> late_seconds_;
  std::vector<LateEvent> late_events_;
  int64_t late_left_out_ = 0;
};

namespace {

// Keeps the recorder, since the work may end after the profile.
class RecordedTimer final : public LateTimer {
 public:
  RecordedTimer(std::shared_ptr<Recorder> owner, const Op& op, CallSite where)
      : recorder_(std::move(owner)), op_(op), where_(where) {}
  void ran(const std::string& device, Time start, Time end) const override {
    try {
      recorder_->add_late(
          {device, {&op_, where_, nanoseconds(start - kStart), nanoseconds(end - start), 0}});
    } catch (const std::bad_alloc&) {  // the profile lacks this call
    }
  }

 private:
  std::shared_ptr<Recorder> recorder_;
  const Op& op_;
  CallSite where_;
};

// Waits until the enqueued calls of all devices have run.
void wait_for_queues() {
  for (const Device device : list_devices()) {
    DeviceMemory* const memory = memory_of(device);
    if (memory == nullptr || !memory->is_queued()) continue;
    try {
      memory->wait_for(nullptr, 0);
    } catch (const Error&) {  // the device has vanished
    }
  }
}

}  // namespace

ProfiledCall::ProfiledCall(const Op& op, Operands in, CallSite where)
    : ProfiledCall(op, int64_t{0}, where) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].has_value()) bytes_ += in[i].type()->bytes();
  }
}

ProfiledCall::ProfiledCall(const Op& op, int64_t bytes, CallSite where)
    : op_(op),
      where_(where),
      recorder_(recorder),
      outer_(std::exchange(recorder->innermost, this)),
      bytes_(bytes),
      allocations_(thread_allocations()),
      outer_inside_(std::exchange(recorder->inside, 0)),
      outer_allocations_inside_(std::exchange(recorder->allocations_inside, 0)),
      start_(Clock::now()) {}

void ProfiledCall::ended_with(const Values& results) {
  for (const Tensor& y : results) bytes_ += y.has_value() ? y.type()->bytes() : 0;
}

RefPtr<const LateTimer> ProfiledCall::timer() {
  is_queued_ = recorder_->has_late_calls = true;
  return make_ref<RecordedTimer>(recorder_->shared_from_this(), op_, where_);
}

RefPtr<const LateTimer> timer_of_profiled_call() {
  ProfiledCall* const call = recorder != nullptr ? recorder->innermost : nullptr;
  return call != nullptr ? call->timer() : RefPtr<const LateTimer>();
}

ProfiledCall::~ProfiledCall() {
  const int64_t duration = nanoseconds(Clock::now() - start_);
  const int64_t allocations = thread_allocations() - allocations_;
  const int64_t counted = is_queued_ ? 0 : duration;
  const int64_t own = is_queued_ ? 0 : duration - recorder_->inside;
  recorder_->add({&op_, where_, nanoseconds(start_ - kStart), duration, bytes_}, counted, own,
                 allocations - recorder_->allocations_inside);
  recorder_->innermost = outer_;
  recorder_->inside = outer_inside_ + counted;
  recorder_->allocations_inside = outer_allocations_inside_ + allocations;
}

namespace {

Recorder* exchange_recorder(Recorder* next) {
  Recorder* before = std::exchange(recorder, next);
  mode_word = (mode_word & ~kModeProfile) | (next != nullptr ? kModeProfile : 0);
  return before;
}

// The profile for ETUDE_PROFILE. Never destroyed: threads may end after main does.
struct ProgramProfile {
  std::string path;
  std::mutex mutex;
  std::vector<std::shared_ptr<Recorder>> threads;

  static ProgramProfile& instance() {
    static ProgramProfile& one = *new ProgramProfile;
    return one;
  }
  void finish() {
    exchange_recorder(nullptr);
    const std::lock_guard lock(mutex);
    const Profile all = Recorder::profile_of(threads);
    std::fputs(all.table().c_str(), stderr);
    try {
      all.write_trace(path);
      std::fprintf(stderr, "trace: %s (open it in https://ui.perfetto.dev)\n", path.c_str());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
};

// Runs when the library is loaded, before main.
const bool kProgramIsProfiled = [] {
  const char* path = std::getenv("ETUDE_PROFILE");
  if (path == nullptr || *path == '\0') return false;
  ProgramProfile::instance().path = path;
  std::atexit([] { ProgramProfile::instance().finish(); });
  return true;
}();
// Other threads follow at their first call; this one does not miss it.
const bool kMainThreadFollows = [] {
  profile_this_thread();
  return kProgramIsProfiled;
}();

}  // namespace

void profile_this_thread() {
  if (!kProgramIsProfiled || recorder != nullptr) return;
  ProgramProfile& program = ProgramProfile::instance();
  const std::lock_guard lock(program.mutex);
  program.threads.push_back(Recorder::make());
  exchange_recorder(program.threads.back().get());
}

}  // namespace internal

using internal::Recorder;

namespace {

std::string place(CallSite where) {
  return where.known() ? fmt::format("{}:{}", where.file, where.line) : "";
}

std::string human_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

std::string human_bytes(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 1e9) return fmt::format("{:.2f} GB", b * 1e-9);
  if (b >= 1e6) return fmt::format("{:.2f} MB", b * 1e-6);
  if (b >= 1e3) return fmt::format("{:.2f} kB", b * 1e-3);
  return fmt::format("{} B", bytes);
}

void wait_for_late_calls(const std::vector<std::shared_ptr<Recorder>>& threads) {
  const auto has_some = [](const auto& thread) { return thread->has_late_calls; };
  if (std::ranges::any_of(threads, has_some)) internal::wait_for_queues();
}

// Text inside a JSON string.
std::string json_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", c);
    else
      out += c;
  }
  return out;
}

}  // namespace

Profile::Profile(std::vector<std::shared_ptr<internal::Recorder>> threads)
    : threads_(std::move(threads)) {}

std::vector<ProfileEntry> Profile::entries() const {
  wait_for_late_calls(threads_);
  std::map<std::tuple<std::string_view, std::string_view, int>, ProfileEntry> sums;
  for (const auto& thread : threads_) {
    for (const auto& [key, sum] : thread->sums()) {
      ProfileEntry& all = sums[{key.op->name(), key.file, key.line}];
      all.op = key.op->name();
      all.where = {key.file, key.line};
      all.calls += sum.calls;
      all.seconds += sum.seconds;
      all.own_seconds += sum.own_seconds;
      all.bytes += sum.bytes;
      all.allocations += sum.allocations;
    }
  }
  std::vector<ProfileEntry> out;
  out.reserve(sums.size());
  for (auto& [key, sum] : sums) out.push_back(sum);
  std::stable_sort(out.begin(), out.end(), [](const ProfileEntry& a, const ProfileEntry& b) {
    return a.own_seconds > b.own_seconds;
  });
  return out;
}

std::string Profile::table(std::size_t rows) const {
  const std::vector<ProfileEntry> all = entries();
  ProfileEntry sum;
  for (const ProfileEntry& e : all) {
    sum.calls += e.calls;
    sum.own_seconds += e.own_seconds;
    sum.bytes += e.bytes;
    sum.allocations += e.allocations;
  }
  const auto line = [&](std::string_view op, const ProfileEntry& e, std::string_view where) {
    return fmt::format(
        "{:<26} {:>9} {:>11} {:>6.1f}% {:>11} {:>11} {:>9}  {}\n", op, e.calls,
        human_time(e.own_seconds),
        sum.own_seconds > 0 ? 100 * e.own_seconds / sum.own_seconds : 0.0,
        human_time(e.own_seconds / static_cast<double>(std::max<int64_t>(1, e.calls))),
        human_bytes(e.bytes), e.allocations, where);
  };
  std::string out = fmt::format("{:<26} {:>9} {:>11} {:>7} {:>11} {:>11} {:>9}  {}\n", "op",
                                "calls", "own time", "share", "each", "bytes", "allocs", "line");
  for (std::size_t i = 0; i < std::min(rows, all.size()); ++i) {
    out += line(all[i].op, all[i], place(all[i].where));
  }
  if (all.size() > rows) out += fmt::format("... {} more\n", all.size() - rows);
  return out + line("all", sum, "");
}

namespace {

// Writes events of Chrome's format, in parts, since the text may be long.
class TraceWriter {
 public:
  explicit TraceWriter(const std::string& path) : file_(path) {
    file_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  }
  void add(const Recorder::Event& e, int track) {
    add_text(fmt::format(
        "{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{\"line\":\"{}\",\"bytes\":{}}}}}",
        json_text(e.op->name()), track, 1e-3 * static_cast<double>(e.start),
        1e-3 * static_cast<double>(e.duration), json_text(place(e.where)), e.bytes));
  }
  void add_name(std::string_view name, int track) {
    add_text(
        fmt::format("{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},"
                    "\"args\":{{\"name\":\"{}\"}}}}",
                    track, json_text(name)));
  }
  void finish(int64_t left_out) {
    file_.write(text_);
    file_.write(fmt::format("\n],\"otherData\":{{\"left_out\":{}}}}}\n", left_out));
    file_.commit();
  }

 private:
  void add_text(const std::string& event) {
    constexpr std::size_t kPart = 1 << 20;
    text_ += separator_ + event;
    separator_ = ",\n";
    if (text_.size() < kPart) return;
    file_.write(text_);
    text_.clear();
  }

  internal::AtomicFile file_;
  std::string text_, separator_ = "\n";
};

}  // namespace

void Profile::write_trace(const std::string& path) const {
  wait_for_late_calls(threads_);
  TraceWriter writer(path);
  std::map<std::string, int> tracks;  // of devices; their numbers follow
  int64_t left_out = 0;
  int last_thread = 0;
  for (const auto& thread : threads_) {
    left_out += thread->left_out();
    last_thread = std::max(last_thread, thread->thread());
    for (const Recorder::Event& e : thread->events()) writer.add(e, thread->thread());
  }
  for (const auto& thread : threads_) {
    for (const Recorder::LateEvent& late : thread->late_events()) {
      const int next = last_thread + 1 + static_cast<int>(tracks.size());
      const auto [track, is_new] = tracks.emplace(late.device, next);
      if (is_new) writer.add_name(late.device, next);
      writer.add(late.event, track->second);
    }
  }
  writer.finish(left_out);
}

ProfileScope::ProfileScope()
    : profile_({Recorder::make()}),
      outer_(internal::exchange_recorder(profile_.threads_[0].get())) {}

ProfileScope::~ProfileScope() { internal::exchange_recorder(outer_); }

}  // namespace etude
