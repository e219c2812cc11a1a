// SPDX-License-Identifier: Apache-2.0
// Exchange of tensors with other libraries in this process through DLPack, without copying.
// <dlpack/dlpack.h> defines DLManagedTensor; this header does not need the definition. For files
// see safetensors.h.
#pragma once

#include <optional>

#include "etude/core/tensor.h"
#include "etude/version.h"

struct DLManagedTensor;

namespace ETUDE_API etude {

struct DlpackOptions {
  // true: always copies. false: never copies, and throws if a copy is necessary. Absent: copies if
  // necessary.
  std::optional<bool> copy = std::nullopt;
};

// Returns a tensor over the memory of `managed`. The deleter of `managed` runs when the last tensor
// over the memory is destroyed, on the thread that destroys this tensor. The memory is never
// written: the first write to the tensor copies. Rows that are not compact and elements that are
// not aligned to their size are copied. After a copy the deleter runs at once.
//
// throws: kInvalidArgument for a null pointer, memory that is not on the host, an unknown dtype, or
//         sizes that contradict the data; kFailedPrecondition if a copy is necessary and forbidden.
//         After an error `managed` still belongs to the caller.
// cost:   O(1) without a copy.
Tensor from_dlpack(DLManagedTensor* managed, DlpackOptions options = {},
                   CallSite where = CallSite::here());

// Exports the elements of x. The other library must not write the elements unless they were copied.
// The library must call the deleter, on any thread, when it no longer needs the elements. Until
// then the elements are shared, so a write to x copies.
//
// throws: kInvalidArgument for an absent tensor; kFailedPrecondition for a tensor whose value is
//         not known, as in a traced function, and for a tensor on another device than cpu:0 unless
//         `copy` is true.
// cost:   O(1) without a copy.
DLManagedTensor* to_dlpack(const Tensor& x, DlpackOptions options = {},
                           CallSite where = CallSite::here());

}  // namespace etude
