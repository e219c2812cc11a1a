// SPDX-License-Identifier: Apache-2.0
// Reads nested lists of numbers: finds their shape and checks that they are rectangular. Used to
// make tensors from literals and from other host data.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/core/dtype.h"
#include "etude/core/literal.h"
#include "etude/core/shape.h"

namespace etude::internal {

// Adds a list of `size` items at `level` to the shape of the nesting so far. `what`: a prefix of
// the message.
// throws: kInvalidArgument if earlier lists of this level had another size.
inline void enter_list(Shape& shape, int level, std::size_t size, std::string_view what) {
  const auto items = static_cast<int64_t>(size);
  if (level == shape.rank()) shape.push_back(items);
  ETUDE_REQUIRE(shape[level] == items,
                "{}the nesting is not rectangular: level {} has {} and {} items. Make all lists of "
                "a level equally long",
                what, level, shape[level], items);
}

// Collects the shape and the leaves of nested literals.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view what = "") : what_(what) {}

  void read(std::span<const Literal> items, int level) {
    enter_list(shape, level, items.size(), what_);
    for (const Literal& item : items) {
      const bool is_list = item.kind() == Literal::Kind::kList;
      if (depth_ < 0 && !is_list) depth_ = level + 1;
      ETUDE_REQUIRE(is_list == (depth_ < 0 || level + 1 < depth_),
                    "{}the nesting is not rectangular: level {} mixes numbers and lists. Make all "
                    "items of a level lists, or all of them numbers",
                    what_, level);
      if (is_list) {
        read(item.items(), level + 1);
      } else {
        leaves.push_back(&item);
      }
    }
  }

  DType dtype() const {
    bool all_bool = !leaves.empty(), any_real = leaves.empty(), wide = false;
    for (const Literal* leaf : leaves) {
      all_bool = all_bool && leaf->kind() == Literal::Kind::kBool;
      any_real = any_real || leaf->kind() == Literal::Kind::kReal;
      wide = wide || leaf->integer() != static_cast<int32_t>(leaf->integer());
    }
    return all_bool ? kBool : any_real ? ambient().default_dtype : wide ? kInt64 : kInt32;
  }

  Shape shape;
  std::vector<const Literal*> leaves;

 private:
  std::string_view what_;
  int depth_ = -1;
};

}  // namespace etude::internal
