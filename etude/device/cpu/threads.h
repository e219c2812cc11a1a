// SPDX-License-Identifier: Apache-2.0
// Starts threads. The library and the server start their own threads only here. oneTBB starts the
// workers of parallel loops (parallel.h); this file only counts how many workers the process can
// have.
#pragma once

#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "etude/version.h"

namespace ETUDE_API etude {  // the server is a program of its own
namespace internal {

// Starts a thread that runs `f`. The thread may use all processors of the process, even if the
// calling thread may not.
//
// throws: kResourceExhausted, naming `purpose`, if the system refuses a further thread.
std::thread start_thread(std::string_view purpose, std::function<void()> f);

// Returns how many further threads the process can have at once, at most `wanted`. Starts and ends
// these threads to find out. cost: 10 to 20 us for each thread.
int startable_threads(int wanted);

// Binds the calling thread to these processors. If the system refuses, nothing changes.
void run_on(const std::vector<int>& cpus) noexcept;

}  // namespace internal
}  // namespace etude
