// SPDX-License-Identifier: Apache-2.0
// The eager context and the fast path to it: a thread-local mode word of zero goes straight through
// the dispatch cache to the kernel.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "etude/base/check.h"
#include "etude/base/thread_object.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/located.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/context.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/infer.h"
#include "etude/core/internal/late_calls.h"
#include "etude/core/internal/mode.h"
#include "etude/core/internal/traced.h"
#include "etude/core/op/promotion.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/eager/cancel.h"
#include "etude/eager/dispatch.h"
#include "etude/eager/profiler.h"
#include "etude/graph/graph.h"

namespace etude {
namespace internal {
namespace {

// The latest fault of a kernel on this thread.
struct Fault {
  std::unique_ptr<Error> error;
};

// Copies the data that a call needs from its prepared form.
void load(DispatchEntry& entry, const RefPtr<Prepared>& prepared) {
  entry.prepared = prepared;
  const Prepared& p = *prepared;
  const bool plain = p.run != nullptr && p.results.size() == 1 && p.view_of < 0 && !is_queued(p);
  entry.run = plain ? p.run : nullptr;
  entry.state = p.state;
  entry.result = plain ? p.results[0] : nullptr;
  entry.in_place = p.in_place;
}

void fill(DispatchEntry& entry, const Op& op, const Attrs& attrs, const Type* const* types,
          std::size_t size) {
  entry.op = nullptr;  // if preparing throws, the slot stays empty
  load(entry, prepare(op, attrs, {types, size}));
  entry.set(op, attrs.dispatch_id(), types, size);
}

// The storage of operand i for a result, if the operand expires and has no other owner.
std::optional<Tensor> take_over(Operands in, std::size_t i) {
  if (((in.expiring() >> i) & 1) == 0) return std::nullopt;
  // The operand expires, so writing through its const view is allowed.
  Tensor& given = const_cast<Tensor&>(in[i]);
  if (!TensorAccess::is_unique(given)) {
    if (pending_mark(given) == nullptr) return std::nullopt;
    settle(given);
    if (!TensorAccess::is_unique(given)) return std::nullopt;
  }
  Tensor out = std::move(given);
  TensorAccess::forget_id(out);
  count_copy_avoided();
  return out;
}

// A result over the first expiring operand that allows it, else a new one.
Tensor make_result(const Type* type, uint64_t in_place, Operands in) {
  const uint64_t usable = in_place & in.expiring();
  for (std::size_t i = 0; i < in.size() && (usable >> i) != 0; ++i) {
    if (((usable >> i) & 1) == 0) continue;
    if (std::optional<Tensor> out = take_over(in, i)) return *std::move(out);
  }
  return make_tensor(type);
}

// Inside a rule the fault belongs to a step, which place_error() names.
[[noreturn, gnu::cold]] void throw_fault_of(const Op& op, const Attrs& attrs) {
  if (is_inside_rule()) throw_fault();
  throw_fault(op, attrs);
}

// One result; `data` are the elements of the operands.
void run_plain(const Op& op, const Attrs& attrs, const DispatchEntry& entry, Operands in,
               const void* const* data, Values& out) {
  const Tensor& y = out.emplace_back(make_result(entry.result, entry.in_place, in));
  void* to[] = {TensorAccess::rep(y)->data};
  const FloatModeScope float_mode;
  if (!entry.run({entry.state, to, data})) throw_fault_of(op, attrs);
}

Values run_prepared(const Op& op, const Attrs& attrs, const Prepared& p, Operands in,
                    CallSite where = {}) {
  Values out;
  if (p.view_of >= 0) {
    out.push_back(with_type(in[static_cast<std::size_t>(p.view_of)], p.results[0], p.view_offset));
    return out;
  }
  InlineVector<const void*, 6> data;
  for (std::size_t i = 0; i < in.size(); ++i) {
    data.push_back(in[i].has_value() ? TensorAccess::data(in[i]) : nullptr);
  }
  InlineVector<void*, 4> to;
  // A call that fails late must not have taken the memory of an operand.
  const bool may_take = p.never_faults || !is_queued(p);
  if (may_take && p.results.size() == 1 && p.results_over.empty()) {
    out.push_back(make_result(p.results[0], p.in_place, in));
    to.push_back(TensorAccess::rep(out[0])->data);
  }
  for (std::size_t r = out.size(); r < p.results.size(); ++r) {
    const int over = may_take && r < p.results_over.size() ? p.results_over[r] : -1;
    std::optional<Tensor> taken;
    if (over >= 0) taken = take_over(in, static_cast<std::size_t>(over));
    out.push_back(taken ? *std::move(taken) : make_tensor(p.results[r]));
    to.push_back(TensorAccess::rep(out.back())->data);
  }
  std::optional<LateCallScope> late;
  if (is_queued(p)) late.emplace(make_ref<LateCall>(op, attrs, where));
  const FloatModeScope float_mode;
  if (!p.run({p.state, to.data(), data.data()})) throw_fault_of(op, attrs);
  return out;
}

class EagerContext final : public Context {
 public:
  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    if ((mode_word & (kModeProfile | kModeCancel)) == 0) [[likely]]
      return run(op, in, attrs, where);
    ETUDE_REQUIRE_CODE(kCancelled, !is_cancelled(), "{}", kCancelledText);
    if ((mode_word & kModeProfile) == 0) return run(op, in, attrs, where);
    ProfiledCall call(op, in, where);
    Values out = run(op, in, attrs, where);
    call.ended_with(out);
    return out;
  }

