// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/variable.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <ostream>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/thread_object.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/caller_place.h"
#include "etude/core/context/context.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/mode.h"
#include "etude/core/internal/traced.h"
#include "etude/variables/enclosing_trace.h"
#include "etude/variables/internal/variable_replay.h"
#include "etude/variables/variable_cell.h"
#include "etude/variables/variable_state.h"

namespace etude {
namespace internal {

namespace {

thread_local VariableReader* first_reader = nullptr;
thread_local VariableReplay* innermost_replay = nullptr;
// The innermost lock that this thread holds.
struct InnermostLock {
  VariableLock* lock = nullptr;
};

}  // namespace

void VariableReader::start_reading() noexcept {
  if (is_registered_) return;
  next_ = first_reader;
  first_reader = this;
  is_registered_ = true;
}

void VariableReader::stop_reading() noexcept {
  if (!is_registered_) return;
  VariableReader** place = &first_reader;
  while (*place != nullptr && *place != this) place = &(*place)->next_;
  if (*place == this) *place = next_;
  is_registered_ = false;
}

ReadersPause::ReadersPause() noexcept : saved_(std::exchange(first_reader, nullptr)) {}
ReadersPause::~ReadersPause() { first_reader = saved_; }

bool ReadersPause::hides_derivative(const Variable& variable) const {
  for (const VariableReader* r = saved_; r != nullptr; r = r->next_) {
    if (r->takes_derivative(variable)) return true;
  }
  return false;
}

TapedStates* taped_states() {
  for (VariableReader* r = first_reader; r != nullptr; r = r->next_) {
    if (TapedStates* states = r->states()) return states;
  }
  return nullptr;
}

void VariableReader::variable_assigned(const Variable&, const Tensor&) {}

VariableHistory::VariableHistory() : trace_(EnclosingTrace::innermost()) { start_reading(); }

void VariableHistory::variable_read(const Variable& variable, const Tensor& snapshot) {
  if (EnclosingTrace::innermost() != trace_) return;
  Tensor& value = use_of(variable).values.back();
  if (!value.has_value()) value = snapshot;
}

void VariableHistory::variable_assigned(const Variable& variable, const Tensor& value) {
  if (EnclosingTrace::innermost() == trace_) use_of(variable).values.push_back(value);
}

VariableUse& VariableHistory::use_of(const Variable& variable) {
  for (VariableUse& use : uses_) {
    if (use.variable.ref() == variable.ref()) return use;
  }
  return uses_.emplace_back(VariableUse{variable, std::vector<Tensor>(1)});
}

std::vector<VariableUse> VariableHistory::take() {
  stop_reading();
  return std::move(uses_);
}

VariableReplay::VariableReplay(std::span<const VariableUse> uses)
    : outer_(innermost_replay), reader_before_(first_reader), trace_(EnclosingTrace::innermost()) {
  for (const VariableUse& use : uses) states_.push_back({&use, 0});
  innermost_replay = this;
}

VariableReplay::~VariableReplay() { innermost_replay = outer_; }

VariableReplay::State* VariableReplay::find_state(const Variable& variable) noexcept {
  for (VariableReplay* r = innermost_replay; r != nullptr; r = r->outer_) {
    if (r->trace_ != EnclosingTrace::innermost()) continue;
    for (State& state : r->states_) {
      if (state.use->variable.ref() == variable.ref()) return &state;
    }
  }
  return nullptr;
}

const Tensor* VariableReplay::find(const Variable& variable) noexcept {
  const State* state = find_state(variable);
  if (state == nullptr || !state->use->values[state->assigned].has_value()) return nullptr;
  return &state->use->values[state->assigned];
}

const Tensor* VariableReplay::find_assigned(const Variable& variable) {
  State* state = find_state(variable);
  if (state == nullptr) return nullptr;
  ETUDE_REQUIRE_CODE(kFailedPrecondition, state->assigned + 1 < state->use->values.size(),
                     "a function that is run again for its gradient assigns {} more often than it "
                     "did before ({}). It must do the same in each run",
                     title_of(variable), state->use->values.size() - 1);
  return &state->use->values[++state->assigned];
}

void notify_read(const Variable& variable, const Tensor& snapshot) {
  const VariableReader* end =
      innermost_replay != nullptr && VariableReplay::find(variable) != nullptr
          ? innermost_replay->reader_before_
          : nullptr;
  for (VariableReader* r = first_reader; r != nullptr && r != end; r = r->next_) {
    r->variable_read(variable, snapshot);
  }
}

void notify_assignment(const Variable& variable, const Tensor& value) {
  const VariableReader* end =
      VariableReplay::find_state(variable) != nullptr ? innermost_replay->reader_before_ : nullptr;
  for (VariableReader* r = first_reader; r != nullptr && r != end; r = r->next_) {
    r->variable_assigned(variable, value);
  }
}

}  // namespace internal

namespace {

using internal::EnclosingTrace;
using internal::is_standing;
using internal::located;

void notify_trace(const Variable& made) {
  if (EnclosingTrace* trace = EnclosingTrace::innermost()) trace->variable_made(made);
}

// The tensor of an operand; a number takes the dtype of the Variable.
Tensor operand(const Arg& x, std::optional<DType> dtype) {
  if (x.tensor() == nullptr) return dtype ? internal::adapt(x, *dtype) : internal::materialize(x);
  ETUDE_REQUIRE(
      x.tensor()->has_value(),
      "the value is absent: it was moved from, or is the gradient of something unconnected");
  return *x.tensor();
}

// The initial value of a Variable that a trace makes, on the device of the scope around the staged
// call. The trace hides this scope, since its graph serves calls in other scopes as well; but the
// Variable is made once, in this call.
Tensor in_scope_of_call(Tensor initial, CallSite where) {
  const internal::Placement* const place =
      internal::hides_scope() ? internal::caller_place() : nullptr;
  if (place == nullptr || place->is_clear || !initial.device().is_home()) return initial;
  return internal::in_scope(std::move(initial), where, internal::device_of(*place));
}

// Whether x is a number for the host, or has its elements on the device.
bool is_at_hand(const Arg& x, Device device) {
  if (x.tensor() == nullptr) return device.is_home();
  return x.tensor()->has_value() && x.tensor()->device() == device &&
         !internal::is_unrun(*x.tensor());
}

}  // namespace

void Variable::refuse_initial(const Tensor& initial) const {
  ETUDE_REQUIRE_CODE(kUnimplemented, internal::trace_of(initial) != nullptr,
                     "the initial value depends on one example of a vmap, but a Variable holds one "
                     "value for all. Make it outside, or from values that do not");
  if (EnclosingTrace* trace = EnclosingTrace::innermost()) trace->variable_refused(*this);
  ETUDE_THROW(kFailedPrecondition,
              "the initial value depends on a value of a trace, which has no elements. Make the "
              "Variable in the first call of a function, outside, or from other values");
}

Variable::Variable(Tensor initial, VariableOptions options, CallSite where)
    : cell_(std::make_shared<internal::VariableCell>()) {
  cell_->name = std::move(options.name);
  cell_->trainable = options.trainable;
  cell_->dtype = options.dtype;
  cell_->shape = options.shape;
  cell_->where = internal::user_line(where);
  located("Variable", where, [&] {
    ETUDE_REQUIRE(initial.has_value() || (options.dtype && options.shape),
                  "a Variable without an initial value needs a dtype and a shape: "
                  "Variable(Tensor(), {{.dtype = kFloat32, .shape = Shape{{2, 3}}}})");
    const ContextScope scope(eager_context(), where);
    if (initial.has_value()) {
      if (is_standing(initial)) {
        const EnclosingTrace* trace = EnclosingTrace::innermost();
        Tensor fixed = trace != nullptr ? trace->fixed_value(initial) : Tensor();
        if (!fixed.has_value()) refuse_initial(initial);
        initial = in_scope_of_call(std::move(fixed), where);
      }
      cell_->set_initial(std::move(initial));
    }
  });
  notify_trace(*this);
}

Variable::Variable(Initialiser initialiser, VariableOptions options, CallSite where)
    : cell_(std::make_shared<internal::VariableCell>()) {
  cell_->name = std::move(options.name);
  cell_->trainable = options.trainable;
  cell_->dtype = options.dtype;
  cell_->shape = options.shape;
  cell_->where = internal::user_line(where);
  cell_->initialiser = std::move(initialiser.run);
  notify_trace(*this);
}

internal::VariableCell& Variable::cell() const {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, cell_.get() != nullptr,
                     "this Variable is gone: the handle was moved from. Use the handle that it was "
                     "moved to, or copy handles instead");
  return *cell_;
}

