// SPDX-License-Identifier: Apache-2.0
// Makes a tensor of elements that lie in a file with any strides and either byte order. Used by the
// readers of NumPy's and PyTorch's files, which are not trusted.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::internal {

struct DenseCopy {
  std::string_view name;                   // of the file, for errors
  std::uint64_t offset = 0;                // of the elements in it, for errors
  std::uint64_t element = 1;               // bytes
  std::vector<std::int64_t> shape = {};    // any numbers; `checked_bytes` refuses what is none
  std::vector<std::int64_t> strides = {};  // in elements, of at least 0
  std::int64_t first = 0;                  // the element at index 0, 0, ...
  bool swap_bytes = false;
  bool is_complex = false;  // two numbers in an element, each swapped by itself

  // The bytes of all elements once they are dense.
  //
  // throws: kDataLoss for a size below 0 or more than 2^63 bytes; kUnimplemented for too many axes.
  std::uint64_t checked_bytes() const;
  std::vector<std::int64_t> rows_first() const;
  std::vector<std::int64_t> columns_first() const;
  // The tensor of the elements in `bytes`. `checked_bytes` must have been called, and its result be
  // bounded by the file.
  //
  // throws: kDataLoss, with file and offset, for elements outside of `bytes`, or truths that are
  //         neither 0 nor 1.
  Tensor make(DType dtype, std::span<const std::uint8_t> bytes) const;
};

}  // namespace etude::internal
