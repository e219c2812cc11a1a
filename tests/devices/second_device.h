// SPDX-License-Identifier: Apache-2.0
// A second CPU device for the tests of this program.
#pragma once

#include "etude/core/device.h"

namespace etude {

inline Device second() {
  static const Device device = add_cpu_device();
  return device;
}

}  // namespace etude