 private:
  Values run(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
    Values out;
    if (!run_cached(op, in, attrs, out)) out = run_anew(op, in, attrs, where);
    if (!out.empty() && out[0].has_value() && !out[0].type()->device().is_home()) {
      for (const Tensor& y : out) note_line(y, where);
    }
    return out;
  }

  // Separate from run(): most calls leave run() before they need such a large frame.
  [[gnu::noinline]] Values run_anew(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
    // Pending calls that an operand waits for, of this thread or another, run now.
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].has_value() && is_unrun(in[i])) observe(in[i], where);
    }
    if (op.def().data != nullptr) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (!in[i].has_value() || TensorAccess::has_elements(in[i])) continue;
        if (!is_resource(in[i])) throw_abstract(op, i, in[i]);
      }
      check_types(op, in, attrs);
      const ContextScope scope(*this, where);
      return run_data_rule(op, in, attrs);
    }
    if (op.is_composed(device_of(op, in, attrs))) return lower(op, in, attrs, *this, where);
    InlineVector<const Type*, 6> types;
    for (std::size_t i = 0; i < in.size(); ++i) {
      types.push_back(in[i].has_value() ? in[i].type() : nullptr);
      if (types.back() != nullptr && !TensorAccess::has_elements(in[i]))
        throw_abstract(op, i, in[i]);
    }
    DispatchEntry scratch;
    const DispatchEntry& entry = dispatch(op, attrs, types.data(), types.size(), scratch);
    if (entry.run == nullptr) return run_prepared(op, attrs, *entry.prepared, in, where);
    InlineVector<const void*, 6> data;
    for (std::size_t i = 0; i < in.size(); ++i) {
      data.push_back(in[i].has_value() ? TensorAccess::data(in[i]) : nullptr);
    }
    Values out;
    run_plain(op, attrs, entry, in, data.data(), out);
    return out;
  }

  // A data rule reads elements on the host: operands of other devices are copied there, and the
  // results back. Plans of graphs run on their own devices.
  static Values run_data_rule(const Op& op, Operands in, const Attrs& attrs) {
    const Device device = device_of(op, in, attrs);
    if (device.is_home() || holds_graphs(op) || op.def().effect != Effect::kNone) {
      return op.def().data(in, attrs);
    }
    InlineVector<Tensor, 4> held;
    for (std::size_t i = 0; i < in.size(); ++i) {
      held.push_back(in[i].has_value() ? at_home(in[i]) : Tensor());
    }
    OperandList list;
    for (const Tensor& x : held) list.add(x);
    Values out = op.def().data(list.view(), attrs);
    for (Tensor& y : out) y = copied_to(y, device);
    return out;
  }

  [[noreturn]] static void throw_abstract(const Op& op, std::size_t i, const Tensor& x) {
    ETUDE_THROW(kFailedPrecondition, "{}: {}", operand_text(op, i), explain_abstract(x));
  }
};

// Host numbers among the operands become tensors of the dtype in which the tensors and they meet.
DType dtype_for_numbers(const Op& op, std::span<const Arg* const> args) {
  std::optional<DType> dtype;
  bool real = false, boolean = true;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!op.operand(i).dtypes.empty()) continue;
    const Tensor* tensor = args[i]->tensor();
    if (tensor == nullptr) {
      real = real || args[i]->kind() == Arg::Kind::kReal;
      boolean = boolean && args[i]->kind() == Arg::Kind::kBool;
    } else if (tensor->has_value()) {
      if (!dtype) dtype = tensor->dtype();
      dtype = meeting_dtype(*dtype, tensor->dtype(), op.def().casts_integers).value_or(*dtype);
    }
  }
  if (!dtype) {
    dtype = real ? ambient().default_dtype : boolean ? kBool : kInt32;
  } else if (!boolean) {
    dtype = dtype_with_number(*dtype, real);
  }
  return op.def().casts_integers ? floating_for(*dtype) : *dtype;
}

