// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/sim/sim_device.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "etude/core/internal/device_table.h"
#include "etude/core/op/op.h"
#include "etude/core/tensor.h"
#include "etude/device/cpu/float_mode.h"
#include "tests/devices/sim/sim_memory.h"

namespace etude::sim {
namespace {

using internal::InlineVector;
using internal::RefPtr;

// A call as prepared for cpu:0, and the memory in which it runs.
struct SimParams : KernelParams {
  Memory* memory = nullptr;
  RefPtr<Prepared> call;
  std::vector<std::size_t> in_bytes, out_bytes;
};

struct FreeHost {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using HostCopy = std::unique_ptr<void, FreeHost>;

// The arguments of one run. Operands that kernels read on the host are copied, since the program
// may change them before the call runs.
struct Work {
  RefPtr<const SimParams> params;
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<HostCopy> host_operands;
};

HostCopy copy_of(const void* from, std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  HostCopy out(std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment));
  if (out == nullptr) throw std::bad_alloc();
  if (bytes > 0) std::memcpy(out.get(), from, bytes);
  return out;
}

// throws: std::bad_alloc.
void add_work(const KernelCall& call) {
  const auto& p = *static_cast<const SimParams*>(call.params);
  auto work = std::make_shared<Work>();
  Queue::Job job;
  work->params = RefPtr<const SimParams>(&p);
  for (std::size_t i = 0; i < p.in_bytes.size(); ++i) {
    const void* const at = call.in[i];
    if (at != nullptr && !p.memory->holds(at)) {
      work->host_operands.push_back(copy_of(at, p.in_bytes[i]));
      work->in.push_back(work->host_operands.back().get());
      continue;
    }
    work->in.push_back(p.memory->found_at(at));
    if (at != nullptr) job.reads.push_back({at, p.in_bytes[i]});
  }
  for (std::size_t r = 0; r < p.out_bytes.size(); ++r) {
    work->out.push_back(p.memory->found_at(call.out[r]));
    job.writes.push_back({call.out[r], p.out_bytes[r]});
  }
  job.run = [work] {
    const Prepared& prepared = *work->params->call;
    const FloatModeScope float_mode;
    return prepared.run({prepared.state, work->out.data(), work->in.data()});
  };
  p.memory->queue().add(std::move(job));
}

bool enqueue(const KernelCall& call) {
  try {
    add_work(call);
    return true;
  } catch (const std::bad_alloc&) {
    return report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
  }
}

// The kernel of cpu:0, wrapped: each op with a kernel for CPUs has one here.
bool prepare(const PrepareCall& call) {
  const PrepareRule rule = call.op.kernel(Device::Kind::kCpu);
  if (rule == nullptr) return false;
  auto params = internal::make_ref<SimParams>();
  const Device device = device_of(call.op, call.types, call.attrs);
  params->memory = static_cast<Memory*>(internal::memory_of(device));
  params->call = internal::make_ref<Prepared>();
  Prepared& at_home = *params->call;
  InlineVector<const Type*, 6> types;
  for (const Type* type : call.types) {
    types.push_back(type != nullptr ? type->on(Device()) : nullptr);
    params->in_bytes.push_back(type != nullptr ? static_cast<std::size_t>(type->bytes()) : 0);
  }
  for (const Type* type : call.out.results) {
    at_home.results.push_back(type->on(Device()));
    params->out_bytes.push_back(static_cast<std::size_t>(type->bytes()));
  }
  rule({call.op, {types.data(), types.size()}, call.attrs, at_home});
  call.out.view_of = at_home.view_of;
  call.out.view_offset = at_home.view_offset;
  if (at_home.view_of >= 0) return true;
  call.out.in_place = at_home.in_place;
  call.out.results_over = at_home.results_over;
  call.out.never_faults = at_home.never_faults;
  call.set(enqueue, params);
  call.out.state.stream.handle = params->memory;
  return true;
}

std::unique_ptr<internal::DeviceMemory> make_memory(const std::string& name, int64_t limit_bytes) {
  return std::make_unique<Memory>(name, limit_bytes);
}

}  // namespace

Device add_device(int64_t memory_limit_bytes) {
  return internal::add_device({.kind = Device::Kind::kTest,
                               .type = "SIM",
                               .make_memory = make_memory,
                               .memory_limit_bytes = memory_limit_bytes,
                               .prepare = prepare});
}

Queue& queue_of(Device device) {
  return static_cast<Memory*>(internal::memory_of(device))->queue();
}

}  // namespace etude::sim
