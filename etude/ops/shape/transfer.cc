// SPDX-License-Identifier: Apache-2.0
// Copies between devices.
#include <cstring>

#include "etude/base/check.h"
#include "etude/core/call/run.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/op/batching.h"
#include "etude/eager/dispatch.h"
#include "etude/ops.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using internal::DeviceMemory;

Device target_of(const Attrs& attrs) {
  return internal::only_device_of(DeviceName::parse(attrs.text("device")), attrs.text("device"));
}

struct TransferParams : KernelParams {
  DeviceMemory* from = nullptr;  // null: the host
  DeviceMemory* to = nullptr;
  std::size_t bytes = 0;
};

void transfer(const TransferParams& p, void* to, const void* from) {
  if (p.bytes == 0) return;
  if (p.from == p.to) return p.to->copy(to, from, p.bytes);
  if (p.from == nullptr) return p.to->put(to, from, p.bytes);
  if (p.to == nullptr) return p.from->get(to, from, p.bytes);
  const Tensor between =
      internal::make_tensor(intern_type(kUInt8, Shape{static_cast<int64_t>(p.bytes)}));
  p.from->get(TensorAccess::rep(between)->data, from, p.bytes);
  p.to->put(to, TensorAccess::rep(between)->data, p.bytes);
}

bool run_transfer(const KernelCall& call) {
  const auto& p = *static_cast<const TransferParams*>(call.params);
  try {
    transfer(p, call.out[0], call.in[0]);
    return true;
  } catch (const Error& error) {
    return internal::report_error(error);
  }
}

void prepare_transfer(const PrepareCall& call) {
  const Device from = call.types[0]->device(), to = target_of(call.attrs);
  if (from == to) return call.view(0);
  auto params = internal::make_ref<TransferParams>();
  params->from = internal::memory_of(from);
  params->to = internal::memory_of(to);
  params->bytes = static_cast<std::size_t>(call.types[0]->bytes());
  call.set(run_transfer, params);
}

}  // namespace

void define_transfer(Registry& r) {
  r.define({
      .name = "to_device",
      .kind = Kind::kLinear,
      .doc = "x on a device, such as \"cpu:1\". Shares the storage of x if x is already there. A "
             "cotangent goes back to the device of x.",
      .operands = {"x"},
      .attrs = {{"device", AttrKind::kText}},
      .type = [](const TypeCall& call) { return Types{call.types[0]->on(target_of(call.attrs))}; },
      .kernels = {.any = prepare_transfer},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs&) {
            return internal::run(internal::op<"to_device">(), {&ct}, {in[0].device().to_string()});
          },
      .batch = batching::same,
      .is_cheap = true,
      .samples = {.calls = {{{"[2,3]"}, {{"device", std::string("cpu:0")}}}}},
      .errors = {{{"float32[2]"},
                  "there is no device 'gpu:63' in this process. Its devices are: cpu:0",
                  {{"device", std::string("gpu:63")}},
                  ErrorCode::kNotFound},
                 {{"float32[2]"},
                  "has the unknown word 'chip'",
                  {{"device", std::string("chip:0")}}}},
  });
}

}  // namespace etude::ops
