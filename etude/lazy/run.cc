// SPDX-License-Identifier: Apache-2.0
// Runs a segment: by its program, or call by call on request or if the program failed. Call by
// call, the error has the line of the failed call, and all results that do not depend on it exist.
#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <string>

#include "etude/base/warning.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/eager/cancel.h"
#include "etude/lazy/program.h"
#include "etude/lazy/trace.h"
#include "etude/variables/init_scope.h"

namespace etude::internal {
namespace {

// False if there is no program to run: not wanted, not ready yet, or it could not be made.
bool run_program(LazySegment& s) {
  const LazyProgramRef program = LazyPrograms::instance().find_or_make(s);
  if (!program) return false;
  if (!program->is_ready()) {
    const bool has_failed = program->state.load() == LazyProgramPlan::State::kFailed;
    LazyLog::instance().count(has_failed ? LazyCount::kFallbacks : LazyCount::kUnready);
    return false;
  }
  program->uses.fetch_add(1, std::memory_order_relaxed);
  OperandList list{std::span<const Tensor>(s.inputs)};
  std::vector<uint8_t> given = s.given;
  for (std::size_t i = 0; i < s.numbers.size(); ++i) {
    if (program->numbers[i].is_input) list.add(s.numbers[i]);
  }
  // Inputs of a symbolic graph that represent a size: no step reads them.
  const auto planned = program->planned->inputs();
  for (std::size_t i = list.view().size(); i < planned.size(); ++i) {
    list.add(planned[i].type->abstract_tensor());
  }
  given.resize(list.view().size());
  std::vector<const TensorRep*> before;
  if (program->plan->donations() > 0) {
    for (const Tensor& x : s.inputs) before.push_back(TensorAccess::rep(x));
    std::ranges::sort(before);
  }
  Values out = program->plan->run(list.view(), given);
  // The program may have written to the inputs: nothing may fail from here on. make_segment() has
  // reserved the memory of `values`.
  int64_t donated = 0;
  for (const Tensor& y : out) {
    donated += std::ranges::binary_search(before, TensorAccess::rep(y)) ? 1 : 0;
    s.values.push_back(y);
  }
  LazyLog::instance().count(LazyCount::kDonations, donated);
  return true;
}

using Failure = std::shared_ptr<const Error>;

Failure kept(const LazySegment& s, const Error& error) noexcept {
  try {
    return std::make_shared<const Error>(error);
  } catch (const std::bad_alloc&) {
    return s.no_memory;
  }
}

void fail_all(LazySegment& s, const Failure& failure) noexcept {
  for (Failure& error : s.errors) {
    if (error == nullptr) error = failure;
  }
}

// The values of a segment while it runs call by call: each is released after its last reader, which
// may write its result there, as eagerly; so are inputs that are given away.
class Stepwise {
 public:
  explicit Stepwise(LazySegment& s)
      : s_(s), values_(s.first_value.back()), uses_(values_.size()), input_uses_(s.inputs.size()) {
    for (const uint32_t code : s.operands) {
      if (uint32_t* const uses = uses_of(code)) ++*uses;
    }
    for (const LazySegment::Output& y : s.outputs) ++uses_[s.first_value[y.node] + y.result];
    for (uint32_t i = 0; i < s.nodes.size(); ++i) {
      for (uint32_t v = s.first_value[i]; v < s.first_value[i + 1]; ++v) maker_.push_back(i);
    }
  }

  void run() {
    for (uint32_t i = 0; i < s_.nodes.size(); ++i) {
      if (s_.errors[i] == nullptr) s_.errors[i] = failed_operand(i);
      if (s_.errors[i] == nullptr) s_.errors[i] = run_node(i);
      for (uint32_t k = s_.first_operand[i]; k < s_.first_operand[i + 1]; ++k) {
        uint32_t* const uses = uses_of(s_.operands[k]);
        if (uses != nullptr && --*uses == 0) value_of(s_.operands[k]).reset();
      }
    }
    s_.values.clear();  // its memory is reserved
    for (const LazySegment::Output& y : s_.outputs) {
      s_.values.push_back(values_[s_.first_value[y.node] + y.result]);
    }
  }

 private:
  static bool is_result(uint32_t code) {
    return (code & ~LazySegment::kIndex) == LazySegment::kResult;
  }
  // The number of further reads of this operand; null: no value that is released.
  uint32_t* uses_of(uint32_t code) {
    const uint32_t index = code & LazySegment::kIndex;
    if (is_result(code)) return &uses_[index];
    const bool is_input = (code & ~LazySegment::kIndex) == LazySegment::kInput;
    return is_input && s_.given[index] != 0 ? &input_uses_[index] : nullptr;
  }
  Tensor& value_of(uint32_t code) {
    const uint32_t index = code & LazySegment::kIndex;
    return is_result(code) ? values_[index] : s_.inputs[index];
  }

