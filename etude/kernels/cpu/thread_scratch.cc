// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/thread_scratch.h"

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "etude/base/thread_object.h"

namespace etude::kernels::cpu {

namespace {

constexpr std::align_val_t kAlignment{64};
struct Free {
  void operator()(void* p) const { ::operator delete(p, kAlignment); }
};
struct Block {
  std::unique_ptr<void, Free> memory;
  std::size_t bytes = 0;
};
struct Blocks {
  std::vector<Block> all;
};

void* grow(Blocks& blocks, std::size_t block, std::size_t bytes) {
  if (block >= blocks.all.size()) blocks.all.resize(block + 1);
  Block& grown = blocks.all[block];
  grown = {};  // frees the old one first
  grown.memory.reset(::operator new(bytes, kAlignment));
  grown.bytes = bytes;
  return grown.memory.get();
}

}  // namespace

std::size_t new_scratch_block() noexcept {
  static constinit std::atomic<std::size_t> count = 0;
  return count.fetch_add(1, std::memory_order_relaxed);
}

void* scratch_block(std::size_t block, std::size_t bytes) {
  Blocks& blocks = internal::ThreadObject<Blocks>::get();
  if (block < blocks.all.size() && bytes <= blocks.all[block].bytes) [[likely]]
    return blocks.all[block].memory.get();
  return grow(blocks, block, bytes);
}

}  // namespace etude::kernels::cpu
