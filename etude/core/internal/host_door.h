// SPDX-License-Identifier: Apache-2.0
// The host door: the only way in which code outside of kernels, aot and codegen reads or writes the
// elements of a tensor on the host. Tensors of other devices are copied first, or refused.
// tools/check_host_door.py finds code that goes around it.
#pragma once

#include <cstddef>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// x with its elements on cpu:0: x itself, or a copy, which waits until all earlier calls on its
// device have run. Pending calls run first. Contexts do not see the copy.
// throws: kFailedPrecondition for an abstract tensor; errors of pending calls; late errors of the
// device of x.
Tensor at_home(const Tensor& x, CallSite where = {});
// Waits until the elements of x are there, if its device has a queue. throws: the late error of x.
void wait_for(const Tensor& x);
// The elements of x, which is at home; null if it has none. throws: kInternal for another device.
const void* host_elements(const Tensor& x);
// The elements of x for writing, as TensorAccess::writable(). x is at home and has elements.
// throws: kInternal for another device.
void* host_elements_for_writing(Tensor& x);
// The elements of a tensor that make_tensor() just made at home, through a constant handle.
inline void* new_host_elements(const Tensor& x) noexcept { return TensorAccess::rep(x)->data; }
// A copy of x, which is at home and has elements, on another device; x itself for the home.
// Contexts do not see the copy: it is for constants, such as numbers of the host.
Tensor copied_to(const Tensor& x, Device device);
// A value from a file in the place of x: on the device of x, if that has a value. Contexts do not
// see the copy.
Tensor restored_to(const Tensor& x, Tensor value);

}  // namespace internal
}  // namespace etude
