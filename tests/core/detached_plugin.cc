// SPDX-License-Identifier: Apache-2.0
// A plug-in that a running process opens. Its thread works on when the plug-in is closed, so it is
// linked to stay loaded (-z nodelete).
#include "tests/core/detached_work.h"

extern "C" __attribute__((visibility("default"))) void start_detached(const char* work) {
  detached::start(work);
}
