// SPDX-License-Identifier: Apache-2.0
// Results of single calls: types, bits, references, threads, in place.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "etude/core/internal/convert.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/device/cpu/parallel.h"
#include "tests/ops/checks.h"
#include "tests/ops/reference.h"
#include "tests/same_numbers.h"

namespace etude::matrix {
namespace {

std::vector<double> numeric_params(const Attrs& attrs) {
  std::vector<double> out;
  for (const AttrValue& value : attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) out.push_back(*number);
    if (const auto* list = std::get_if<std::vector<double>>(&value)) out = *list;
  }
  return out;
}

// The scalar program that a call computes: its record's, or the one among its attributes.
const scalar::Program* program_of(const Call& call) {
  for (const AttrValue& value : call.attrs.values()) {
    if (const auto* def = std::get_if<const ScalarDef*>(&value)) return (*def)->program;
  }
  return call.op->def().scalar.program;
}

// Memory for a kernel, with bytes on both sides that must stay as they are.
class Guarded {
 public:
  explicit Guarded(int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        memory_((bytes_ + 3 * kGuard + 63) / 64 * 64, kPattern) {}
  unsigned char* data() {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    return memory_.data() + kGuard + (64 - at % 64) % 64;  // aligned as tensors are
  }
  bool is_intact() const {
    const unsigned char* begin = const_cast<Guarded*>(this)->data();
    const auto front = static_cast<std::size_t>(begin - memory_.data());
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= front && i < front + bytes_;
      if (!inside && memory_[i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xA5;
  std::size_t bytes_;
  std::vector<unsigned char> memory_;
};

// Whether the operands have dtypes that need no cast on the way to the kernel.
bool fits_record(const Call& call) {
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Tensor& x = call.operands[i];
    if (x.has_value() && !call.op->operand_dtypes(i).contains(x.dtype())) return false;
  }
  return true;
}

void compare_all(const Call& call, std::string_view mode, const Values& got, const Values& want,
                 bool (*same)(const Tensor&, const Tensor&) = same_bits) {
  expect(got.size() == want.size(), call.label(mode),
         [&] { return fmt::format("got {} results, want {}", got.size(), want.size()); });
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    expect(same(got[i], want[i]), call.label(mode), [&] {
      return fmt::format("result {}: got {}, want {}", i, show(got[i]), show(want[i]));
    });
  }
}

void check_types(const Call& call, const Values& y) {
  if (call.op->def().data != nullptr) return;  // shapes that depend on data
  Types operands;
  for (const Tensor& x : call.operands) operands.push_back(x.has_value() ? x.type() : nullptr);
  if (!fits_record(call)) return;  // inference sees operands after promotion
  const Types types = infer_types(*call.op, {operands.data(), operands.size()}, call.attrs);
  for (std::size_t i = 0; i < y.size(); ++i) {
    expect(i < types.size() && y[i].type() == types[i], call.label("types"), [&] {
      return fmt::format("result {} is {}, but {} was inferred", i, y[i].type()->to_string(),
                         i < types.size() ? types[i]->to_string() : "nothing");
    });
  }
}

}  // namespace

void check_eager(const Call& call) {
  const Values y = run(call);
  check_types(call, y);
  compare_all(call, "again", run(call), y);
  // Donated operands may be overwritten, and nothing else may change.
  Call given = call;
  for (Tensor& x : given.operands) x = deep_copy(x);
  compare_all(call, "in place",
              execute(*call.op, given.list().view(~uint64_t{0}), call.attrs, CallSite::here()), y);
  const bool twice = call.op->def().lower != nullptr && call.op->kernel(Device().kind()) != nullptr;
  if (twice) {
    const ContextScope scope(eager_context(), CallSite::here());
    compare_all(call, "lowered", call.op->def().lower(call.list().view(), call.attrs), y,
                etude::tests::same_numbers);
  }
}

void check_guards(const Call& call) {
  const PrepareRule rule = call.op->kernel(Device().kind());
  if (rule == nullptr || call.op->def().data != nullptr) return;
  Prepared prepared;
  Types types;
  for (const Tensor& x : call.operands) types.push_back(x.has_value() ? x.type() : nullptr);
  if (!fits_record(call)) return;
  prepared.results = infer_types(*call.op, {types.data(), types.size()}, call.attrs);
  rule({*call.op, {types.data(), types.size()}, call.attrs, prepared});
  const auto is_empty = [](const Type* type) { return type == nullptr || type->count() == 0; };
  const bool nothing = std::ranges::all_of(types, is_empty) &&
                       std::ranges::all_of(prepared.results, is_empty);  // such calls run no kernel
  if (prepared.run == nullptr || nothing) return;
  std::vector<Guarded> in, out;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Tensor& x : call.operands) {
    in.emplace_back(x.has_value() ? x.nbytes() : 0);
    if (x.has_value() && x.nbytes() > 0)
      std::memcpy(in.back().data(), TensorAccess::data(x), static_cast<std::size_t>(x.nbytes()));
  }
  for (const Type* type : prepared.results) out.emplace_back(type->bytes());
  for (std::size_t i = 0; i < in.size(); ++i)
    from.push_back(call.operands[i].has_value() ? in[i].data() : nullptr);
  for (Guarded& g : out) to.push_back(g.data());
  const FloatModeScope float_mode;
  if (!prepared.run({prepared.state, to.data(), from.data()})) return;
  for (std::size_t i = 0; i < out.size() + in.size(); ++i) {
    const Guarded& g = i < out.size() ? out[i] : in[i - out.size()];
    expect(g.is_intact(), call.label("guards"), [&] {
      return fmt::format("the kernel wrote beside {} {}", i < out.size() ? "result" : "operand",
                         i < out.size() ? i : i - out.size());
    });
  }
}

void check_reference(const Call& call) {
  const scalar::Program* program = program_of(call);
  if (program == nullptr) return;
  const Values y = run(call);
  const Expected want = evaluate(*program, call.operands, numeric_params(call.attrs), y[0].shape());
  // A program among the attributes has no bound of its own; each of its functions has.
  const double ulp = call.op->def().scalar.program != nullptr ? call.op->def().samples.ulp : 256;
  const std::string difference = compare(y[0], want, ulp);
  expect(difference.empty(), call.label("eager"), [&] { return difference; });
}

void check_special(const Op& op, DType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, kInf, -kInf, std::nan("")};
  if (op.def().kind != Kind::kElementwise || !is_floating(dtype)) return;
  int64_t count = 1;
  for (std::size_t i = 0; i < op.arity(); ++i) count *= static_cast<int64_t>(special.size());
  std::vector<Call> calls = calls_of(op, dtype);
  if (calls.empty()) return;
  Call call = std::move(calls[0]);
  call.operands.clear();
  int64_t step = 1;
  for (std::size_t i = 0; i < op.arity(); ++i) {
    std::vector<double> values;
    for (int64_t k = 0; k < count; ++k)
      values.push_back(special[static_cast<std::size_t>(k / step) % special.size()]);
    step *= static_cast<int64_t>(special.size());
    const bool is_bool = op.operand(i).dtypes == DTypeSet(kBool);
    Tensor x = internal::make_tensor(intern_type(is_bool ? kBool : dtype, {count}));
    internal::convert_elements(TensorAccess::writable(x), x.dtype(), values.data(), kFloat64,
                               count);
    call.operands.push_back(x);
  }
  const Values y = run(call);
  const Expected want =
      evaluate(*op.def().scalar.program, call.operands, numeric_params(call.attrs), y[0].shape());
  const std::string difference = compare(y[0], want, op.def().samples.ulp);
  expect(difference.empty(), call.label("special values"), [&] { return difference; });
}