Tensor adapt_for(const Op& op, std::size_t i, const Arg& arg, DType dtype) {
  if (!op.operand(i).dtypes.empty()) return materialize(arg);
  try {
    return adapt(arg, dtype);
  } catch (Error& error) {
    ETUDE_THROW(kInvalidArgument, "{}: {}", operand_text(op, i), error.what());
  }
}

// Fills in the kernel of a call on the device. Returns false if there is none.
bool prepare_on(Device device, const PrepareCall& call) {
  const DeviceEntry& entry = device_entry(device);
  // A kernel that runs graphs is host code on all devices: it runs plans, whose steps are there.
  const bool is_host_code = call.op.moves_devices() || holds_graphs(call.op);
  if (entry.prepare != nullptr && !is_host_code) return entry.prepare(call);
  const bool has_own = entry.prepare == nullptr || call.op.moves_devices();
  const PrepareRule rule = call.op.kernel(has_own ? entry.kind : Device::Kind::kCpu);
  if (rule == nullptr) return false;
  rule(call);
  return true;
}

}  // namespace

RefPtr<Prepared> prepare(const Op& op, const Attrs& attrs, std::span<const Type* const> types) {
  auto prepared = make_ref<Prepared>();
  prepared->results = infer_types(op, types, attrs);
  for (const Type* type : prepared->results) {
    ETUDE_REQUIRE(type->count() != kAny,
                  "the result would be {}, whose size is not known. Sizes are 0 or more",
                  type->to_string());
  }
  const Device device = device_of(op, types, attrs);
  if (!prepare_on(device, {op, types, attrs, *prepared})) {
    ETUDE_THROW(kUnimplemented, "has no kernel on {}. Give it operands on {}, where kernels run",
                device.to_string(), Device().to_string());
  }
  const auto is_empty = [](const Type* type) { return type == nullptr || type->count() == 0; };
  if (prepared->run != nullptr && std::ranges::all_of(types, is_empty) &&
      std::ranges::all_of(prepared->results, is_empty) && !has_effects(op, attrs)) {
    // Nothing to read and nothing to write. The other axes may be huge: no kernel walks them.
    prepared->run = [](const KernelCall&) { return true; };
  }
  return prepared;
}

void throw_fault() {
  const std::unique_ptr<Error> taken = std::move(ThreadObject<Fault>::get().error);
  ETUDE_CHECK(taken != nullptr, "a kernel failed without a reason");
  throw Error(*taken);
}

void throw_fault(const Op& op, const Attrs& attrs) {
  try {
    throw_fault();
  } catch (Error& error) {
    if (const std::string_view attr = op.def().works_for; !attr.empty()) {
      error.name_op(attrs.text(attr));
    }
    throw;
  }
}

bool report_error(const Error& error) {
  ThreadObject<Fault>::get().error = std::make_unique<Error>(error);
  return false;
}

const DispatchEntry& dispatch(const Op& op, const Attrs& attrs, const Type* const* types,
                              std::size_t size, DispatchEntry& scratch) {
  const uint32_t id = attrs.dispatch_id();
  if (!DispatchEntry::can_hold(size, id)) {
    load(scratch, prepare(op, attrs, {types, size}));
    return scratch;
  }
  const auto holds = [&](const DispatchEntry& entry) { return entry.holds(op, id, types, size); };
  const auto [entry, is_known] = DispatchTable::find(call_hash(op, id, types, size), holds);
  if (!is_known) fill(entry, op, attrs, types, size);
  return entry;
}

bool run_cached(const Op& op, Operands in, const Attrs& attrs, Values& out) {
  const uint32_t id = attrs.dispatch_id();
  if (!DispatchEntry::can_hold(in.size(), id)) return false;
  const Type* types[kDispatchOperands];
  const void* data[kDispatchOperands];
  for (std::size_t i = 0; i < in.size(); ++i) {
    const TensorRep* rep = TensorAccess::rep(in[i]);
    data[i] = rep != nullptr ? static_cast<const void*>(rep->data) : nullptr;
    if (rep != nullptr && data[i] == nullptr) return false;  // an abstract tensor, or slices
    types[i] = rep != nullptr ? rep->type : nullptr;
  }
  const DispatchEntry& entry = latest_entry(op, id, types, in.size());
  if (!entry.holds(op, id, types, in.size())) return false;
  if (entry.run != nullptr) {
    run_plain(op, attrs, entry, in, data, out);
  } else {
    if (is_queued(*entry.prepared)) return false;  // its note needs the user's line
    out = run_prepared(op, attrs, *entry.prepared, in);
  }
  return true;
}

