// SPDX-License-Identifier: Apache-2.0
// The lazy context: the bottom of a thread's stack while a LazyScope lives. It records calls and
// names no op. Calls that cannot wait run at once, on operands that are observed first.
#include "etude/core/context/context.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/environment.h"
#include "etude/core/call/located.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/infer.h"
#include "etude/core/internal/traced.h"
#include "etude/eager/dispatch.h"
#include "etude/eager/profiler.h"
#include "etude/graph/graph.h"
#include "etude/lazy/follow.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/pause.h"
#include "etude/lazy/program.h"
#include "etude/lazy/trace.h"
#include "etude/variables/enclosing_trace.h"

namespace etude {
namespace internal {
namespace {

LazyOptions& options() {
  static LazyOptions* made = [] {
    auto* out = new LazyOptions;
    constexpr std::array<std::string_view, 1> kWays{"op_by_op"};
    out->op_by_op = environment_choice("ETUDE_LAZY", kWays) == 0;
    return out;
  }();
  return *made;
}

class LazyContext final : public Context {
 public:
  LazyContext() : trace_(new LazyTrace) {}
  ~LazyContext() override {
    if (is_on_) leave();
    trace_->abandon();
  }

  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override;

  LazyTrace& trace() noexcept { return *trace_; }
  bool is_on() const noexcept { return is_on_; }
  // Puts it below all contexts of this thread, and removes it again.
  void enter();
  void leave() noexcept;

 private:
  // Records the call if it is the expected next call; returns false otherwise.
  bool follow(const Op& op, Operands in, const Attrs& attrs, CallSite where, Values& out);
  Values record(const Op& op, Operands in, const Attrs& attrs, std::span<const Type* const> types,
                CallSite where);
  static Values run_now(const Op& op, Operands in, const Attrs& attrs, CallSite where);

  LazyTrace* trace_;
  bool is_on_ = false;
};

// The contexts of this thread, outermost last, taken from the stack.
InlineVector<Context*, 8> take_contexts() {
  InlineVector<Context*, 8> out;
  while (!ContextStack::is_eager()) {
    out.push_back(&ContextStack::top());
    ContextStack::remove(*out.back());
  }
  return out;
}

void LazyContext::enter() {
  const InlineVector<Context*, 8> above = take_contexts();
  ContextStack::push(*this);
  parent_ = nullptr;  // the bottom: calls do not end at the eager context
  for (std::size_t i = above.size(); i-- > 0;) ContextStack::push(*above[i]);
  is_on_ = true;
}

void LazyContext::leave() noexcept {
  parent_ = &eager_context();
  ContextStack::remove(*this);
  is_on_ = false;
}

Values LazyContext::run_now(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  LazyLog::instance().note_eager(op.name());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].has_value() && is_unrun(in[i])) observe(in[i], where);
  }
  return eager_context().execute(op, in, attrs, where);
}

Values LazyContext::record(const Op& op, Operands in, const Attrs& attrs,
                           std::span<const Type* const> types, CallSite where) {
  Types results;
  if (op.def().data != nullptr) {  // a call of a graph, whose results may be absent
    results = infer_types(op, types, attrs);
  } else {
    // Refuses here everything that a type rule and the preparation of a kernel refuse, as eagerly.
    DispatchEntry scratch;
    results = dispatch(op, attrs, types.data(), types.size(), scratch).prepared->results;
  }
  const std::span<const Type* const> view(results.data(), results.size());
  const uint64_t hash = call_hash(op, 0, types.data(), types.size(), attrs.hash());
  Values out = trace_->record(op, in, attrs, hash, view, where);
  trace_->follow().learn(op, attrs.dispatch_id(), types, view, hash);
  return out;
}

#ifdef ETUDE_ASSERTIONS
namespace {
// Compares the expected types of a call with its actual types.
void check_expected(const LazyExpected& e, const Op& op, const Attrs& attrs,
                    std::span<const Type* const> types) {
  Types want;
  if (op.def().data != nullptr) {
    want = infer_types(op, types, attrs);
  } else {
    DispatchEntry scratch;
    want = dispatch(op, attrs, types.data(), types.size(), scratch).prepared->results;
  }
  ETUDE_CHECK(std::ranges::equal(e.result_types(), want) && !has_effects(op, attrs) &&
                  e.hash == call_hash(op, 0, types.data(), types.size(), attrs.hash()),
              "an expected call of {} is not the call that came", op.name());
}
}  // namespace
#endif

bool LazyContext::follow(const Op& op, Operands in, const Attrs& attrs, CallSite where,
                         Values& out) {
  const uint32_t id = attrs.dispatch_id();
  if (!LazyExpected::can_hold(in.size(), id)) return false;
  std::array<const Type*, kDispatchOperands> types;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const TensorRep* rep = TensorAccess::rep(in[i]);
    types[i] = rep != nullptr ? rep->type : nullptr;
    if (rep == nullptr || rep->data != nullptr) continue;
    const PendingMark* mark = pending_mark(in[i]);
    if (mark == nullptr || !trace_->is_of(*mark)) return false;
  }
  const LazyExpected* expected = trace_->follow().next(op, id, types.data(), in.size());
  if (expected == nullptr) return false;
