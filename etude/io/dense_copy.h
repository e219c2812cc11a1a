// SPDX-License-Identifier: Apache-2.0
// Makes a tensor from elements in a file, which may have any strides and either byte order. Used by
// the readers of NumPy's and PyTorch's files, which are not trusted.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/files/file_reader.h"

namespace etude::internal {

struct DenseCopy {
  std::string_view name;              // of the file, for errors
  uint64_t offset = 0;                // of the elements in errors
  uint64_t begin = 0;                 // of the elements in the source
  uint64_t element = 1;               // bytes
  std::vector<int64_t> shape = {};    // any numbers; `checked_bytes` refuses invalid ones
  std::vector<int64_t> strides = {};  // in elements, of at least 0
  int64_t first = 0;                  // the element at index 0, 0, ...
  bool swap_bytes = false;
  bool is_complex = false;  // two numbers per element, each byte-swapped separately

  // The size in bytes of all elements when dense.
  //
  // throws: kDataLoss for a size below 0 or more than 2^63 bytes; kUnimplemented for too many axes.
  uint64_t checked_bytes() const;
  std::vector<int64_t> rows_first() const;
  std::vector<int64_t> columns_first() const;
  // Makes the tensor of the elements in the `held` bytes from `begin` on. Call `checked_bytes`
  // first, and bound its result by the file.
  //
  // throws: kDataLoss, with file and offset, for elements outside of these bytes, or bools that are
  //         neither 0 nor 1; errors of reading.
  // cost:   elements of a file that are in order are read into the tensor; else a copy of them.
  Tensor make(DType dtype, ByteSource source, uint64_t held) const;
};

}  // namespace etude::internal
