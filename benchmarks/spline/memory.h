// SPDX-License-Identifier: Apache-2.0
// Counts what a program takes from the heap, and how much of its memory is resident.
#pragma once

#include <cstddef>
#include <functional>

namespace etude::bench::spline {

// Calls of operator new so far.
std::size_t allocations();

// By how many KiB `work` makes a process grow at most: it runs in one of its own, which gives no
// freed memory back. -1 where that cannot be found out.
long resident_growth(const std::function<void()>& work);

}  // namespace etude::bench::spline
