// SPDX-License-Identifier: Apache-2.0
// The recording context: turns any program into a list of calls that can be replayed on other
// inputs. It names no op: it is the smallest proof that every call passes through Context::execute,
// and the model for tracing. Not for users: no optimisation, no control flow.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "etude/core/attrs.h"
#include "etude/core/context.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A list of calls on numbered values: inputs, then constants that the program used, then results. A
// value; thread-safe to replay.
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

// On the stack for its lifetime. Calls run as usual and are recorded. confined to its thread.
class RecordingContext final : public Context {
 public:
  // `inputs` are the values that a replay replaces.
  explicit RecordingContext(std::span<const Tensor> inputs);
  ~RecordingContext() override;

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
  // Stops recording; `outputs` are what a replay returns.
  Recording finish(std::span<const Tensor> outputs);

 private:
  uint32_t number(const Tensor& x);

  Recording recording_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
  std::vector<Tensor> held_;  // keeps values alive, so that ids are not ambiguous
};

}  // namespace etude
