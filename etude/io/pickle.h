// SPDX-License-Identifier: Apache-2.0
// The part of Python's pickle machine that PyTorch's tensor files need: instructions that build
// dicts, lists, tuples, numbers, texts, and tensors over storages. It imports and calls no Python
// code: it compares names with a list, and implements the few listed calls itself. Pickles are not
// trusted. The memory is at most a constant factor of their size.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/dtype.h"

namespace etude::internal {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kTruth,    // whole
    kWhole,    // whole
    kReal,     // real
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
  // Interprets `bytes`, which are at `offset` in the file `name`.
  //
  // throws: kDataLoss, with file and offset, for truncated or invalid pickles; kUnimplemented for
  //         unknown instructions and names.
  Pickle(std::span<const uint8_t> bytes, uint64_t offset, std::string_view name);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace etude::internal
