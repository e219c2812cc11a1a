// SPDX-License-Identifier: Apache-2.0
// Operand lists and result lists of calls. Operands borrow; Values own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "etude/base/internal/inline_vector.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// One or two results are stored inline; more are allocated on the heap.
using Values = internal::InlineVector<Tensor, 2>;
// Result types of a call, or its operand types (null for an absent operand).
using Types = internal::InlineVector<const Type*, 4>;

// Borrowed operands of a call; an entry may be an absent tensor if the record allows it. Bit i of
// `expiring` is set if the caller does not use operand i afterwards (first 32 operands only). The
// type has two words, so that it is passed in registers.
class Operands {
 public:
  Operands() = default;
  Operands(const Tensor* const* items, std::size_t size, uint64_t expiring = 0)
      : items_(items),
        size_(static_cast<uint32_t>(size)),
        expiring_(static_cast<uint32_t>(expiring)) {}

  std::size_t size() const noexcept { return size_; }
  const Tensor& operator[](std::size_t i) const noexcept { return *items_[i]; }
  const Tensor* const* data() const noexcept { return items_; }
  uint64_t expiring() const noexcept { return expiring_; }
  Operands without_expiring() const noexcept { return {items_, size_}; }
  bool has(std::size_t i) const noexcept { return i < size_ && items_[i]->has_value(); }

 private:
  const Tensor* const* items_ = nullptr;
  uint32_t size_ = 0;
  uint32_t expiring_ = 0;
};

// Operands from tensors stored elsewhere: OperandList list({&a, &b}); list.view().
class OperandList {
 public:
  OperandList() = default;
  OperandList(std::initializer_list<const Tensor*> items) {
    for (const Tensor* item : items) items_.push_back(item);
  }
  explicit OperandList(std::span<const Tensor> items) {
    for (const Tensor& item : items) items_.push_back(&item);
  }
  void add(const Tensor& item) { items_.push_back(&item); }
  Operands view(uint64_t expiring = 0) const { return {items_.data(), items_.size(), expiring}; }

 private:
  internal::InlineVector<const Tensor*, 6> items_;
};

}  // namespace etude
