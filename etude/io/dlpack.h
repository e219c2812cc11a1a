// SPDX-License-Identifier: Apache-2.0
// Exchange of tensors with other libraries in this process through DLPack's DLManagedTensor,
// without copying. Its definition is in <dlpack/dlpack.h>, which this header does not need. For
// files: safetensors.h.
#pragma once

#include <optional>

#include "etude/core/tensor.h"
#include "etude/version.h"

struct DLManagedTensor;

namespace ETUDE_API etude {

struct DlpackOptions {
  // true: always copies; false: never copies, and throws if a copy is necessary; absent: copies if
  // necessary.
  std::optional<bool> copy = std::nullopt;
};

// Returns a tensor over the memory of `managed`. Its deleter runs when the last tensor over the
// memory is destroyed, on the thread that destroys it. The memory is never written: the first write
// to the tensor copies. Rows that are not compact, and elements that are not aligned to their size,
// are copied, and the deleter then runs at once.
//
// throws: kInvalidArgument for another device than the host, an unknown dtype, or sizes that
//   contradict the data; kFailedPrecondition if a copy is necessary and forbidden. `managed` then
//   still belongs to the caller.
// cost:   O(1) without a copy.
Tensor from_dlpack(DLManagedTensor* managed, DlpackOptions options = {},
                   CallSite where = CallSite::here());

// Exports the elements of x. The other library must not write them unless they were copied. It
// calls the deleter when it no longer needs them, on any thread. Until then the elements are
// shared, so a write to x copies.
//
// throws: kFailedPrecondition for a tensor without a value.
// cost:   O(1) without a copy.
DLManagedTensor* to_dlpack(const Tensor& x, DlpackOptions options = {},
                           CallSite where = CallSite::here());

}  // namespace etude
