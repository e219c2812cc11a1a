// SPDX-License-Identifier: Apache-2.0
// The threads of the library, which start here and nowhere else: workers of loops are counted here
// before oneTBB makes them. Loops run by parallel.h.
#pragma once

#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace etude::internal {

// Starts a thread that runs `f` on any processor of the process, whatever the processors of the
// calling thread.
//
// throws: kResourceExhausted, naming `purpose`, if the process gets no further thread.
std::thread start_thread(std::string_view purpose, std::function<void()> f);

// The number of further threads, at most `wanted`, that the process can have at once. Starts and
// ends them. cost: 10 to 20 us each.
int startable_threads(int wanted);

// Lets the calling thread run on these processors. Without the right to, it stays where it is.
void run_on(const std::vector<int>& cpus) noexcept;

}  // namespace etude::internal
