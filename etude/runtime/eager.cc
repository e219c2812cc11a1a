// SPDX-License-Identifier: Apache-2.0
// The eager context and the fast path to it: a thread-local mode word of zero goes straight through
// the dispatch cache to the kernel.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/core/context.h"
#include "etude/core/infer.h"
#include "etude/core/mode.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/runtime/dispatch.h"

namespace etude {
namespace internal {
namespace {

struct Fault {
  ErrorCode code;
  std::string message;
};
thread_local std::unique_ptr<Fault> fault;

PrepareRule kernel_of(const Op& op) {
  if (op.def().kernel != nullptr) return op.def().kernel;
  return op.def().kind == Kind::kElementwise ? op.def().scalar.prepare : nullptr;
}

RefPtr<Prepared> prepare(const Op& op, const Attrs& attrs, std::span<const Type* const> types) {
  auto prepared = make_ref<Prepared>();
  prepared->results = infer_types(op, types, attrs);
  for (const Type* type : prepared->results) {
    ETUDE_REQUIRE(type->count() != kAny,
                  "the result would be {}, whose size is not known. Sizes are 0 or more",
                  type->to_string());
  }
  const PrepareRule rule = kernel_of(op);
  ETUDE_REQUIRE_CODE(kUnimplemented, rule != nullptr, "has no kernel on cpu");
  rule({op, types, attrs, *prepared});
  const auto is_empty = [](const Type* type) { return type == nullptr || type->count() == 0; };
  if (prepared->run != nullptr && std::ranges::all_of(types, is_empty) &&
      std::ranges::all_of(prepared->results, is_empty)) {
    // Nothing to read and nothing to write. The other axes may be huge: no kernel walks them.
    prepared->run = [](const KernelCall&) { return true; };
  }
  return prepared;
}

// What running a call needs, from its prepared form.
void load(DispatchEntry& entry, const RefPtr<Prepared>& prepared) {
  entry.prepared = prepared;
  const Prepared& p = *prepared;
  const bool plain = p.run != nullptr && p.results.size() == 1 && p.view_of < 0;
  entry.run = plain ? p.run : nullptr;
  entry.params = p.params;
  entry.result = plain ? p.results[0] : nullptr;
  entry.in_place = p.in_place;
}

void fill(DispatchEntry& entry, const Op& op, const Attrs& attrs, const Type* const* types,
          std::size_t size) {
  entry.op = nullptr;  // if preparing throws, the slot stays empty
  load(entry, prepare(op, attrs, {types, size}));
  entry.attrs = attrs.dispatch_id();
  entry.size = static_cast<uint32_t>(size);
  std::copy_n(types, size, entry.types.begin());
  entry.op = &op;
}

[[noreturn]] void throw_fault() {
  ETUDE_CHECK(fault != nullptr, "a kernel failed without a reason");
  const std::unique_ptr<Fault> taken = std::move(fault);
  throw Error(taken->code, taken->message);
}

// The storage of operand i for a result, if the caller gave it away and nobody else sees it.
std::optional<Tensor> take_over(Operands in, std::size_t i) {
  if (((in.expiring() >> i) & 1) == 0 || !TensorAccess::is_unique(in[i])) return std::nullopt;
  // The caller gave this operand away, so writing through its const view is what it asked for.
  Tensor out = std::move(const_cast<Tensor&>(in[i]));
  TensorAccess::forget_id(out);
  count_copy_avoided();
  return out;
}

// A result over the first expiring operand that allows it, else a new one.
Tensor make_result(const DispatchEntry& entry, Operands in) {
  const uint64_t usable = entry.in_place & in.expiring();
  for (std::size_t i = 0; i < in.size() && (usable >> i) != 0; ++i) {
    if (((usable >> i) & 1) == 0) continue;
    if (std::optional<Tensor> out = take_over(in, i)) return *std::move(out);
  }
  return make_tensor(entry.result);
}

// A call that was found in the cache without going through execute(), with the same errors. A
// failed call is not tried again: its operands may have been given away already.
inline Tensor run_cached(const Op& op, const DispatchEntry& entry, Operands in,
                         const void* const* data, CallSite where) {
  try {
    Tensor out = make_result(entry, in);
    void* to[] = {TensorAccess::rep(out)->data};
    const FloatModeScope float_mode;
    if (!entry.run({to, data, entry.params})) throw_fault();
    return out;
  } catch (Error& error) {
    if (!is_inside_rule()) {
      error.name_op(op.name());
      error.locate(where);
    }
    throw;
  } catch (const std::bad_alloc&) {
    Error error(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
    error.name_op(op.name());
    error.locate(where);
    throw error;
  }
}

Values run_plain(const DispatchEntry& entry, Operands in) {
  InlineVector<const void*, 6> data;
  for (std::size_t i = 0; i < in.size(); ++i) {
    data.push_back(in[i].has_value() ? TensorAccess::data(in[i]) : nullptr);
  }
  Values out;
  out.push_back(make_result(entry, in));
  void* to[] = {TensorAccess::rep(out[0])->data};
  const FloatModeScope float_mode;
  if (!entry.run({to, data.data(), entry.params})) throw_fault();
  return out;
}

Values run_prepared(const Prepared& p, Operands in) {
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
  for (std::size_t r = 0; r < p.results.size(); ++r) {
    const int over = r < p.results_over.size() ? p.results_over[r] : -1;
    std::optional<Tensor> taken;
    if (over >= 0) taken = take_over(in, static_cast<std::size_t>(over));
    out.push_back(taken ? *std::move(taken) : make_tensor(p.results[r]));
    to.push_back(TensorAccess::rep(out.back())->data);
  }
  const FloatModeScope float_mode;
  if (!p.run({to.data(), data.data(), p.params})) throw_fault();
  return out;
}

class EagerContext final : public Context {
 public:
  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    if (op.def().data != nullptr) {
      check_types(op, in, attrs);
      const ContextScope scope(*this, where);
      return op.def().data(in, attrs);
    }
    if (kernel_of(op) == nullptr && op.def().lower != nullptr) {
      return lower(op, in, attrs, *this, where);
    }
    InlineVector<const Type*, 6> types;
    for (std::size_t i = 0; i < in.size(); ++i) {
      types.push_back(in[i].has_value() ? in[i].type() : nullptr);
      if (types.back() != nullptr && TensorAccess::data(in[i]) == nullptr)
        throw_ghost(op, i, in[i]);
    }
    DispatchEntry scratch;
    const DispatchEntry& entry = dispatch(op, attrs, types.data(), types.size(), scratch);
    return entry.run != nullptr ? run_plain(entry, in) : run_prepared(*entry.prepared, in);
  }

 private:
  [[noreturn]] static void throw_ghost(const Op& op, std::size_t i, const Tensor& x) {
    ETUDE_THROW(
        kFailedPrecondition,
        "operand '{}' of type {} has no value here: it stands for a call that has not run, or "
        "for a value that the gradient rule did not ask to keep",
        op.operand(i).name, x.type()->to_string());
  }
};

// A host number among the operands becomes a tensor of the dtype of the first tensor that shares
// it.
DType dtype_for_numbers(const Op& op, std::span<const Arg* const> args) {
  std::optional<DType> dtype;
  for (std::size_t i = 0; i < args.size() && !dtype; ++i) {
    const Tensor* tensor = args[i]->tensor();
    if (tensor != nullptr && tensor->has_value() && op.operand(i).dtypes.empty()) {
      dtype = tensor->dtype();
    }
  }
  if (!dtype) {
    bool real = false, boolean = true;
    for (const Arg* arg : args) {
      real = real || arg->kind() == Arg::Kind::kReal;
      boolean = boolean && arg->kind() == Arg::Kind::kBool;
    }
    dtype = real ? kFloat32 : boolean ? kBool : kInt32;
  }
  return op.def().casts_integers && is_integer(*dtype) ? kFloat32 : *dtype;
}

Tensor adapt_for(const Op& op, std::size_t i, const Arg& arg, DType dtype) {
  if (!op.operand(i).dtypes.empty()) return materialize(arg);
  try {
    return adapt(arg, dtype);
  } catch (Error& error) {
    ETUDE_THROW(kInvalidArgument, "operand '{}': {}", op.operand(i).name, error.what());
  }
}

}  // namespace

DispatchEntry* dispatch_table() {
  thread_local const std::unique_ptr<DispatchEntry[]> table(new DispatchEntry[kDispatchSlots]);
  return table.get();
}

const DispatchEntry& dispatch(const Op& op, const Attrs& attrs, const Type* const* types,
                              std::size_t size, DispatchEntry& scratch) {
  const bool cacheable =
      size <= kDispatchOperands && (attrs.dispatch_id() != 0 || attrs == op.default_attrs());
  if (!cacheable) {
    load(scratch, prepare(op, attrs, {types, size}));
    return scratch;
  }
  const uint32_t id = attrs.dispatch_id();
  DispatchEntry& entry = dispatch_table()[dispatch_slot(op, id, types, size)];
  const bool hit = entry.op == &op && entry.attrs == id && entry.size == size &&
                   std::equal(types, types + size, entry.types.begin());
  if (!hit) fill(entry, op, attrs, types, size);
  return entry;
}

Tensor call1(const Op& op, const Arg& x) {
  if (mode_word == 0 && x.tensor() != nullptr) {
    const TensorRep* a = TensorAccess::rep(*x.tensor());
    if (a != nullptr && a->data != nullptr) {
      const Type* types[] = {a->type};
      const DispatchEntry& entry = dispatch_table()[dispatch_slot(op, 0, types, 1)];
      if (entry.op == &op && entry.attrs == 0 && entry.size == 1 && entry.types[0] == types[0] &&
          entry.run != nullptr) {
        const Tensor* in[] = {x.tensor()};
        const void* data[] = {a->data};
        return run_cached(op, entry, {in, 1, x.is_expiring() ? 1u : 0u}, data, x.where());
      }
    }
  }
  const Arg* args[] = {&x};
  return only(call(op, args, op.default_attrs(), x.where()));
}

Tensor call2(const Op& op, const Arg& x, const Arg& y) {
  if (mode_word == 0 && x.tensor() != nullptr && y.tensor() != nullptr) {
    const TensorRep* a = TensorAccess::rep(*x.tensor());
    const TensorRep* b = TensorAccess::rep(*y.tensor());
    if (a != nullptr && b != nullptr && a->data != nullptr && b->data != nullptr) {
      const Type* types[] = {a->type, b->type};
      const DispatchEntry& entry = dispatch_table()[dispatch_slot(op, 0, types, 2)];
      if (entry.op == &op && entry.attrs == 0 && entry.size == 2 && entry.types[0] == types[0] &&
          entry.types[1] == types[1] && entry.run != nullptr) {
        const Tensor* in[] = {x.tensor(), y.tensor()};
        const void* data[] = {a->data, b->data};
        const uint64_t expiring = (x.is_expiring() ? 1u : 0u) | (y.is_expiring() ? 2u : 0u);
        return run_cached(op, entry, {in, 2, expiring}, data, x.where());
      }
    }
  }
  const Arg* args[] = {&x, &y};
  return only(call(op, args, op.default_attrs(), x.where()));
}

Values call(const Op& op, std::span<const Arg* const> args, const Attrs& attrs, CallSite where) {
  InlineVector<Tensor, 4> numbers;
  OperandList list;
  uint64_t expiring = 0;
  try {
    std::optional<DType> dtype;
    for (std::size_t i = 0; i < args.size(); ++i) {
      Tensor made;
      if (args[i]->tensor() == nullptr) {
        if (!dtype) dtype = dtype_for_numbers(op, args);
        made = adapt_for(op, i, *args[i], *dtype);
      }
      numbers.push_back(std::move(made));
    }
  } catch (Error& error) {
    error.name_op(op.name());
    error.locate(where);
    throw;
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Tensor* tensor = args[i]->tensor();
    list.add(tensor != nullptr ? *tensor : numbers[i]);
    if (tensor == nullptr || args[i]->is_expiring()) expiring |= uint64_t{1} << i;
  }
  return execute(op, list.view(expiring), attrs, where);
}

Values call_list(const Op& op, std::span<const Tensor> operands, const Attrs& attrs,
                 CallSite where) {
  const OperandList list(operands);
  return execute(op, list.view(), attrs, where);
}

}  // namespace internal

Context& eager_context() {
  static internal::EagerContext* context = new internal::EagerContext;  // outlives static tensors
  return *context;
}

bool report_fault(ErrorCode code, std::string message) {
  internal::fault = std::make_unique<internal::Fault>(internal::Fault{code, std::move(message)});
  return false;
}

}  // namespace etude
