// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/variable.h"

#include <mutex>
#include <ostream>

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/core/call_scope.h"
#include "etude/core/context.h"

namespace etude {
namespace internal {

struct VariableCell {
  std::recursive_mutex mutex;  // an initialiser may read the Variable that it belongs to
  Tensor value;
  std::function<Tensor()> initialiser;
  std::optional<DType> dtype;
  std::optional<Shape> shape;  // declared sizes; kAny where they may change
  bool is_running_initialiser = false;
  std::string name;
  bool trainable = true;
  CallSite where;

  std::string title() const { return name.empty() ? "Variable" : "Variable '" + name + "'"; }

  void require_fits(const Tensor& x) const {
    ETUDE_REQUIRE(!dtype || x.dtype() == *dtype,
                  "{} is {}, but the value is {}. Cast the value: astype(x, {})", title(),
                  etude::name(*dtype), etude::name(x.dtype()), etude::name(*dtype));
    if (!shape) return;
    bool fits = x.rank() == shape->rank();
    for (int axis = 0; fits && axis < x.rank(); ++axis) {
      fits = (*shape)[axis] == kAny || (*shape)[axis] == x.shape()[axis];
    }
    ETUDE_REQUIRE(fits,
                  "{} has shape {}, but the value has shape {}. Reshape the value, or declare the "
                  "sizes that may change as kAny",
                  title(), shape->to_string(), x.shape().to_string());
  }

  // Takes x as the value, under an identity of its own: the history of x does not come along.
  void set(const Tensor& x) {
    require_fits(x);
    value = with_type(to_dense(x), x.type());
    initialiser = nullptr;
  }

  // Calls under the lock.
  const Tensor& get() {
    if (value.has_value()) return value;
    ETUDE_REQUIRE_CODE(kFailedPrecondition, initialiser != nullptr,
                       "{} made at {}:{} has no value yet. Assign one, or restore a checkpoint, "
                       "before it is read",
                       title(), where.file, where.line);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_running_initialiser,
                       "the initialiser of {} reads the Variable itself. Compute the initial value "
                       "from other values",
                       title());
    is_running_initialiser = true;
    try {
      set_initial(initialiser());
    } catch (...) {
      is_running_initialiser = false;
      throw;
    }
    is_running_initialiser = false;
    return value;
  }

  void set_initial(Tensor x) {
    if (dtype) x = cast(x, *dtype);
    if (!dtype) dtype = x.dtype();
    if (!shape) shape = x.shape();
    set(x);
  }
};

namespace {

thread_local VariableReader* first_reader = nullptr;
thread_local VariableReplay* innermost_replay = nullptr;

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

VariableReplay::VariableReplay(std::span<const Variable> variables,
                               std::span<const Tensor> values) noexcept
    : variables_(variables), values_(values), outer_(innermost_replay) {
  innermost_replay = this;
}

VariableReplay::~VariableReplay() { innermost_replay = outer_; }

const Tensor* find_replayed(const Variable& variable) noexcept {
  for (const VariableReplay* r = innermost_replay; r != nullptr; r = r->outer_) {
    for (std::size_t i = 0; i < r->variables_.size(); ++i) {
      if (r->variables_[i].ref() == variable.ref()) return &r->values_[i];
    }
  }
  return nullptr;
}

TapedStates* taped_states() {
  for (VariableReader* r = first_reader; r != nullptr; r = r->next_) {
    if (TapedStates* states = r->states()) return states;
  }
  return nullptr;
}

void announce_read(const Variable& variable, const Tensor& snapshot) {
  for (VariableReader* r = first_reader; r != nullptr; r = r->next_) {
    r->variable_read(variable, snapshot);
  }
}

}  // namespace internal

namespace {

using internal::located;

// The tensor of an operand; a number takes the dtype of the Variable.
Tensor operand(const Arg& x, std::optional<DType> dtype) {
  if (x.tensor() == nullptr) return dtype ? internal::adapt(x, *dtype) : internal::materialize(x);
  ETUDE_REQUIRE(
      x.tensor()->has_value(),
      "the value is absent: it was moved from, or is the gradient of something unconnected");
  return *x.tensor();
}

}  // namespace

Variable::Variable(Tensor initial, VariableOptions options, CallSite where)
    : cell_(std::make_shared<internal::VariableCell>()) {
  cell_->name = std::move(options.name);
  cell_->trainable = options.trainable;
  cell_->dtype = options.dtype;
  cell_->shape = options.shape;
  cell_->where = where;
  located("Variable", where, [&] {
    ETUDE_REQUIRE(initial.has_value() || (options.dtype && options.shape),
                  "a Variable without an initial value needs a dtype and a shape: "
                  "Variable(Tensor(), {{.dtype = kFloat32, .shape = Shape{{2, 3}}}})");
    const ContextScope scope(eager_context(), where);
    if (initial.has_value()) cell_->set_initial(std::move(initial));
  });
}

Variable::Variable(Initialiser initialiser, VariableOptions options, CallSite where)
    : cell_(std::make_shared<internal::VariableCell>()) {
  cell_->name = std::move(options.name);
  cell_->trainable = options.trainable;
  cell_->dtype = options.dtype;
  cell_->shape = options.shape;
  cell_->where = where;
  cell_->initialiser = std::move(initialiser.run);
}

internal::VariableCell& Variable::cell() const {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, cell_.get() != nullptr,
                     "this Variable is gone: the handle was moved from. Use the handle that it was "
                     "moved to, or copy handles instead");
  return *cell_;
}

