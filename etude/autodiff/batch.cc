// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/batch.h"

#include <algorithm>
#include <numeric>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"

namespace etude {

BatchContext::BatchContext(int64_t size, Randomness randomness)
    : BatchContext(size, randomness, {}) {}
BatchContext::BatchContext(int64_t size, Randomness randomness, Batches batches)
    : size_(size), randomness_(randomness), batches_(std::move(batches)), keys_(this) {
  ContextStack::push(*this);
}
BatchContext::~BatchContext() { ContextStack::remove(*this); }

Tensor BatchContext::example_of(const Tensor& x) {
  if (!x.has_value()) return {};
  Tensor example = internal::make_abstract(batching::example_type(x.type()));
  batches_.set(TensorAccess::id(example), x);
  return example;
}

const Tensor* BatchContext::find(const Tensor& x) const {
  return x.has_value() ? batches_.find(TensorAccess::id_or_zero(x)) : nullptr;
}

Tensor BatchContext::batch_of(const Tensor& x) const {
  if (!x.has_value()) return {};
  const Tensor dense = to_dense(x);
  if (const Tensor* batch = find(dense)) return *batch;
  const ContextScope scope(*parent_, {});
  return batching::spread(dense, size_);
}

Tensor BatchContext::next_key() {
  if (randomness_ == Randomness::kError) return {};
  const ContextScope scope(*parent_, {});
  const Tensor key = keys_.outer_key();
  if (randomness_ == Randomness::kSame || !key.has_value()) return key;
  std::vector<int64_t> numbers(static_cast<std::size_t>(size_));
  std::iota(numbers.begin(), numbers.end(), 0);
  return example_of(internal::fold_in(key, Tensor(numbers)));
}

Values BatchContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  uint64_t batched = 0;
  Types types;
  for (std::size_t i = 0; i < in.size(); ++i) {
    types.push_back(in[i].has_value() ? in[i].type() : nullptr);
    if (find(in[i]) != nullptr) batched |= uint64_t{1} << std::min<std::size_t>(i, 63);
  }
  if (batched == 0) return parent_->execute(op, in, attrs, where);
  const OpDef& def = op.def();
  ETUDE_REQUIRE(def.effect == Effect::kNone || def.effect == Effect::kOutside,
                "a value that belongs to one example of a vmap cannot be assigned to a Variable, "
                "which is one for all. Assign after the vmap, or reduce over the batch first");
  if (def.batch == nullptr && def.lower != nullptr) return lower(op, in, attrs, *this, where);
  const Types results = infer_types(op, {types.data(), types.size()}, attrs);
  std::vector<Tensor> operands;
  uint64_t expiring = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor* batch = find(in[i]);
    const bool shares_bit = i >= 63 && (batched >> 63) != 0;  // all of them are batches then
    operands.push_back(batch != nullptr ? *batch : shares_bit ? batch_of(in[i]) : in[i]);
    const bool is_given = i < 32 && ((in.expiring() >> i) & 1) != 0 && batch != nullptr;
    if (is_given && TensorAccess::is_unique(in[i])) expiring |= uint64_t{1} << i;
  }
  for (std::size_t i = 0; (expiring >> i) != 0; ++i) {  // `operands` alone holds these batches
    if (((expiring >> i) & 1) != 0) batches_.forget(TensorAccess::id_or_zero(in[i]));
  }
  const OperandList list{std::span<const Tensor>(operands)};
  const BatchCall call{op, list.view(expiring), batched, size_, attrs};
  Values out;
  {
    const ContextScope scope(*parent_, where);
    out = run(call, {results.data(), results.size()});
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    // Without an axis in front it is the same for all examples.
    if (out[i].has_value() && out[i].rank() > results[i]->rank()) out[i] = example_of(out[i]);
  }
  return out;
}

Values BatchContext::run(const BatchCall& call, std::span<const Type* const> types) const {
  const OpDef& def = call.op.def();
  Values out;
  if (def.batch != nullptr) {
    out = def.batch(call);
  } else if (def.kind == Kind::kElementwise) {
    out = batching::aligned(call);
  }
  if (out.empty()) return one_by_one(call);
  ETUDE_CHECK(out.size() == types.size(),
              "the batching rule of {} returned {} results instead of {}", call.op.name(),
              out.size(), types.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (types[i] == nullptr && !out[i].has_value()) continue;  // an absent result
    const std::vector<int64_t> sizes = batching::behind(size_, types[i]->shape().sizes());
    const bool is_batch = out[i].shape() == Shape(sizes) && out[i].dtype() == types[i]->dtype();
    ETUDE_CHECK(is_batch || out[i].type() == types[i],
                "the batching rule of {} returned {}, but one example returns {}", call.op.name(),
                out[i].type()->to_string(), types[i]->to_string());
  }
  return out;
}

Values BatchContext::one_by_one(const BatchCall& call) const {
  internal::warn_once(fmt::format("vmap {}", call.op.name()),
                      fmt::format("vmap: {} has no rule for batches of these operands, so its "
                                  "{} examples run one by one",
                                  call.op.name(), size_));
  std::vector<Values> operands(call.in.size());
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.is_batched(i)) operands[i] = internal::unstack(call.in[i]);
  }
  std::vector<std::vector<Tensor>> rows;
  for (int64_t e = 0; e < size_; ++e) {
    OperandList list;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      list.add(call.is_batched(i) ? operands[i][static_cast<std::size_t>(e)] : call.in[i]);
    }
    Values out = etude::execute(call.op, list.view(), call.attrs, {});
    rows.resize(out.size());
    for (std::size_t r = 0; r < out.size(); ++r) {
      if (e > 0 && rows[r][0].shape() != out[r].shape()) {
        ETUDE_THROW(kInvalidArgument,
                    "vmap: the result has shape {} for example 0 and {} for example {}; a batch "
                    "needs equal shapes. Use where(), or call the function for each example",
                    rows[r][0].shape().to_string(), out[r].shape().to_string(), e);
      }
      rows[r].push_back(std::move(out[r]));
    }
  }
  Values out;
  for (const std::vector<Tensor>& row : rows) out.push_back(internal::stack(row));
  return out;
}

void internal::ToExamples::operator()(Variable& x) const {
  ETUDE_THROW(kInvalidArgument,
              "vmap: {} is among the arguments, but a Variable is not a batch of examples. Let the "
              "function read it, or pass its value",
              title_of(x));
}

void internal::CountExamples::operator()(const Tensor& x) {
  if (!x.has_value()) return;
  const auto fail = [&](std::string text) {
    throw_of("vmap", ErrorCode::kInvalidArgument, text, where);
  };
  if (x.rank() == 0) {
    fail(
        "an argument has a scalar, but every tensor needs the examples along axis 0. Let the "
        "function capture values that are the same for all of them");
  }
  const int64_t n = x.shape()[0];
  if (n == 0) fail("the batch has no examples, so that shapes of results are not known");
  if (size >= 0 && n != size) {
    fail(
        fmt::format("one tensor has {} examples along axis 0, and another has {}. Pass equally "
                    "many, or let the function capture values that are the same for all of them",
                    size, n));
  }
  size = n;
}

}  // namespace etude
