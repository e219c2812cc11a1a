// SPDX-License-Identifier: Apache-2.0
#include "etude/core/internal/host_door.h"

#include "etude/base/check.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/traced.h"

namespace etude::internal {
namespace {

const TensorRep* at_home_rep(const Tensor& x) {
  const TensorRep* const rep = TensorAccess::rep(x);
  ETUDE_CHECK(rep->type->device().is_home(), "host code reads elements of {} on {}",
              rep->type->to_string(), rep->type->device().to_string());
  return rep;
}

std::size_t bytes_of(const Tensor& x) {
  return static_cast<std::size_t>(TensorAccess::rep(x)->type->bytes());
}

}  // namespace

Tensor at_home(const Tensor& x, CallSite where) {
  const Type* const type = TensorAccess::rep(x)->type;
  ETUDE_REQUIRE_CODE(kFailedPrecondition, observe(x, where), "{}", explain_abstract(x));
  if (type->device().is_home()) return x;
  Tensor out = make_tensor(type->on(Device()));
  memory_of(type->device())->get(TensorAccess::rep(out)->data, TensorAccess::data(x), bytes_of(x));
  return out;
}

void wait_for(const Tensor& x) {
  if (!x.has_value() || !TensorAccess::has_elements(x)) return;
  DeviceMemory* const memory = memory_of(TensorAccess::rep(x)->type->device());
  if (memory != nullptr) memory->wait_for(TensorAccess::data(x), bytes_of(x));
}

const void* host_elements(const Tensor& x) { return at_home_rep(x)->data; }

void* host_elements_for_writing(Tensor& x) {
  at_home_rep(x);
  return TensorAccess::writable(x);
}

Tensor copied_to(const Tensor& x, Device device) {
  const TensorRep* const rep = at_home_rep(x);
  if (device.is_home()) return x;
  Tensor out = make_tensor(rep->type->on(device));
  memory_of(device)->put(TensorAccess::rep(out)->data, rep->data, bytes_of(x));
  return out;
}

Tensor restored_to(const Tensor& x, Tensor value) {
  if (!x.has_value() || x.device() == value.device()) return value;
  return copied_to(at_home(value), x.device());
}

}  // namespace etude::internal