Tensor Variable::read(CallSite where) const {
  const Tensor* replayed = internal::VariableReplay::find(*this);
  Tensor snapshot;
  if (replayed != nullptr) {
    snapshot = *replayed;
  } else {
    snapshot = located("read", where, [&] {
      if (internal::mode_word == 0) [[likely]]
        return internal::peek(*this);
      return internal::read_resource(internal::resource_of(*this), where);
    });
  }
  internal::notify_read(*this, snapshot);
  return snapshot;
}

bool Variable::is_direct(const Arg& x) noexcept {
  return ContextStack::is_on_eager() && (x.tensor() == nullptr || !is_standing(*x.tensor()));
}

// The result of `run`, which assigns; in a replayed run, the value that the first run assigned.
template <class Run>
Tensor Variable::located_assignment(const char* name, CallSite where, const Run& run) const {
  return located(name, where, [&] {
    const Tensor* replayed = internal::VariableReplay::find_assigned(*this);
    const Tensor value = replayed != nullptr ? *replayed : run();
    internal::notify_assignment(*this, value);
    return value;
  });
}

template <class Next>
Tensor Variable::change(const Arg& x, const char* name, const Next& next) const {
  return located_assignment(name, x.where(), [&] {
    internal::VariableCell& c = cell();
    if (is_direct(x)) {
      const ContextScope scope(eager_context(), x.where());
      auto lock = c.lock_with_elements();
      const DType dtype = c.dtype ? *c.dtype : c.value.dtype();
      const Device device = c.value.device();
      if (is_at_hand(x, device)) {
        next(c.value, Arg(operand(x, dtype), x.where()));
        return c.value;
      }
      lock.unlock();
      // Copies, and runs recorded calls: not under the lock.
      Tensor by = internal::moved(operand(x, dtype), device, x.where());
      if (internal::is_unrun(by)) internal::observe(by, x.where());
      lock = c.lock_with_elements();
      next(c.value, Arg(std::move(by), x.where()));
      return c.value;
    }
    Tensor value = internal::read_resource(internal::resource_of(*this), x.where());
    next(value, Arg(internal::moved(operand(x, dtype()), value.device(), x.where()), x.where()));
    c.require_fits(value);
    return internal::assign_resource(internal::resource_of(*this), value, x.where());
  });
}

