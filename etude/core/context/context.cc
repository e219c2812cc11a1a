// SPDX-License-Identifier: Apache-2.0
#include "etude/core/context/context.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/located.h"
#include "etude/core/call/together.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/precision_scope.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/promotion.h"
#include "etude/core/op/slices.h"

namespace etude {
namespace internal {
namespace {

// In one block of the static thread-local storage, since every call reads them.
[[gnu::tls_model("initial-exec")]] thread_local constinit Context* top_context = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local constinit CallSite rule_site;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool inside_rule = false;

}  // namespace

thread_local constinit uint32_t mode_word = 0;
thread_local constinit CallSite user_call;

bool& refuses_mixed_precision() noexcept {
  thread_local constinit bool refuses = false;
  return refuses;
}

namespace {

// Memory for the text of an error where there is no other: freed while the text is composed.
class Reserve {
 public:
  void release() noexcept { std::free(block_.exchange(nullptr)); }
  void restore() noexcept {
    if (block_.load(std::memory_order_relaxed) != nullptr) return;
    std::free(block_.exchange(std::malloc(kBytes)));  // null without memory: tried again later
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{16} << 10;
  std::atomic<void*> block_{std::malloc(kBytes)};
};

Reserve& reserve() {
  static Reserve& made = *new Reserve;
  return made;
}

// Made while there is memory. Copies of an Error allocate nothing.
const Error& bare_no_memory =
    *new Error(ErrorCode::kResourceExhausted,
               "the host has no memory left, not even for the text of this error");
[[maybe_unused]] const Reserve& made_in_time = reserve();

// Runs `compose`, and again with the reserve if there is no memory. Returns false if that does not
// suffice either.
template <class F>
bool with_reserve(const F& compose) {
  for (const bool is_last : {false, true}) {
    try {
      compose();
      if (is_last) reserve().restore();
      return true;
    } catch (const std::bad_alloc&) {
      if (!is_last) reserve().release();
    }
  }
  reserve().restore();
  return false;
}

}  // namespace

void explain(Error& error, std::string_view name, CallSite where) {
  const Error before = error;  // shares the text, which name_op() and locate() then copy
  const bool is_explained = with_reserve([&] {
    error = before;
    if (!name.empty()) error.name_op(name);
    error.locate(user_line(where));
  });
  if (!is_explained) error = before;  // the error itself matters more than its place
}

void throw_of(std::string_view name, ErrorCode code, const std::string& text, CallSite where) {
  Error error(code, text);
  explain(error, name, where);
  throw error;
}

void throw_no_memory(std::string_view name, CallSite where) {
  std::optional<Error> error;
  const bool is_made = with_reserve([&] {
    error.emplace(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
    if (!name.empty()) error->name_op(name);
    error->locate(user_line(where));
  });
  throw Error(is_made ? *error : bare_no_memory);
}

bool is_inside_rule() noexcept { return inside_rule; }
CallSite rule_call_site() noexcept { return inside_rule ? rule_site : CallSite{}; }

namespace {

void update_mode() noexcept {
  mode_word = (mode_word & ~kModeContexts) | (top_context != nullptr ? kModeContexts : 0);
}

void require_dtype(const Op& op, std::size_t i, DType dtype) {
  const DTypeSet set = op.operand_dtypes(i);
  ETUDE_REQUIRE(set.contains(dtype), "{} is {}, but must be one of {}. Cast it with astype",
                operand_text(op, i), name(dtype), describe(set));
}

// The common case of the checks below: no promotion, no cast, no dense copy, one device.
bool is_plain(const Op& op, Operands in) noexcept {
  if (!op.is_uniform() || in.size() != op.arity() || in.size() == 0 || !in.has(0)) return false;
  const DType dtype = in[0].dtype();
  const uint32_t word = TensorAccess::rep(in[0])->type->dtype_and_device();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i) || TensorAccess::is_sparse(in[i]) ||
        TensorAccess::rep(in[i])->type->dtype_and_device() != word) {
      return false;
    }
  }
  const Device device = TensorAccess::rep(in[0])->type->device();
  if (!device.is_home() && !op.runs_on(device)) return false;
  return op.def().dtypes.contains(dtype) && !(op.def().casts_integers && is_integer(dtype));
}

// The operands for a context: the borrowed operands, or casts and dense copies of them.
class Checked {
 public:
  Checked(const Op& op, Operands in, const Attrs& attrs, CallSite where) : view_(in) {
    const std::size_t count = full_count(op, in.size());
    if (count > in.size()) in = fill_up(in, count);
    std::optional<DType> shared;
    std::size_t shared_at = 0;
    bool plain = true, mixed = false;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const OperandDef& def = op.operand(i);
      if (!in[i].has_value()) {
        ETUDE_REQUIRE(def.optional,
                      "{} is absent. Was it moved from, or is it the gradient of something "
                      "unconnected?",
                      operand_text(op, i));
        continue;
      }
      const DType dtype = in[i].dtype();
      plain = plain && !TensorAccess::is_sparse(in[i]);
      if (!def.dtypes.empty()) {
        require_dtype(op, i, dtype);
      } else if (!shared) {
        shared = dtype;
        shared_at = i;
      } else if (*shared != dtype) {
        shared = promoted(op, i, dtype, shared_at, *shared);
        mixed = true;
      }
    }
    const bool casts = shared && op.def().casts_integers && floating_for(*shared) != *shared;
    if (casts) shared = floating_for(*shared);
    if (shared) require_shared(op, in, *shared, shared_at);
    const std::optional<Device> device = device_of_call(op, in, attrs);
    const bool moves = has_others(op, in, device);
    if (!plain || mixed || casts || moves) {
      replace(op, in, mixed || casts ? shared : std::nullopt, moves ? device : std::nullopt, moves,
              where);
    }
  }

