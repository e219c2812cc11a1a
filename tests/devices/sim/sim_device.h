// SPDX-License-Identifier: Apache-2.0
// sim:0, a device for tests: it runs the kernels of CPUs on a thread of its own, after the calls
// have returned, in memory that the host must not touch. So code that would fail on a GPU fails
// here. It is also the example of "Add a device" in CONTRIBUTING.md.
#pragma once

#include <cstdint>

#include "etude/core/device.h"
#include "tests/devices/sim/sim_queue.h"

namespace etude::sim {

// Adds a simulated device, "sim:0" or the next.
Device add_device(int64_t memory_limit_bytes = 0);

// The first simulated device of this program, added at the first call.
inline Device device() {
  static const Device first = add_device();
  return first;
}

// The queue of a simulated device.
Queue& queue_of(Device device);

// While alive, no enqueued call of the device runs. A look at elements does not return meanwhile.
class Hold {
 public:
  explicit Hold(Device device) : queue_(queue_of(device)) { queue_.hold(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { queue_.release(); }

 private:
  Queue& queue_;
};

}  // namespace etude::sim
