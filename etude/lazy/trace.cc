// SPDX-License-Identifier: Apache-2.0
// The pending trace of a thread: recording, and the needed nodes. Cuts are in cut.cc.
#include "etude/lazy/trace.h"

namespace etude::internal {
namespace {

// Writers hold the lock, so no locked instruction is needed; readers need no lock.
void add(std::atomic<int64_t>& to, int64_t n) noexcept {
  to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

void LazyTrace::flush() noexcept {
  LazyLog::instance().count(LazyCount::kRecorded, std::exchange(recorded_, 0));
  LazyLog::instance().count(LazyCount::kDropped, std::exchange(dropped_, 0));
  if (!mutex_.is_owner()) return;
  LazyLog::instance().count(LazyCount::kFollowed, follow_.take_count());
}

void LazyTrace::flush_counts() noexcept {
  const Lock lock(mutex_);
  flush();
}

bool LazyTrace::is_of(const PendingMark& mark) const noexcept {
  return &static_cast<const LazyMark&>(mark).trace_ == this;
}

// A tensor with a mark that refers to no node yet.
Tensor LazyTrace::make_handle(const Type* type) {
  if (type == nullptr) return {};
  Tensor out = make_abstract(type);
  TensorRep* rep = TensorAccess::rep(out);
  rep->buffer = new LazyMark(*this, rep);
  return out;
}

void LazyTrace::refer(LazyOperand& operand, const LazyMark& mark) noexcept {
  if (mark.node_ == nullptr) {  // another thread has run it meanwhile
    operand.value = mark.value_;
    return;
  }
  operand.node = mark.node_;
  operand.result = mark.result_;
  ++mark.node_->held;
  ++mark.node_->results[mark.result_].uses;
}

void LazyTrace::link(LazyMark& mark, LazyNode& node, uint32_t result) noexcept {
  LazyResult& to = node.results[result];
  mark.node_ = &node;
  mark.result_ = result;
  mark.next_ = to.marks;
  if (to.marks != nullptr) to.marks->previous_ = &mark;
  to.marks = &mark;
  ++node.held;
}

void LazyTrace::unlink(LazyMark& mark) noexcept {
  LazyMark*& place =
      mark.previous_ != nullptr ? mark.previous_->next_ : mark.node_->results[mark.result_].marks;
  place = mark.next_;
  if (mark.next_ != nullptr) mark.next_->previous_ = mark.previous_;
  mark.previous_ = mark.next_ = nullptr;
  --mark.node_->held;
  mark.node_ = nullptr;
}

void LazyTrace::append(LazyNode& node) noexcept {
  node.number = next_number_++;
  node.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &node;
  last_ = &node;
  add(held_bytes_, node.bytes);
  add(size_, 1);
  ++alive_;
  ++recorded_;
}

void LazyTrace::remove(LazyNode& node) noexcept {
  (node.previous != nullptr ? node.previous->next : first_) = node.next;
  (node.next != nullptr ? node.next->previous : last_) = node.previous;
  node.previous = node.next = nullptr;
  add(held_bytes_, -node.bytes);
  add(size_, -1);
}

bool LazyTrace::release(LazyOperand& operand) noexcept {
  LazyNode* node = std::exchange(operand.node, nullptr);
  if (node == nullptr) return false;
  LazyResult& result = node->results[operand.result];
  // The operand is destroyed outside of the lock, with the value if it has no other reader.
  if (--result.uses == 0) operand.value = std::move(result.value);
  return --node->held == 0 && node->state != LazyNode::State::kRunning;
}

void LazyTrace::free_node(LazyNode& node, DeadNodes& dead) noexcept {
  LazyNode* rest = nullptr;  // nodes to be freed, whose operands are not released yet
  const auto take = [&](LazyNode& free) {
    if (free.state == LazyNode::State::kPending) {
      remove(free);
      ++dropped_;
    }
    --alive_;
    free.next = std::exchange(rest, &free);
  };
  take(node);
  while (rest != nullptr) {
    LazyNode& free = *std::exchange(rest, rest->next);
    for (LazyOperand& operand : free.operands) {
      LazyNode* const of = operand.node;
      if (release(operand)) take(*of);
    }
    dead.add(free);
  }
}

Values LazyTrace::record(const Op& op, Operands in, const Attrs& attrs, uint64_t hash,
                         std::span<const Type* const> results, CallSite where) {
  auto made = std::make_unique<LazyNode>();
  LazyNode& node = *made;
  node.op = &op;
  node.attrs = attrs;
  node.where = where;
  node.hash = hash;
  for (std::size_t i = 0; i < in.size(); ++i) {
    LazyOperand& operand = node.operands.emplace_back();
    if (!in[i].has_value() || !TensorAccess::has_elements(in[i])) continue;
    operand.is_number =
        ((in.expiring() >> i) & 1) != 0 && in[i].rank() == 0 && TensorAccess::is_unique(in[i]);
    operand.value = owner_of_elements(in[i]);
    node.bytes += operand.value.type()->bytes();
  }
  Values out;
  for (const Type* type : results) {
    node.results.emplace_back().type = type;
    out.push_back(make_handle(type));
    node.bytes += type != nullptr ? type->bytes() : 0;
  }
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < in.size(); ++i) {
    LazyOperand& operand = node.operands[i];
    if (!in[i].has_value() || operand.value.has_value()) continue;
    refer(operand, static_cast<const LazyMark&>(*pending_mark(in[i])));
  }
  for (std::size_t r = 0; r < out.size(); ++r) {
    if (!out[r].has_value()) continue;
    link(static_cast<LazyMark&>(*pending_mark(out[r])), node, static_cast<uint32_t>(r));
    ++alive_;
  }
  append(*made.release());
  return out;
}

void LazyTrace::forget(LazyMark& mark, DeadNodes& dead) noexcept {
  --alive_;
  LazyNode* node = mark.node_;
  if (node == nullptr) return;
  unlink(mark);
  if (node->held == 0 && node->state != LazyNode::State::kRunning) free_node(*node, dead);
}

void LazyTrace::restore_failed() {
  std::list<LazyFailed> failed;
  {
    const Lock lock(mutex_);
    failed.swap(failed_);
  }
  for (const LazyFailed& f : failed) {
    if (const std::shared_ptr<void> holder = f.holder.lock()) f.restore(holder.get());
  }
}

void LazyTrace::abandon() noexcept {
  bool is_last = false;
  {
    const Lock lock(mutex_);
    is_abandoned_ = true;
    flush();
    is_last = alive_ == 0;
  }
  if (is_last) delete this;
}

void LazyMark::compute(CallSite where) { trace_.observe(*this, where); }

Tensor LazyMark::again() { return trace_.alias(*this); }

Tensor LazyMark::take_value() {
  const LazyTrace::Lock lock(trace_.mutex_);
  return std::move(value_);
}

int64_t LazyMark::waits_for() {
  const LazyTrace::Lock lock(trace_.mutex_);
  if (node_ == nullptr || node_->state != LazyNode::State::kPending) return 0;
  return static_cast<int64_t>(trace_.needed_by(*node_).size());
}

void LazyMark::keep_before(HeldBefore before) {
  auto made = std::make_unique<LazyBefore>();
  made->failed.push_back({before.holder, before.restore});
  made->held = std::move(before);
  const LazyTrace::Lock lock(trace_.mutex_);
  if (node_ == nullptr) return;
  before_.swap(made);  // the remaining value is destroyed after the lock
  if (node_->state != LazyNode::State::kFailed) return;
  trace_.failed_.splice(trace_.failed_.end(), before_->failed);
}

Tensor LazyMark::take_before() {
  const LazyTrace::Lock lock(trace_.mutex_);
  return before_ != nullptr ? std::move(before_->held.value) : Tensor();
}

bool LazyMark::has_failed() {
  const LazyTrace::Lock lock(trace_.mutex_);
  return node_ != nullptr && node_->state == LazyNode::State::kFailed;
}

void LazyMark::drop() noexcept {
  LazyTrace& trace = trace_;
  bool is_last = false;
  {
    DeadNodes dead;
    const LazyTrace::Lock lock(trace.mutex_);
    trace.forget(*this, dead);
    is_last = trace.alive_ == 0 && trace.is_abandoned_;
    // `dead` is older than the lock, so it is destroyed after it.
  }
  delete this;
  if (is_last) delete &trace;
}

Tensor LazyTrace::alias(LazyMark& mark) {
  Tensor out = make_handle(mark.rep_->type);
  auto& made = static_cast<LazyMark&>(*pending_mark(out));
  const Lock lock(mutex_);
  ++alive_;
  if (mark.node_ != nullptr) {
    link(made, *mark.node_, mark.result_);
  } else {  // another thread has run it meanwhile
    made.value_ = mark.value_;
    TensorAccess::rep(out)->data.publish(TensorAccess::rep(mark.value_)->data);
  }
  return out;
}

}  // namespace etude::internal
