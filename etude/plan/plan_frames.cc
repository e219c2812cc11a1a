// SPDX-License-Identifier: Apache-2.0
// The memory that plans run in. A plan keeps the frame of its last run. While the plan is idle, the
// arena of its frame may pass to another plan of the device that needs one. So plans of a program
// that run in turn share one arena. Plans with values on several devices keep theirs.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "etude/core/internal/device_table.h"
#include "etude/plan/plan.h"

namespace etude::internal {
namespace {

constexpr int64_t kLeastShared = 1 << 20;  // bytes: smaller arenas are not worth a search

Buffer* allocate_arena(Device device, int64_t bytes) {
  DeviceMemory* const memory = memory_of(device);
  return memory != nullptr ? memory->allocate(bytes) : allocate_buffer(bytes);
}

}  // namespace

// The plans with large arenas on one device. A search takes the frames of all that are idle for as
// long as it holds the lock, under which a run looks for its own frame again: so it misses none of
// its own.
class Plan::Arenas {
 public:
  static Arenas& of(Device device) {
    struct All {
      std::mutex mutex;
      std::map<Device, Arenas> by_device;
    };
    static All* const all = new All;  // plans may outlive static objects
    const std::lock_guard lock(all->mutex);
    return all->by_device[device];
  }
  void add(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    plans_.insert(&plan);
  }
  void remove(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    plans_.erase(&plan);
  }
  // A frame of the plan, or one with an arena that it could take from another. Null if there was
  // none: then idle arenas went that hold as many bytes as the new one will, if there were any.
  std::unique_ptr<Frame> take(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    if (auto own = plan.take_spare()) return own;
    std::vector<Idle> idle = take_idle();
    const auto bytes = static_cast<std::size_t>(plan.arena_bytes_);
    std::ranges::sort(idle, {}, &Idle::bytes);
    std::unique_ptr<Frame> out;
    const auto fits =
        std::ranges::find_if(idle, [bytes](const Idle& i) { return i.bytes() >= bytes; });
    if (fits != idle.end()) {
      out = plan.make_frame(std::exchange(fits->frame->arenas.front(), nullptr));
      idle.erase(fits);
    } else {
      for (std::size_t freed = 0; freed < bytes && !idle.empty(); idle.pop_back()) {
        freed += idle.back().bytes();
      }
    }
    for (Idle& other : idle) other.plan->give_frame(std::move(other.frame));
    return out;
  }

 private:
  struct Idle {
    const Plan* plan;
    std::unique_ptr<Frame> frame;

    std::size_t bytes() const { return frame->arenas.front()->bytes; }
  };
  std::vector<Idle> take_idle() const {
    std::vector<Idle> out;
    for (const Plan* plan : plans_) {
      while (auto frame = plan->take_spare()) out.push_back({plan, std::move(frame)});
    }
    return out;
  }

  std::mutex mutex_;
  std::set<const Plan*> plans_;
};

bool Plan::shares_arena() const noexcept {
  return arenas_.size() == 1 && arena_bytes_ >= kLeastShared;
}

void Plan::share_arena() const {
  if (shares_arena()) Arenas::of(arenas_[0].device).add(*this);
}

Plan::~Plan() {
  if (shares_arena()) Arenas::of(arenas_[0].device).remove(*this);
  delete spare_.load(std::memory_order_relaxed);
}

std::unique_ptr<Plan::Frame> Plan::make_frame(Buffer* arena) const {
  auto frame = std::make_unique<Frame>();
  frame->arenas.resize(arenas_.size());
  if (arena != nullptr) frame->arenas.front() = arena;
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    if (frame->arenas[a] != nullptr) continue;
    frame->arenas[a] = allocate_arena(arenas_[a].device, arenas_[a].bytes);
  }
  frame->pointers.resize(places_.size());
  const auto constants = graph_->constants();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.home == Home::kArena) {
      frame->pointers[i] = static_cast<char*>(frame->arenas[place.index]->data) + place.offset;
    } else if (place.home == Home::kConstant) {
      frame->pointers[i] =
          static_cast<char*>(TensorAccess::rep(constants[place.index])->data) + place.offset;
    }
  }
  for (const Step& step : steps_) {
    void** const first = frame->pointers.data() + step.first_place;
    frame->calls.push_back({step.state, first, first + step.results});
  }
  return frame;
}

std::unique_ptr<Plan::Frame> Plan::take_frame() const {
  if (Frame* frame = spare_.exchange(nullptr, std::memory_order_acquire)) {
    return std::unique_ptr<Frame>(frame);
  }
  auto frame = shares_arena() ? Arenas::of(arenas_[0].device).take(*this) : take_spare();
  return frame != nullptr ? std::move(frame) : make_frame(nullptr);
}

std::unique_ptr<Plan::Frame> Plan::take_spare() const {
  if (Frame* frame = spare_.exchange(nullptr, std::memory_order_acquire)) {
    return std::unique_ptr<Frame>(frame);
  }
  const std::lock_guard lock(mutex_);
  if (spares_.empty()) return nullptr;
  auto frame = std::move(spares_.back());
  spares_.pop_back();
  return frame;
}

void Plan::give_frame(std::unique_ptr<Frame> frame) const noexcept {
  constexpr std::size_t kMostSpares = 16;
  Frame* none = nullptr;
  if (spare_.compare_exchange_strong(none, frame.get(), std::memory_order_release,
                                     std::memory_order_relaxed)) {
    static_cast<void>(frame.release());
    return;
  }
  const std::lock_guard lock(mutex_);
  if (spares_.size() < kMostSpares) spares_.push_back(std::move(frame));
}

}  // namespace etude::internal
