// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/recording.h"

#include "etude/base/check.h"
#include "etude/core/op.h"

namespace etude {

RecordingContext::RecordingContext(std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs) {
    recording_.inputs_.push_back(x.type());
    numbers_.emplace(TensorAccess::id(x), recording_.values_++);
    held_.push_back(x);
  }
  ContextStack::push(*this);
}

RecordingContext::~RecordingContext() { ContextStack::remove(*this); }

uint32_t RecordingContext::number(const Tensor& x) {
  if (!x.has_value()) return Recording::kAbsent;
  const auto [at, is_new] = numbers_.try_emplace(TensorAccess::id(x), recording_.values_);
  if (is_new) {
    recording_.constants_.emplace_back(recording_.values_++, x);
    held_.push_back(x);
  }
  return at->second;
}

Values RecordingContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  Recording::Call call{&op, attrs, where, {}, {}};
  for (std::size_t i = 0; i < in.size(); ++i) call.operands.push_back(number(in[i]));
  Values out = parent_->execute(op, in.without_expiring(), attrs, where);
  for (const Tensor& y : out) {
    numbers_.emplace(TensorAccess::id(y), recording_.values_);
    call.results.push_back(recording_.values_++);
    held_.push_back(y);
  }
  recording_.calls_.push_back(std::move(call));
  return out;
}

Recording RecordingContext::finish(std::span<const Tensor> outputs) {
  for (const Tensor& y : outputs) recording_.outputs_.push_back(number(y));
  ContextStack::remove(*this);
  return std::move(recording_);
}

std::vector<Tensor> Recording::replay(std::span<const Tensor> inputs) const {
  ETUDE_REQUIRE(inputs.size() == inputs_.size(), "the recording has {} inputs, but {} were given",
                inputs_.size(), inputs.size());
  std::vector<Tensor> values(values_);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ETUDE_REQUIRE(inputs[i].type() == inputs_[i], "input {} is {}, but {} was recorded", i,
                  inputs[i].type()->to_string(), inputs_[i]->to_string());
    values[i] = inputs[i];
  }
  for (const auto& [number, value] : constants_) values[number] = value;
  const Tensor absent;
  for (const Call& call : calls_) {
    OperandList in;
    for (const uint32_t number : call.operands) in.add(number == kAbsent ? absent : values[number]);
    Values out = execute(*call.op, in.view(), call.attrs, call.where);
    for (std::size_t i = 0; i < out.size(); ++i) values[call.results[i]] = std::move(out[i]);
  }
  std::vector<Tensor> out;
  for (const uint32_t number : outputs_) out.push_back(number == kAbsent ? absent : values[number]);
  return out;
}

std::string Recording::to_string() const {
  std::string text;
  for (const Call& call : calls_) {
    const auto list = [](const std::vector<uint32_t>& numbers) {
      std::string names;
      for (const uint32_t n : numbers) {
        names += (names.empty() ? "" : ", ") +
                 (n == kAbsent ? std::string("none") : "%" + std::to_string(n));
      }
      return names;
    };
    const std::string attrs = call.attrs.to_string();
    text += fmt::format("{} = {}({}{}{})  # {}:{}\n", list(call.results), call.op->name(),
                        list(call.operands), attrs.empty() ? "" : ", ", attrs, call.where.file,
                        call.where.line);
  }
  return text;
}

}  // namespace etude
