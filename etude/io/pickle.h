// SPDX-License-Identifier: Apache-2.0
// The part of Python's pickle machine that PyTorch's tensor files need: instructions that build
// dicts, lists, tuples, numbers, texts, and tensors over storages. It imports nothing and calls
// nothing: it compares names with a list, and implements the few listed calls. Pickles are not
// trusted: values, marks, references and copies are counted against a budget.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/files/read_budget.h"

namespace etude::internal {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kTruth,    // whole
    kWhole,    // whole
    kReal,     // real
    kLarge,    // text: the decimal digits of an integer that does not fit 64 bits
    kText,     // text
    kTuple,    // items
    kList,     // items
    kDict,     // items: key, value, key, value, ...
    kName,     // text: "torch._utils._rebuild_tensor_v2"
    kStorage,  // text: its key in the archive; dtype; whole: elements
    kTensor,   // items: storage, tuple of sizes, tuple of strides; whole: first element
  };
  Kind kind = Kind::kNone;
  DType dtype = kFloat32;
  int64_t whole = 0;
  double real = 0;
  std::string text;
  std::vector<const PickleValue*> items;
};

// The values that a pickle builds. Values may refer to each other in cycles.
class Pickle {
 public:
  // Interprets `bytes`, which are at `offset` in the file of the budget.
  //
  // throws: kDataLoss, with file and offset, for truncated or invalid pickles; kUnimplemented for
  //         unknown instructions and names; kResourceExhausted for more than the budget allows.
  Pickle(std::span<const uint8_t> bytes, uint64_t offset, ReadBudget& budget);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;
  const PickleValue& root() const { return *root_; }
  const std::deque<PickleValue>& values() const { return values_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace etude::internal