Tensor Variable::assign(const Arg& x) const {
  return located_assignment("assign", x.where(), [&] {
    internal::VariableCell& c = cell();
    if (is_direct(x)) {
      const ContextScope scope(eager_context(), x.where());
      const std::optional<Device> place = initialized_device();
      Tensor value = to_dense(operand(x, c.dtype));  // may warn: not under the lock
      if (place) value = internal::moved(value, *place, x.where());
      return internal::assign_now(*this, value);
    }
    const Tensor value = to_dense(operand(x, c.dtype));
    c.require_fits(value);
    return internal::assign_resource(internal::resource_of(*this), value, x.where());
  });
}

Tensor Variable::assign_add(const Arg& x) const {
  return change(x, "assign_add", [](Tensor& value, const Arg& by) { value += by; });
}

Tensor Variable::assign_sub(const Arg& x) const {
  return change(x, "assign_sub", [](Tensor& value, const Arg& by) { value -= by; });
}

const std::string& Variable::name() const { return cell().name; }
bool Variable::trainable() const { return cell().trainable; }
CallSite Variable::where() const { return cell().where; }

bool Variable::initialized() const {
  internal::VariableCell& c = cell();
  const std::lock_guard lock(c.mutex);
  return c.value.has_value() || c.initialiser != nullptr;
}