  Failure failed_operand(uint32_t i) const {
    for (uint32_t k = s_.first_operand[i]; k < s_.first_operand[i + 1]; ++k) {
      const uint32_t code = s_.operands[k];
      if (!is_result(code)) continue;
      const Failure& error = s_.errors[maker_[code & LazySegment::kIndex]];
      if (error != nullptr) return error;
    }
    return nullptr;
  }

  Failure run_node(uint32_t i) {
    const LazyNode& node = *s_.nodes[i];
    const Tensor absent;
    try {
      return run_call(i, node, absent);
    } catch (const Error& error) {
      return kept(s_, error);
    } catch (const std::bad_alloc&) {
      return s_.no_memory;
    } catch (const std::exception& error) {
      return kept(s_, Error(ErrorCode::kInternal, error.what()));
    }
  }

  Failure run_call(uint32_t i, const LazyNode& node, const Tensor& absent) {
    OperandList list;
    uint64_t expiring = 0;
    for (uint32_t k = s_.first_operand[i]; k < s_.first_operand[i + 1]; ++k) {
      const uint32_t* const uses = uses_of(s_.operands[k]);
      const uint32_t at = k - s_.first_operand[i];
      if (uses != nullptr && *uses == 1 && at < 32) expiring |= uint64_t{1} << at;
      const uint32_t index = s_.operands[k] & LazySegment::kIndex;
      const uint32_t kind = s_.operands[k] & ~LazySegment::kIndex;
      list.add(kind == LazySegment::kInput    ? s_.inputs[index]
               : kind == LazySegment::kNumber ? s_.numbers[index]
               : kind == LazySegment::kResult ? values_[index]
                                              : absent);
    }
    Values out = execute(*node.op, list.view(expiring), node.attrs, node.where);
    for (uint32_t r = 0; r < out.size(); ++r) {
      const uint32_t v = s_.first_value[i] + r;
      if (uses_[v] > 0) values_[v] = std::move(out[r]);
    }
    return nullptr;
  }

  LazySegment& s_;
  std::vector<Tensor> values_;
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> input_uses_;
  std::vector<uint32_t> maker_;
};

// True if the program ran.
bool try_program(LazySegment& s) {
  const auto has_failed = [](const auto& error) { return error != nullptr; };
  if (lazy_options().op_by_op || std::ranges::any_of(s.errors, has_failed)) return false;
  try {
    return run_program(s);
  } catch (const Error& error) {
    warn_failed_program(error);
  } catch (const std::bad_alloc&) {
  }
  // Inputs are unchanged. Call by call, the failing call is known by its own line, and less memory
  // is needed.
  LazyLog::instance().count(LazyCount::kFallbacks);
  trim_memory();
  return false;
}

}  // namespace

void warn_failed_program(const Error& error) {
  if (error.code() != ErrorCode::kInternal) return;
  warn_once("a lazy program that failed",
            std::string("a lazy program failed, and its calls run one by one: ") + error.what());
}

namespace {

void run_all_calls(LazySegment& s) {
  lazy_this_thread();  // now, so that its first call is not recorded
  const OutsideScope outside;
  const NoDeviceScope home;  // calls were recorded on cpu:0, wherever a value is looked at
  if (try_program(s)) return;
  s.values.clear();
  for (LazySegment::Before& before : s.before) before.value = s.inputs[before.input];
  Stepwise(s).run();
}

}  // namespace

void run_segment(LazySegment& s) noexcept {
  const auto start = std::chrono::steady_clock::now();
  try {
    try {
      run_all_calls(s);
    } catch (const std::bad_alloc&) {  // before the first call: no memory for the lists
      trim_memory();
      run_all_calls(s);
    }
  } catch (const Error& error) {
    fail_all(s, kept(s, error));
  } catch (const std::exception&) {
    fail_all(s, s.no_memory);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  try {
    LazyLog& log = LazyLog::instance();
    log.count(LazyCount::kExecutes);
    log.count(LazyCount::kNodes, static_cast<int64_t>(s.nodes.size()));
    log.note_run(static_cast<int64_t>(s.nodes.size()), spent.count());
  } catch (const std::bad_alloc&) {
    // The log has no entry of this run.
  }
}

}  // namespace etude::internal
