// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/internal/state_box.h"

#include <algorithm>
#include <atomic>

#include "etude/base/thread_object.h"

namespace etude::internal {

namespace {

// The latest history and replay of this thread.
struct Latest {
  StateHistory* history = nullptr;
  StateReplay* replay = nullptr;
};
StateHistory*& latest_history() { return ThreadObject<Latest>::get().history; }
StateReplay*& latest_replay() { return ThreadObject<Latest>::get().replay; }
// Does not make them.
Latest latest() {
  const Latest* found = ThreadObject<Latest>::find();
  return found == nullptr ? Latest() : *found;
}

}  // namespace

uint64_t next_moment() noexcept {
  static constinit std::atomic<uint64_t> latest{0};
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool StateBoxBase::is_open() const {
  if (followed_ != nullptr) return followed_->is_open();
  if (StateReplay* replay = StateReplay::of(*this)) return replay->find(*this) != nullptr;
  if (is_open_) StateHistory::note(*this, &value_);
  return is_open_;
}

const std::any* StateBoxBase::held() const {
  const std::any* value = &value_;
  if (StateReplay* replay = StateReplay::of(*this)) {
    const StateUse* use = replay->find(*this);
    value = use != nullptr ? &use->value : nullptr;
  }
  if (value != nullptr) StateHistory::note(*this, value);
  return value;
}

void StateBoxBase::hold(std::any value) {
  static_cast<void>(held());  // a first run records the previous value
  StateReplay* replay = StateReplay::of(*this);
  if (replay == nullptr) {
    value_ = std::move(value);
  } else if (StateUse* use = replay->find(*this)) {
    use->value = std::move(value);
  }
}

int StateBoxBase::vmaps() const {
  // Dropped values may belong to examples of a vmap around the second run.
  return StateReplay::of(*this) != nullptr ? count_vmaps() : vmaps_;
}

StateHistory::StateHistory() : outer_(std::exchange(latest_history(), this)) {}
StateHistory::~StateHistory() { latest_history() = outer_; }

void StateHistory::note(const StateBoxBase& box, const std::any* value) {
  const StateReplay* replay = latest().replay;
  for (StateHistory* h = latest().history; h != nullptr; h = h->outer_) {
    if (h->since_ < box.since_ || (replay != nullptr && h->since_ < replay->since_)) return;
    const auto is_box = [&](const StateUse& use) { return use.box.get() == &box; };
    if (std::ranges::none_of(h->uses_, is_box)) {
      h->uses_.push_back({box.shared_from_this(), *value});
    }
  }
}

StateReplay::StateReplay(std::vector<StateUse> uses)
    : uses_(std::move(uses)), outer_(std::exchange(latest_replay(), this)) {}
StateReplay::~StateReplay() { latest_replay() = outer_; }

bool StateReplay::is_after(uint64_t moment) noexcept {
  return latest().replay != nullptr && moment < latest().replay->since_;
}

StateReplay* StateReplay::of(const StateBoxBase& box) noexcept {
  return is_after(box.since_) ? latest().replay : nullptr;
}

StateUse* StateReplay::find(const StateBoxBase& box) noexcept {
  const auto found =
      std::ranges::find(uses_, &box, [](const StateUse& use) { return use.box.get(); });
  return found == uses_.end() ? nullptr : &*found;
}

}  // namespace etude::internal