Tensor Variable::read(CallSite where) const {
  const Tensor* replayed = internal::find_replayed(*this);
  Tensor snapshot = replayed != nullptr
                        ? *replayed
                        : located("read", where, [&] { return internal::peek(*this); });
  internal::announce_read(*this, snapshot);
  return snapshot;
}

Tensor Variable::assign(const Arg& x) const {
  return located("assign", x.where(), [&] {
    internal::VariableCell& c = cell();
    const std::lock_guard lock(c.mutex);
    const ContextScope scope(eager_context(), x.where());
    const Tensor value = operand(x, c.dtype);
    if (!c.dtype && !c.shape) {
      c.set_initial(value);
    } else {
      c.set(value);
    }
    return c.value;
  });
}

Tensor Variable::assign_add(const Arg& x) const {
  return located("assign_add", x.where(), [&] {
    internal::VariableCell& c = cell();
    const std::lock_guard lock(c.mutex);
    const ContextScope scope(eager_context(), x.where());
    const Tensor by = operand(x, c.get().dtype());
    c.value += Arg(by, x.where());
    return c.value;
  });
}

Tensor Variable::assign_sub(const Arg& x) const {
  return located("assign_sub", x.where(), [&] {
    internal::VariableCell& c = cell();
    const std::lock_guard lock(c.mutex);
    const ContextScope scope(eager_context(), x.where());
    const Tensor by = operand(x, c.get().dtype());
    c.value -= Arg(by, x.where());
    return c.value;
  });
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
  const std::lock_guard lock(c.mutex);
  return c.dtype ? *c.dtype : c.get().dtype();
}

Shape Variable::shape() const {
  internal::VariableCell& c = cell();
  const std::lock_guard lock(c.mutex);
  return !c.value.has_value() && c.shape ? *c.shape : c.get().shape();
}

Device Variable::device() const {
  internal::VariableCell& c = cell();
  const std::lock_guard lock(c.mutex);
  return c.value.has_value() ? c.value.device() : Device{};
}

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
  return located(name, x.where(), [&] {
    internal::VariableCell& c = variable_.cell();
    const std::lock_guard lock(c.mutex);
    const ContextScope scope(eager_context(), x.where());
    const Tensor by = operand(x, c.get().dtype());
    set_index(c.value, index_, Arg(by, x.where()), mode, x.where());
    return c.value;
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

Tensor peek(const Variable& variable) {
  VariableCell* c = static_cast<VariableCell*>(const_cast<void*>(variable.ref()));
  ETUDE_REQUIRE_CODE(kFailedPrecondition, c != nullptr,
                     "this Variable is gone: the handle was moved from. Use the handle that it was "
                     "moved to, or copy handles instead");
  const std::lock_guard lock(c->mutex);
  if (c->value.has_value()) return c->value;
  const ContextScope scope(eager_context(), c->where);
  return c->get();
}

}  // namespace internal
}  // namespace etude
