// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/image.h"

#include <cstring>
#include <string>
#include <utility>

#include "etude/base/check.h"

namespace etude::aot {
namespace {

// Whether a word may be an address at all: of 47 bits, and of none of the first pages.
bool may_be_address(uintptr_t word) { return word >= 0x10000 && word >> 47 == 0; }

uintptr_t word_at(uintptr_t address) {
  uintptr_t out = 0;
  std::memcpy(&out, reinterpret_cast<const void*>(address), sizeof out);
  return out;
}

// Whether two blocks of one size may have been made in the same way: all words are equal, except
// addresses and, in eight words, one that was never written. A block is found by chance if an old
// address was left in an unwritten word; the block at the twin's old address is then a different
// one.
bool are_alike(uintptr_t own, uintptr_t twin, std::size_t bytes) {
  if (own == twin) return true;
  std::size_t others = 0;
  for (std::size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
    const uintptr_t a = word_at(own + i), b = word_at(twin + i);
    if (a != b && !(may_be_address(a) && may_be_address(b))) ++others;
  }
  const std::size_t tail = bytes % sizeof(uintptr_t);
  const auto* const end = reinterpret_cast<const char*>(own + bytes);
  const auto* const twin_end = reinterpret_cast<const char*>(twin + bytes);
  return others <= bytes / sizeof(uintptr_t) / 8 &&
         std::memcmp(end - tail, twin_end - tail, tail) == 0;
}

}  // namespace

LinkTarget Image::add(const void* object, const void* twin) {
  const auto own = reinterpret_cast<uintptr_t>(object), other = reinterpret_cast<uintptr_t>(twin);
  const Block block = find_block(own), twin_block = find_block(other);
  ETUDE_REQUIRE_CODE(kUnimplemented,
                     block.is_known() && block.bytes == twin_block.bytes &&
                         own - block.begin == other - twin_block.begin,
                     "its prepared parameters are in memory of unknown size");
  const LinkTarget out = copy({block.begin, twin_block.begin, block.bytes});
  copy_pointers();
  return {out.section, out.offset + (own - block.begin)};
}

LinkTarget Image::copy(const Pair& part) {
  const auto [at, is_new] = copied_.try_emplace(part.own);
  if (!is_new) return at->second;
  std::string bytes(reinterpret_cast<const char*>(part.own), part.bytes);
  // Bytes that differ and are no pointer were never written.
  const char* const twin = reinterpret_cast<const char*>(part.twin);
  for (std::size_t i = 0; i < part.bytes; ++i) {
    if (bytes[i] != twin[i]) bytes[i] = 0;
  }
  at->second = linker_.add_data(".data", bytes, 64, true);
  waiting_.emplace_back(part, at->second);
  return at->second;
}

void Image::copy_pointers() {
  while (!waiting_.empty()) {
    const auto [part, target] = waiting_.back();
    waiting_.pop_back();
    for (std::size_t i = 0; i + sizeof(uintptr_t) <= part.bytes; i += sizeof(uintptr_t)) {
      const uintptr_t own = word_at(part.own + i), twin = word_at(part.twin + i);
      if (may_be_address(own)) copy_word({target.section, target.offset + i}, own, twin);
    }
  }
}

void Image::copy_word(LinkTarget at, uintptr_t own, uintptr_t twin) {
  if (own == twin) return copy_shared_word(at, own);
  const Block block = find_block(own), other = find_block(twin);
  const bool is_pointer = block.is_known() && other.is_known() && block.bytes == other.bytes &&
                          own - block.begin == twin - other.begin &&
                          (own ^ twin) % (2 * kTwinShift) == kTwinShift &&
                          are_alike(block.begin, other.begin, block.bytes);
  if (!is_pointer) return;
  const LinkTarget to = copy({block.begin, other.begin, block.bytes});
  linker_.point(at, to, static_cast<int64_t>(own - block.begin));
}

// For words that are equal in both: addresses of functions, of constants, and of older objects. An
// address in the middle of an object counts as a remainder in unwritten memory.
void Image::copy_shared_word(LinkTarget at, uintptr_t word) {
  constexpr std::size_t kShared = 16;  // std::make_shared puts its counts in front
  if (const Block block = find_block(word); block.is_known()) {
    if (word != block.begin && word != block.begin + kShared) return;
    const LinkTarget to = copy({block.begin, block.begin, block.bytes});
    return linker_.point(at, to, static_cast<int64_t>(word - block.begin));
  }
  const ProgramSymbol symbol = symbol_at(word);
  if (symbol.name.starts_with("_ZTV")) return linker_.clear(at);
  if (symbol.is_function && symbol.begin == word) return linker_.point(at, function_at(word));
  if (symbol.name.empty()) {
    if (const LinkTarget to = function_(word, symbol); to.is_known()) linker_.point(at, to);
    return;
  }
  if (symbol.is_function || symbol.begin != word) return;
  linker_.point(at, copy({symbol.begin, symbol.begin, symbol.bytes}));
}

LinkTarget Image::function_at(uintptr_t address) {
  const ProgramSymbol symbol = symbol_at(address);
  const LinkTarget out = function_(address, symbol);
  ETUDE_REQUIRE_CODE(kUnimplemented, out.is_known(),
                     "it calls '{}'{}, which is not in the archive of kernels",
                     readable(symbol.name), symbol.source.empty() ? "" : " of " + symbol.source);
  return out;
}

}  // namespace etude::aot