  Operands view() const { return view_; }
  // Whether the call takes the operands themselves.
  bool is_as_given() const { return held_.empty(); }

 private:
  // The same operands, followed by absent ones.
  Operands fill_up(Operands in, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) filled_.add(i < in.size() ? in[i] : absent_);
    return view_ = filled_.view(in.expiring());
  }

  // Requires that the op takes the common dtype of its operands. The error names the first operand
  // whose dtype the op does not take.
  static void require_shared(const Op& op, Operands in, DType shared, std::size_t shared_at) {
    if (op.operand_dtypes(shared_at).contains(shared)) return;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in.has(i) && op.operand(i).dtypes.empty()) require_dtype(op, i, in[i].dtype());
    }
    require_dtype(op, shared_at, shared);
  }

  static DType promoted(const Op& op, std::size_t i, DType mine, std::size_t j, DType other) {
    const std::optional<DType> both = meeting_dtype(mine, other, op.def().casts_integers);
    ETUDE_REQUIRE(!refuses_mixed_precision() || !is_floating(mine) || !is_floating(other),
                  "{} is {} and {} is {}, but a layer with a PrecisionPolicy mixes no precisions. "
                  "Cast one of them: astype({}, {})",
                  operand_text(op, i), name(mine), operand_text(op, j), name(other),
                  operand_expression(op, i), name(other));
    const bool casts_mine = is_integer(mine) || mine == kBool;
    ETUDE_REQUIRE(both.has_value(),
                  "{} is {} and {} is {}; these do not promote to one dtype. Cast one of them: "
                  "astype({}, {})",
                  operand_text(op, i), name(mine), operand_text(op, j), name(other),
                  operand_expression(op, casts_mine ? i : j), name(casts_mine ? other : mine));
    return *both;
  }

  // Whether an operand is not where the call needs it. No device: operands may be anywhere, except
  // operands that are read on the host.
  static bool has_others(const Op& op, Operands in, std::optional<Device> device) {
    if (!device && !op.has_host_operands()) return false;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::optional<Device> wanted = op.operand(i).on_host ? Device() : device;
      if (in.has(i) && wanted && in[i].type()->device() != *wanted) return true;
    }
    return false;
  }

  void replace(const Op& op, Operands in, std::optional<DType> dtype, std::optional<Device> device,
               bool moves, CallSite where) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      Tensor x = in[i];
      if (x.has_value()) {
        x = to_dense(x);
        if (op.operand(i).on_host && moves) x = moved(x, Device(), where);
        if (device) x = placed_operand(op, i, x, *device, where);
        if (dtype && op.operand(i).dtypes.empty()) x = cast(x, *dtype, where);
      }
      held_.push_back(std::move(x));
    }
    for (const Tensor& x : held_) list_.add(x);
    view_ = list_.view();
  }

  Operands view_;
  const Tensor absent_;
  InlineVector<Tensor, 4> held_;
  OperandList filled_, list_;
};

}  // namespace

bool fits_as_given(const Op& op, Operands operands, const Attrs& attrs, CallSite where) {
  return Checked(op, operands, attrs, where).is_as_given();
}

std::size_t full_count(const Op& op, std::size_t given) {
  // Up to the last required operand: an optional operand before it is passed as absent.
  const auto& defs = op.def().operands;
  const auto is_required = [](const OperandDef& d) { return !d.optional && !d.variadic; };
  const auto last = std::find_if(defs.rbegin(), defs.rend(), is_required);
  const auto required = static_cast<std::size_t>(defs.rend() - last);
  if (given >= required && (op.is_variadic() || given <= defs.size())) {
    return std::max(given, defs.size() - (op.is_variadic() ? 1 : 0));
  }
  std::vector<std::string_view> names;
  names.reserve(defs.size());
  for (const OperandDef& d : defs) names.push_back(d.name);
  ETUDE_THROW(kInvalidArgument, "takes {}{} operands ({}), but {} were given", required,
              op.is_variadic() ? " or more" : "", fmt::join(names, ", "), given);
}

