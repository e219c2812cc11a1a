// SPDX-License-Identifier: Apache-2.0
// The recording context: turns any program into a list of calls that can be replayed on other
// inputs. It names no op; it is the smallest proof that every call passes through Context::execute,
// and a model of tracing. No optimisation, no control flow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/op/attrs.h"
#include "etude/core/op/op.h"

namespace etude::tests {

// A list of calls on numbered values: inputs first, then constants that the program used, then
// results. A value; thread-safe to replay.
class Recording {
 public:
  // Runs the calls on other inputs, in the innermost context, and returns the marked outputs.
  // throws: kInvalidArgument if the number or types of the inputs differ from those recorded.
  std::vector<Tensor> replay(std::span<const Tensor> inputs) const;
  std::size_t size() const { return calls_.size(); }
  // One call per line: "%3 = add(%0, %1)  # train.cc:42".
  std::string to_string() const;

 private:
  friend class RecordingContext;
  static constexpr uint32_t kAbsent = ~uint32_t{0};
  struct Call {
    const Op* op;
    Attrs attrs;
    CallSite where;
    std::vector<uint32_t> operands, results;
  };
  std::vector<const Type*> inputs_;
  std::vector<std::pair<uint32_t, Tensor>> constants_;
  std::vector<Call> calls_;
  std::vector<uint32_t> outputs_;
  uint32_t values_ = 0;
};

// On the stack for its lifetime; calls run as usual and are noted. confined to its thread.
class RecordingContext final : public Context {
 public:
  // `inputs` are the values that a replay replaces.
  explicit RecordingContext(std::span<const Tensor> inputs);
  ~RecordingContext() override;

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
  // Stops recording; `outputs` are the results of a replay.
  Recording finish(std::span<const Tensor> outputs);

 private:
  uint32_t number(const Tensor& x);

  Recording recording_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
  std::vector<Tensor> held_;  // values seen stay alive, so that ids are not ambiguous
};

inline RecordingContext::RecordingContext(std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs) {
    recording_.inputs_.push_back(x.type());
    numbers_.emplace(TensorAccess::id(x), recording_.values_++);
    held_.push_back(x);
  }
  ContextStack::push(*this);
}

inline RecordingContext::~RecordingContext() { ContextStack::remove(*this); }

inline uint32_t RecordingContext::number(const Tensor& x) {
  if (!x.has_value()) return Recording::kAbsent;
  const auto [at, is_new] = numbers_.try_emplace(TensorAccess::id(x), recording_.values_);
  if (is_new) {
    recording_.constants_.emplace_back(recording_.values_++, x);
    held_.push_back(x);
  }
  return at->second;
}

inline Values RecordingContext::execute(const Op& op, Operands in, const Attrs& attrs,
                                        CallSite where) {
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

inline Recording RecordingContext::finish(std::span<const Tensor> outputs) {
  for (const Tensor& y : outputs) recording_.outputs_.push_back(number(y));
  ContextStack::remove(*this);
  return std::move(recording_);
}

inline std::vector<Tensor> Recording::replay(std::span<const Tensor> inputs) const {
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

inline std::string Recording::to_string() const {
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

}  // namespace etude::tests
