// SPDX-License-Identifier: Apache-2.0
// What operator new has given and operator delete has not taken back, by address: how the compiler
// of models finds where an object begins and ends that a pointer leads to (image.h). A program that
// compiles models is linked with record_blocks.cc, whose operators fill this table; it costs them a
// lock and a lookup.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etude::aot {

struct Block {
  uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool is_known() const { return begin != 0; }
};

// Blocks that need no wide alignment begin kBlockShift bytes behind a multiple of kBlocksApart, so
// that the lowest byte of their addresses is 0x60 or 0xe0, which a flag, a kind or an axis does not
// have: such a field with an old address behind it is no address of a block.
inline constexpr std::size_t kBlocksApart = 128;
inline constexpr std::size_t kBlockShift = 96;
inline constexpr std::size_t kTwinShift = 16;

// While one lives, blocks of this thread begin another kTwinShift bytes behind: addresses in twins
// (image.h) differ in their lowest byte.
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

// thread-safe. A block of 0 bytes counts as one byte.
void note_block(void* begin, std::size_t bytes) noexcept;
void forget_block(void* begin) noexcept;
// The block in which the address lies, or at whose end; unknown: there is none.
Block find_block(uintptr_t address) noexcept;
// Whether the operators of this program fill the table.
bool are_blocks_recorded() noexcept;

}  // namespace etude::aot