void check_threads(const Call& call) {
  set_thread_count(1);
  const Values one = run(call);
  for (const int threads : {2, 7}) {
    set_thread_count(threads);
    compare_all(call, threads == 2 ? "2 threads" : "7 threads", run(call), one);
  }
  set_thread_count(0);  // the default
}

void check_large(const Op& op, DType dtype) {
  if (op.def().kind != Kind::kElementwise) return;
  std::vector<Call> calls = calls_of(op, dtype);
  if (calls.empty()) return;
  Call call = std::move(calls[0]);
  Draw draw(call.label("large"));
  std::vector<Tensor> large;
  for (std::size_t i = 0; i < op.arity(); ++i) {
    const auto& ranges = op.def().samples.ranges;
    const DType own = op.operand(i).dtypes.empty() ? dtype : call.operands[i].dtype();
    const Shape shape = i == 1 ? Shape{70001} : Shape{2, 70001};
    large.push_back(draw_tensor(draw, intern_type(own, shape),
                                i < ranges.size() ? ranges[i] : std::pair(-2.0, 2.0), {}));
  }
  call.operands = std::move(large);
  check_threads(call);
}

void check_shared(const Call& call) {
  if (!call.is_same_tensor) return;
  Call apart = call;
  for (Tensor& x : apart.operands) x = deep_copy(x);
  const Values together = run(call), separate = run(apart);
  compare_all(call, "one tensor for all operands", together, separate);
  if (!call.op->is_differentiable() || !is_smooth(together[0]) ||
      !may_move(call, call.operands.size() - 1))
    return;
  const std::vector<Tensor> seeds = cotangents(call, together);
  const std::vector<Tensor> g = gradients(call, seeds), parts = gradients(apart, seeds);
  std::vector<std::complex<double>> want(static_cast<std::size_t>(call.operands.back().size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].has_value()) continue;
    const auto part = numbers(parts[i]);
    for (std::size_t k = 0; k < want.size(); ++k) want[k] += part[k];
  }
  if (!g.back().has_value()) return;
  const auto got = numbers(g.back());
  const double eps = real_dtype(call.dtype) == kFloat64   ? 1e-12
                     : real_dtype(call.dtype) == kFloat32 ? 1e-4
                                                          : 0.1;
  for (std::size_t k = 0; k < want.size(); ++k) {
    expect(std::abs(got[k] - want[k]) <= eps * (1 + std::abs(want[k])),
           call.label("gradient of a shared operand"), [&] {
             return fmt::format("element {}: got {}, want {}", k, got[k].real(), want[k].real());
           });
  }
}

}  // namespace etude::matrix