#ifdef ETUDE_ASSERTIONS
  check_expected(*expected, op, attrs, {types.data(), in.size()});
#endif
  out = trace_->record(op, in, attrs, expected->hash, expected->result_types(), where);
  return true;
}

Values LazyContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  if (Values out; follow(op, in, attrs, where, out)) {
    trace_->cut_if_long(options(), where);
    return out;
  }
  const OpDef& def = op.def();
  if (def.effect == Effect::kReads || def.effect == Effect::kWrites) {
    // The value of a Variable may be pending: a read and an assignment move handles.
    check_types(op, in, attrs);
    const ContextScope scope(eager_context(), where);
    return def.data(in, attrs);
  }
  // Programs of recorded calls run at home: calls of other devices observe their operands and run
  // at once.
  const Device device = device_of(op, in, attrs);
  if (!device.is_home() || op.moves_devices()) return run_now(op, in, attrs, where);
  if (def.data != nullptr && op.kernel(device.kind()) == nullptr) {
    return run_now(op, in, attrs, where);
  }
  if (op.is_composed(device)) return lower(op, in, attrs, *this, where);
  InlineVector<const Type*, 6> types;
  for (std::size_t i = 0; i < in.size(); ++i) {
    types.push_back(in[i].has_value() ? in[i].type() : nullptr);
    if (types.back() == nullptr || TensorAccess::has_elements(in[i])) continue;
    PendingMark* mark = pending_mark(in[i]);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, mark != nullptr, "{}: {}", operand_text(op, i),
                       explain_abstract(in[i]));
    if (!trace_->is_of(*mark)) mark->compute(where);
  }
  // Defaults have no graphs, whose nodes could have effects.
  const bool is_plain = def.effect == Effect::kNone && attrs.dispatch_id() == 0;
  if (!is_plain && has_effects(op, attrs)) return run_now(op, in, attrs, where);
  Values out = record(op, in, attrs, {types.data(), types.size()}, where);
  trace_->cut_if_long(options(), where);
  return out;
}

// The context of this thread; null if the thread was never lazy.
thread_local constinit LazyContext* context = nullptr;
struct ContextEnd {
  bool is_armed = false;
  ~ContextEnd() {
    delete context;
    context = nullptr;
  }
};
thread_local ContextEnd context_end;

bool begin_lazy() {
  if (EnclosingTrace::innermost() != nullptr) return false;
  if (context == nullptr) {
    context = new LazyContext;
    context_end.is_armed = true;  // the first use makes the object, and so registers its destructor
  }
  if (context->is_on()) return false;
  context->enter();
  return true;
}

const bool kProgramIsLazy = [] {
  constexpr std::array<std::string_view, 2> kModes{"eager", "lazy"};
  return environment_choice("ETUDE_MODE", kModes) == 1;
}();

}  // namespace

void lazy_this_thread() {
  if (kProgramIsLazy && context == nullptr) begin_lazy();
}

void flush_lazy_counts() {
  if (context != nullptr) context->trace().flush_counts();
}

// In an init_scope() the context is on, and not on the stack.
LazyPause::LazyPause(CallSite where) : has_left_(is_lazy() && !ContextStack::is_on_eager()) {
  if (!has_left_) return;
  context->trace().run_all(LazyCut::kBarrier, where);
  context->leave();
}

LazyPause::~LazyPause() {
  if (has_left_) context->enter();
}

namespace {

// A scope in a lazy program joins the program's context, and does not end it.
bool begin_scope() {
  lazy_this_thread();
  return begin_lazy();
}

}  // namespace

}  // namespace internal

using internal::context;

LazyOptions lazy_options() { return internal::options(); }

void set_lazy_options(const LazyOptions& options) {
  internal::LazyPrograms::instance().clear([&] { internal::options() = options; });
}

LazyScope::LazyScope() : is_outermost_(internal::begin_scope()) {}

LazyScope::~LazyScope() {
  if (!is_outermost_) return;
  context->leave();
  try {
    context->trace().run_all(internal::LazyCut::kScope, {});
  } catch (...) {  // errors are thrown where their results are observed
  }
}

void lazy_barrier(const LazyBarrierOptions&, CallSite where) {
  if (context == nullptr) return;
  const auto error = context->trace().run_all(internal::LazyCut::kBarrier, where);
  if (error == nullptr) return;
  context->trace().restore_failed();
  throw Error(*error);
}

StepScope::~StepScope() noexcept(false) {
  if (std::uncaught_exceptions() == exceptions_) lazy_barrier({}, where_);
}

bool is_lazy() noexcept {
  return context != nullptr && context->is_on() && internal::EnclosingTrace::innermost() == nullptr;
}

bool is_pending(const Tensor& x) noexcept { return internal::is_unrun(x); }

int64_t pending_nodes() noexcept { return context != nullptr ? context->trace().size() : 0; }

std::string dump_pending() { return context != nullptr ? context->trace().to_text() : ""; }

}  // namespace etude
