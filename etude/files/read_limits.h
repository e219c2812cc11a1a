// SPDX-License-Identifier: Apache-2.0
// Limits for readers of untrusted files: graphs, checkpoints, tensors, tables, images and JSON. A
// small file can describe a large value, by compressed zeros, repeated references to one value, or
// nested brackets. All readers count memory, items and nesting levels, and compare the counts with
// these limits.
#pragma once

#include <cstdint>

#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct ReadLimits {
  // Nesting levels of brackets, dicts and graphs. Destroying, comparing and running a value uses
  // stack space for each level.
  int64_t depth = 100;
  // A reader may allocate free_bytes + bytes_per_byte * (size of the file) bytes.
  int64_t free_bytes = int64_t{64} << 20;
  int64_t bytes_per_byte = 100;
  // A reader may visit free_items + items_per_byte * (size of the file) values, nodes, edges and
  // cells. This bounds the time.
  int64_t free_items = 1'000'000;
  int64_t items_per_byte = 4;

  static constexpr void ranges(const auto& option) {
    option("depth", &ReadLimits::depth, within(1, 1000));
    option("free_bytes", &ReadLimits::free_bytes, at_least(0));
    option("bytes_per_byte", &ReadLimits::bytes_per_byte, at_least(1));
    option("free_items", &ReadLimits::free_items, at_least(0));
    option("items_per_byte", &ReadLimits::items_per_byte, at_least(1));
  }
};

// The limits of this process. threads: thread-safe.
ReadLimits read_limits();
// Sets the limits for all readers that start later, on all threads, and returns the former limits.
// For trusted files that compress extremely well:
//
//   const ReadLimits before = set_read_limits({.free_bytes = int64_t{8} << 30});
//
// throws: kInvalidArgument if a number is out of range. threads: thread-safe.
ReadLimits set_read_limits(const ReadLimits& limits, CallSite where = CallSite::here());

}  // namespace etude