std::string operand_text(const Op& op, std::size_t i) {
  const OperandDef& def = op.operand(i);
  if (!def.variadic) return fmt::format("operand '{}'", def.name);
  return fmt::format("element {} of '{}'", i + 1 - op.arity(), def.name);
}

std::string operand_expression(const Op& op, std::size_t i) {
  const OperandDef& def = op.operand(i);
  return def.variadic ? fmt::format("{}[{}]", def.name, i + 1 - op.arity()) : std::string(def.name);
}

void place_error(Error& error, const Op& op, CallSite where) {
  if (!is_inside_rule()) {
    explain(error, op.name(), where);
    return;
  }
  const bool is_fact = error.op().empty() && !error.is_located();
  if (is_fact && dynamic_cast<StepError*>(&error) == nullptr) {
    throw StepError(error.code(), op, error.what());
  }
}

}  // namespace internal

using internal::inside_rule;
using internal::rule_site;
using internal::top_context;

Context& ContextStack::top() noexcept {
  return top_context != nullptr ? *top_context : eager_context();
}
bool ContextStack::is_eager() noexcept { return top_context == nullptr; }
bool ContextStack::is_on_eager() noexcept {
  const Context* c = top_context;
  while (c != nullptr && c->parent() != nullptr) c = c->parent();
  return c == nullptr || c == &eager_context();
}

void ContextStack::push(Context& context) noexcept {
  context.parent_ = &top();
  top_context = &context;
  internal::update_mode();
}

void ContextStack::remove(Context& context) noexcept {
  Context* const bottom = &eager_context();
  Context** place = &top_context;
  while (*place != nullptr && *place != bottom && *place != &context) place = &(*place)->parent_;
  if (*place != &context) return;
  *place = context.parent_;
  if (top_context == bottom) top_context = nullptr;
  context.parent_ = nullptr;
  internal::update_mode();
}

ContextScope::ContextScope(Context& context, CallSite where) noexcept
    : saved_(top_context), saved_where_(rule_site), saved_inside_(inside_rule) {
  top_context = &context == &eager_context() ? nullptr : &context;
  if (!inside_rule || !rule_site.known()) rule_site = where;
  inside_rule = true;
  internal::update_mode();
}

BottomScope::BottomScope(Context& bottom) noexcept
    : saved_(std::exchange(top_context, &bottom == &eager_context() ? nullptr : &bottom)),
      saved_where_(std::exchange(rule_site, CallSite{})),
      saved_inside_(std::exchange(inside_rule, false)) {
  internal::update_mode();
}

void BottomScope::leave() noexcept {
  if (!std::exchange(is_open_, false)) return;
  top_context = saved_;
  rule_site = saved_where_;
  inside_rule = saved_inside_;
  internal::update_mode();
}

ContextScope::~ContextScope() {
  top_context = saved_;
  rule_site = saved_where_;
  inside_rule = saved_inside_;
  internal::update_mode();
}

namespace {

[[gnu::noinline]] Values execute_checked(const Op& op, Operands operands, const Attrs& attrs,
                                         CallSite where) {
  if (op.def().accepts_slices != 0) {
    const int i = internal::slices_operand(operands);
    if (i >= 0 && ((op.def().accepts_slices >> i) & 1) != 0) {
      return internal::execute_on_slices(op, operands, i, attrs, where);
    }
  }
  const internal::Checked checked(op, operands, attrs, where);
  if (op.device_attr() >= 0) {
    return ContextStack::top().execute(op, checked.view(), internal::placed_attrs(op, attrs),
                                       where);
  }
  return ContextStack::top().execute(op, checked.view(), attrs, where);
}

}  // namespace

Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) {
  if (inside_rule) where = rule_site;
  return internal::located(op, where, [&] {
    Values out;
    if (internal::mode_word == 0 && internal::run_cached(op, operands, attrs, out)) return out;
    where = internal::user_line(where);
    const bool in_scope = (internal::mode_word & internal::kModeDevice) != 0;
    if (in_scope) {
      if (!internal::is_placed(op, operands)) return execute_checked(op, operands, attrs, where);
      const bool is_only = internal::mode_word == internal::kModeDevice;
      if (is_only && internal::run_cached(op, operands, attrs, out)) return out;
    }
    if (!internal::is_plain(op, operands)) return execute_checked(op, operands, attrs, where);
    return ContextStack::top().execute(op, operands, attrs, where);
  });
}

}  // namespace etude