DType Variable::dtype() const {
  internal::VariableCell& c = cell();
  {
    const std::lock_guard lock(c.mutex);
    if (c.dtype) return *c.dtype;
  }
  return c.ready().dtype();
}

Shape Variable::shape() const {
  internal::VariableCell& c = cell();
  {
    const std::lock_guard lock(c.mutex);
    if (!c.value.has_value() && c.shape) return *c.shape;
  }
  return c.ready().shape();
}

std::optional<Device> Variable::initialized_device() const {
  internal::VariableCell& c = cell();
  const std::lock_guard lock(c.mutex);
  return c.value.has_value() ? std::optional(c.value.device()) : std::nullopt;
}

Device Variable::device() const { return initialized_device().value_or(Device()); }

std::string Variable::to_string() const {
  if (cell_.get() == nullptr) return "Variable(<moved from>)";
  const std::lock_guard lock(cell_->mutex);
  const std::string name = cell_->name.empty() ? "" : cell_->name + ", ";
  if (!cell_->value.has_value()) return fmt::format("Variable({}<not initialised>)", name);
  std::string text = cell_->value.to_string();  // "Tensor(...)"
  return "Variable(" + name + text.substr(text.find('(') + 1);
}

std::ostream& operator<<(std::ostream& out, const Variable& value) {
  return out << value.to_string();
}

Tensor VariableSlice::update(const Arg& x, ScatterMode mode, const char* name) const {
  return variable_.change(x, name, [&](Tensor& value, const Arg& by) {
    set_index(value, index_, by, mode, by.where());
  });
}

Tensor VariableSlice::assign_sub(const Arg& x) const {
  const Tensor by = operand(x, variable_.dtype());
  const Tensor negated = internal::negative(Arg(by, x.where()));
  return update(Arg(negated, x.where()), ScatterMode::kAdd, "assign_sub");
}

Tensor DifferentiableTraits<Variable>::zero(const Variable& x) {
  return internal::full(internal::peek(x).type(), 0);
}

namespace internal {

struct VariableAccess {
  static VariableCell& cell(const Variable& v) { return v.cell(); }
  static std::weak_ptr<void> state(const Variable& v) { return v.cell_; }
  static Variable of(std::shared_ptr<VariableCell> cell) {
    return Variable(Variable::Existing{std::move(cell)});
  }
};

bool has_value(const Variable& variable) {
  VariableCell& c = VariableAccess::cell(variable);
  const std::lock_guard lock(c.mutex);
  return c.value.has_value();
}

void require_fits(const Variable& variable, const Tensor& value) {
  VariableCell& c = VariableAccess::cell(variable);
  const std::lock_guard lock(c.mutex);
  c.require_fits(value);
}

Tensor peek(const Variable& variable) { return VariableAccess::cell(variable).ready(); }

Tensor resource_of(const Variable& variable) {
  VariableCell& c = VariableAccess::cell(variable);
  c.ready();
  const std::lock_guard lock(c.mutex);
  const Type* type = c.value.type();
  if (!c.resource.has_value() || c.resource.type() != type) {
    c.resource = make_resource(type, VariableAccess::state(variable));
  }
  return c.resource;
}

std::weak_ptr<void> weak_state(const Variable& variable) { return VariableAccess::state(variable); }

std::string title_of(const Variable& variable) { return VariableAccess::cell(variable).title(); }
std::string made_text(const Variable& variable) { return VariableAccess::cell(variable).made(); }

Variable variable_of_state(const std::shared_ptr<void>& state) {
  return VariableAccess::of(std::static_pointer_cast<VariableCell>(state));
}

Variable variable_of(const Tensor& resource) {
  ETUDE_REQUIRE(is_resource(resource), "operand 'variable' is {}, a value, and no Variable",
                resource.type()->to_string());
  const std::shared_ptr<void> state = state_of(resource);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, state != nullptr,
                     "the Variable is gone: its last handle was destroyed. Keep one as long as a "
                     "function uses it");
  return variable_of_state(state);
}

