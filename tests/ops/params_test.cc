// SPDX-License-Identifier: Apache-2.0
// The parameters of prepared kernels, for each call of the op matrix: no word of them is only
// partly written. The other bytes of such a word may come from an old stack frame and look like an
// address, which compiling ahead of time would replace (etude/aot/image.h). Runs under valgrind,
// which follows unwritten bytes through copies. Names no op.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <valgrind/memcheck.h>

#include "etude/aot/blocks.h"
#include "etude/aot/compile_model.h"
#include "etude/core/tensor.h"
#include "etude/eager/dispatch.h"
#include "tests/ops/calls.h"

namespace etude::matrix {
namespace {

using aot::Block;
using Word = std::array<unsigned char, sizeof(uintptr_t)>;

// Which bits of the word at `address` were never written.
Word unwritten_bits(uintptr_t address) {
  Word out{};
  VALGRIND_GET_VBITS(reinterpret_cast<const void*>(address), out.data(), out.size());
  return out;
}

// The blocks that one leads to, itself among them; only words that were written are followed.
class Walk {
 public:
  // "", or the first word that was written in part.
  std::string find_partly_written(uintptr_t owner) {
    add(owner);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block block = blocks_[i];
      for (std::size_t at = 0; at + sizeof(Word) <= block.bytes; at += sizeof(Word)) {
        const Word bits = unwritten_bits(block.begin + at);
        const std::size_t missing =
            sizeof(Word) - static_cast<std::size_t>(std::ranges::count(bits, 0));
        if (missing == 0) {
          add(*reinterpret_cast<const uintptr_t*>(block.begin + at));
        } else if (missing < sizeof(Word)) {
          return fmt::format("{} of the 8 bytes from byte {} on of {} are never written", missing,
                             at,
                             i == 0 ? "the parameters" : fmt::format("a block of {}", block.bytes));
        }
      }
    }
    return "";
  }

 private:
  void add(uintptr_t address) {
    constexpr uintptr_t kShared = 16;  // std::make_shared puts its counts in front
    const Block block = aot::find_block(address);
    if (!block.is_known()) return;
    const bool is_begin = address == block.begin || address == block.begin + kShared;
    if (is_begin && seen_.insert(block.begin).second) blocks_.push_back(block);
  }

  std::vector<Block> blocks_;
  std::set<uintptr_t> seen_;
};

struct Partly {
  double number = 0;
  bool flag = false;  // and a gap after it
};
struct ParamsWithGaps {
  Partly part;
  std::vector<Partly> parts = std::vector<Partly>(2);
};
void forget_gap(Partly& part) {
  const auto* const gap = reinterpret_cast<const char*>(&part.flag) + sizeof part.flag;
  VALGRIND_MAKE_MEM_UNDEFINED(gap, sizeof(Partly) - sizeof part.number - sizeof part.flag);
}

// The check itself: it sees a gap at any depth.
TEST(Params, AGapIsFound) {
  ASSERT_TRUE(aot::are_blocks_recorded());
  ASSERT_TRUE(RUNNING_ON_VALGRIND) << "run it as ctest does";
  const auto params = std::make_unique<ParamsWithGaps>();
  const auto look = [&] {
    return Walk().find_partly_written(reinterpret_cast<uintptr_t>(params.get()));
  };
  EXPECT_EQ(look(), "");
  forget_gap(params->parts[1]);
  EXPECT_EQ(look(), "7 of the 8 bytes from byte 24 on of a block of 32 are never written");
  forget_gap(params->part);
  EXPECT_EQ(look(), "7 of the 8 bytes from byte 8 on of the parameters are never written");
}

TEST(Params, EveryWordIsWrittenOrNot) {
  std::size_t looked_at = 0;
  for (const Op* op : Registry::global().ops()) {
    std::set<std::string> found;
    for (const DType dtype : dtypes_of(*op)) {
      for (const Call& call : calls_of(*op, dtype)) {
        if (aot::runs_graphs(call.attrs)) continue;
        std::vector<const Type*> types;
        for (const Tensor& x : call.operands) types.push_back(x.has_value() ? x.type() : nullptr);
        internal::RefPtr<Prepared> prepared;
        try {
          prepared = internal::prepare(*op, call.attrs, types);
        } catch (const Error&) {
          continue;  // see refusals.txt
        }
        const auto owner = reinterpret_cast<uintptr_t>(prepared->owner.get());
        if (owner == 0) continue;
        ASSERT_EQ(aot::find_block(owner).begin, owner) << call.label("prepared");
        ++looked_at;
        const std::string what = Walk().find_partly_written(owner);
        if (!what.empty() && found.insert(what).second) {
          ADD_FAILURE() << call.label("prepared") << ": " << what
                        << ". Give it fields that fill their words, or set its fields one by one";
        }
      }
    }
  }
  EXPECT_GT(looked_at, 1000U);
}

}  // namespace
}  // namespace etude::matrix