namespace {

// A call of N tensors with default attributes; absent if an operand is a host number. It repeats
// run_cached() with constants for N, since small calls spend their time there.
template <std::size_t N>
[[gnu::always_inline]] inline Tensor call_tensors(const Op& op,
                                                  const std::array<const Arg*, N>& args) {
  const Tensor* in[N];
  uint64_t expiring = 0;
  for (std::size_t i = 0; i < N; ++i) {
    in[i] = args[i]->tensor();
    if (in[i] == nullptr) return {};
    expiring |= (args[i]->is_expiring() ? uint64_t{1} : 0) << i;
  }
  const Operands operands(in, N, expiring);
  const CallSite where = args[0]->where();
  if (mode_word != 0) return only(execute(op, operands, op.default_attrs(), where));
  const Type* types[N];
  const void* data[N];
  bool has_data = true;
  for (std::size_t i = 0; i < N; ++i) {
    const TensorRep* rep = TensorAccess::rep(*in[i]);
    if (rep == nullptr) return only(execute(op, operands, op.default_attrs(), where));
    types[i] = rep->type;
    data[i] = rep->data;
    has_data = has_data && data[i] != nullptr;
  }
  const DispatchEntry& entry = latest_entry(op, 0, types, N);
  if (!has_data || entry.run == nullptr || !entry.holds(op, 0, types, N)) {
    return only(execute(op, operands, op.default_attrs(), where));
  }
  return located(op, where, [&] {
    Tensor out = make_result(entry.result, entry.in_place, operands);
    void* to[] = {TensorAccess::rep(out)->data};
    const FloatModeScope float_mode;
    if (!entry.run({entry.state, to, data})) throw_fault();
    return out;
  });
}

// Host numbers among the operands, as tensors.
InlineVector<Tensor, 4> adapt_numbers(const Op& op, std::span<const Arg* const> args,
                                      CallSite where) {
  InlineVector<Tensor, 4> numbers;
  located(op, where, [&] {
    const DType dtype = dtype_for_numbers(op, args);
    OperandList tensors;
    const Tensor absent;
    for (const Arg* arg : args) tensors.add(arg->tensor() != nullptr ? *arg->tensor() : absent);
    const Device device = device_for_numbers(op, tensors.view());
    for (std::size_t i = 0; i < args.size(); ++i) {
      Tensor number;
      if (args[i]->tensor() == nullptr) number = adapt_for(op, i, *args[i], dtype);
      const bool moves = !device.is_home() && number.has_value() && !op.operand(i).on_host;
      // A number that a derivative tracks is moved by a call, which the derivative sees.
      const bool is_followed = moves && args[i]->followed().has_value();
      if (is_followed) number = moved(number, device, where);
      if (moves && !is_followed) number = copied_to(number, device);
      numbers.push_back(std::move(number));
    }
  });
  return numbers;
}

}  // namespace

Tensor call1(const Op& op, const Arg& x) {
  const std::array<const Arg*, 1> args = {&x};
  Tensor out = call_tensors(op, args);
  if (out.has_value()) return out;
  return only(call(op, args, {}, x.where()));
}

Tensor call2(const Op& op, const Arg& x, const Arg& y) {
  const std::array<const Arg*, 2> args = {&x, &y};
  Tensor out = call_tensors(op, args);
  if (out.has_value()) return out;
  return only(call(op, args, {}, x.where()));
}

Values call(const Op& op, std::span<const Arg* const> args, std::initializer_list<AttrView> attrs,
            CallSite where) {
  const bool has_numbers = std::any_of(args.begin(), args.end(),
                                       [](const Arg* arg) { return arg->tensor() == nullptr; });
  InlineVector<Tensor, 4> numbers;
  if (has_numbers) numbers = adapt_numbers(op, args, where);
  OperandList list;
  uint64_t expiring = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Tensor* tensor = args[i]->tensor();
    list.add(tensor != nullptr ? *tensor : numbers[i]);
    if (tensor == nullptr || args[i]->is_expiring()) expiring |= uint64_t{1} << i;
  }
  return located(op, where,
                 [&] { return execute(op, list.view(expiring), op.attrs(attrs), where); });
}

Values call_list(const Op& op, std::span<const Tensor> operands,
                 std::initializer_list<AttrView> attrs, CallSite where) {
  const OperandList list(operands);
  return located(op, where, [&] { return execute(op, list.view(), op.attrs(attrs), where); });
}

}  // namespace internal

Context& eager_context() {
  static internal::EagerContext* context = new internal::EagerContext;  // outlives static tensors
  return *context;
}

bool report_fault(ErrorCode code, std::string message) {
  return internal::report_error(Error(code, std::move(message)));
}

}  // namespace etude
