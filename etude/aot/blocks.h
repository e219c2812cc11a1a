// SPDX-License-Identifier: Apache-2.0
// A table of allocated blocks by address, kept by operator new and operator delete. The compiler of
// models looks up in it the bounds of the object that a pointer refers to (image.h). A program that
// compiles models is linked with record_blocks.cc, whose operators fill this table, at the cost of
// a lock and a look-up each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etude::aot {

struct Block {
  uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool is_known() const { return begin != 0; }
};

// Blocks without wide alignment begin kBlockShift bytes after a multiple of kBlocksApart. The
// lowest byte of their addresses is then 0x60 or 0xe0, which no flag, kind or axis equals. So a
// small field next to the remains of an old address is not the address of a block.
inline constexpr std::size_t kBlocksApart = 128;
inline constexpr std::size_t kBlockShift = 96;
inline constexpr std::size_t kTwinShift = 16;

// While one lives, blocks of this thread begin kTwinShift bytes later: addresses in twins (image.h)
// then differ in their lowest byte.
class TwinScope {
 public:
  TwinScope() noexcept { ++open_; }
  TwinScope(const TwinScope&) = delete;
  TwinScope& operator=(const TwinScope&) = delete;
  ~TwinScope() { --open_; }
  static bool is_open() noexcept { return open_ > 0; }

 private:
  static inline thread_local constinit int open_ = 0;
};

// threads: thread-safe. A block of 0 bytes counts as one byte.
void note_block(void* begin, std::size_t bytes) noexcept;
void forget_block(void* begin) noexcept;
// The block that contains the address or ends at it; unknown if there is none.
Block find_block(uintptr_t address) noexcept;
// Whether the operators of this program fill the table.
bool are_blocks_recorded() noexcept;

}  // namespace etude::aot