Variable stand_in_for(const Variable& variable) {
  const VariableCell& cell = VariableAccess::cell(variable);
  auto made = std::make_shared<VariableCell>();
  made->value = peek(variable);
  made->dtype = cell.dtype;
  made->shape = cell.shape;
  made->name = cell.name;
  made->trainable = cell.trainable;
  made->where = cell.where;
  return VariableAccess::of(std::move(made));
}

namespace {

// The value of an assignment, dense and on the device of the Variable.
Tensor dense_on(const Tensor& x, Device device) {
  return to_dense(x.device() == device ? x : copied_to(at_home(x), device));
}

}  // namespace

Tensor assign_now(const Variable& variable, const Tensor& x) {
  VariableCell& c = VariableAccess::cell(variable);
  std::unique_lock lock(c.mutex);
  const bool moves = c.value.has_value() && c.value.device() != x.device();
  Tensor value = x;
  if (moves ||
      TensorAccess::is_sparse(x)) {  // calls, not under the lock; a Variable stays where it is
    const Device device = c.value.has_value() ? c.value.device() : x.device();
    lock.unlock();
    value = dense_on(x, device);
    lock.lock();
  }
  if (!c.dtype && !c.shape) {
    c.set_initial(value);
  } else {
    c.set(value);
  }
  return c.value;
}

std::function<void()> prepare_saved(const Variable& variable, const Tensor& value) {
  if (const Tensor* replayed = VariableReplay::find_assigned(variable)) {
    notify_assignment(variable, *replayed);
    return [] {};
  }
  VariableCell& c = VariableAccess::cell(variable);
  CellContent saved;
  Device device;
  {
    const std::lock_guard lock(c.mutex);
    c.require_fits(value);
    saved.dtype = c.dtype;
    saved.shape = c.shape;
    device = c.value.has_value() ? c.value.device() : value.device();
  }
  const Tensor there = dense_on(value, device);  // a Variable stays where it is
  saved.value = with_type(there, there.type());
  if (!saved.dtype && !saved.shape) {
    saved.dtype = there.dtype();
    saved.shape = there.shape();
  }
  notify_assignment(variable, saved.value);
  return [variable, saved = std::move(saved)]() mutable {
    saved.exchange_with(VariableAccess::cell(variable));
  };
}

VariableLock::VariableLock(std::vector<Variable> variables)
    : variables_(std::move(variables)), outer_(ThreadObject<InnermostLock>::get().lock) {
  std::ranges::sort(variables_, std::less<>(), &Variable::ref);
  lock();
  ThreadObject<InnermostLock>::get().lock = this;
}

VariableLock::~VariableLock() {
  ThreadObject<InnermostLock>::get().lock = outer_;
  unlock();
}

void VariableLock::lock() {
  for (const Variable& v : variables_) VariableAccess::cell(v).mutex.lock();
  is_locked_ = true;
}

void VariableLock::unlock() noexcept {
  if (!std::exchange(is_locked_, false)) return;
  for (const Variable& v : variables_) VariableAccess::cell(v).mutex.unlock();
}

namespace {

// The object is there if the thread ever held a lock.
VariableLock* exchange_innermost(VariableLock* lock) noexcept {
  InnermostLock* const innermost = ThreadObject<InnermostLock>::find();
  return innermost != nullptr ? std::exchange(innermost->lock, lock) : nullptr;
}

}  // namespace

HostCodeScope::HostCodeScope() noexcept : innermost_(exchange_innermost(nullptr)) {
  for (VariableLock* lock = innermost_; lock != nullptr; lock = lock->outer_) lock->unlock();
}

HostCodeScope::~HostCodeScope() {
  for (VariableLock* lock = innermost_; lock != nullptr; lock = lock->outer_) lock->lock();
  exchange_innermost(innermost_);
}

}  // namespace internal
}  // namespace etude
