// SPDX-License-Identifier: Apache-2.0
// Counts the heap allocations of a program and its resident memory.
#pragma once

#include <cstddef>
#include <functional>

namespace etude::bench::spline {

// Calls of operator new so far.
std::size_t allocations();

// The largest growth of a process by `work`, in KiB. It runs in a separate process that keeps its
// freed memory. -1 if the growth is unknown.
long resident_growth(const std::function<void()>& work);

}  // namespace etude::bench::spline
