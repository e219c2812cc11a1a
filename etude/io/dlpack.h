// SPDX-License-Identifier: Apache-2.0
// Exchange of tensors with other libraries of this process by DLPack's DLManagedTensor, without
// copying. Its definition is in <dlpack/dlpack.h>, which this header does not need. For files:
// safetensors.h.
#pragma once

#include <optional>

#include "etude/core/tensor.h"
#include "etude/version.h"

struct DLManagedTensor;

namespace ETUDE_API etude {

struct DlpackOptions {
  // true: always copies; false: never, and an error says why it would have to; absent: only if it
  // has to.
  std::optional<bool> copy = std::nullopt;
};

// A tensor over the memory of `managed`, whose deleter runs when the last tensor over it is gone,
// on the thread where that happens. The memory is never written: the first write to the tensor
// copies. Rows that are not compact, and elements that are not aligned to their size, are copied,
// and the deleter runs at once.
//
// throws: kInvalidArgument for another device than the host, an unknown dtype, or sizes that
//   contradict the data; kFailedPrecondition where it would have to copy and must not. `managed`
//   then still belongs to the caller.
// cost:   O(1) without a copy.
Tensor from_dlpack(DLManagedTensor* managed, DlpackOptions options = {},
                   CallSite where = CallSite::here());

// The elements of x for another library, which must not write them unless copied, and calls the
// deleter when it is done, on any thread. Until then x keeps them: a write to x copies.
//
// throws: kFailedPrecondition for a tensor without a value.
// cost:   O(1) without a copy.
DLManagedTensor* to_dlpack(const Tensor& x, DlpackOptions options = {},
                           CallSite where = CallSite::here());

}  // namespace etude
