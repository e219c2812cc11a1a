// SPDX-License-Identifier: Apache-2.0
// A table of allocated blocks by address. The compiler of models looks up the bounds of the object
// to which a pointer refers (image.h). A program that compiles models is linked with
// record_blocks.cc, whose operators new and delete maintain this table; each call then takes a lock
// and a look-up.
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
// lowest byte of their addresses is then 0x60 or 0xe0, and no flag, kind or axis has such a value.
// So a small field in a word that still has the upper bytes of an old address does not form the
// address of a block.
inline constexpr std::size_t kBlocksApart = 128;
inline constexpr std::size_t kBlockShift = 96;
inline constexpr std::size_t kTwinShift = 16;

// While alive, blocks of this thread begin kTwinShift bytes later, so that addresses in twins
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

// threads: thread-safe. A block of 0 bytes counts as one byte.
void note_block(void* begin, std::size_t bytes) noexcept;
void forget_block(void* begin) noexcept;
// The block that contains the address or ends at it; unknown if there is none.
Block find_block(uintptr_t address) noexcept;
// Whether the operators of this program fill the table.
bool are_blocks_recorded() noexcept;

}  // namespace etude::aot
