// SPDX-License-Identifier: Apache-2.0
// Index expressions against NumPy (a table) and against a plain reference (random ones).
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "etude/ops.h"
#include "etude/ops/test_numbers.h"

namespace etude {
namespace {

using Ints = std::vector<int64_t>;
using tests::iota;

#define ETUDE_LIST(...) \
  { __VA_ARGS__ }

// spec: T5.a, T5.b, V22.d
TEST(IndexTable, AgreesWithNumPy) {
  const Shape shape{3, 4, 5};
  const Tensor M = equal(remainder(iota(shape), 7.0), 3.0);
  const Tensor R({true, false, true}), C({false, true, true, false});
  const Tensor RC(
      {{true, false, false, true}, {false, false, false, false}, {false, true, true, false}});
  int cases = 0;
#define INDEX_CASE(items, sizes, got, assigned, added)                             \
  {                                                                                \
    const Tensor x = iota(shape);                                                  \
    const Tensor part = x.at items;                                                \
    EXPECT_EQ(part.shape().to_vector(), (Ints ETUDE_LIST sizes)) << #items;        \
    EXPECT_EQ(part.to_vector<int64_t>(), (Ints ETUDE_LIST got)) << #items;         \
    Tensor written = x;                                                            \
    written.at items = iota(part.shape(), 100);                                    \
    EXPECT_EQ(written.to_vector<int64_t>(), (Ints ETUDE_LIST assigned)) << #items; \
    Tensor counted = x;                                                            \
    counted.at items += 1.0;                                                       \
    EXPECT_EQ(counted.to_vector<int64_t>(), (Ints ETUDE_LIST added)) << #items;    \
    EXPECT_EQ(x.to_vector<int64_t>(), iota(shape).to_vector<int64_t>()) << #items; \
    ++cases;                                                                       \
  }
#include "etude/ops/test_numbers.h"
#include "tests/ops/values/index_cases.inc"
#undef INDEX_CASE
  EXPECT_GE(cases, 40);
}

// The elements that an expression reads, one by one.
class Reference {
 public:
  Reference(const Shape& x, const Index& index) : x_(x) {
    int takes = 0;
    for (const IndexItem& item : index) takes += axes_of(item);
    for (const IndexItem& item : index) {
      if (std::holds_alternative<Ellipsis>(item.value())) {
        while (axis_ + takes < x.rank()) add(kAll);
      } else {
        takes -= axes_of(item);
        std::visit([&](const auto& value) { add(value); }, item.value());
      }
    }
    while (axis_ < x.rank()) add(kAll);
    place_points();
  }

  bool fails = false;
  Shape result;

  // The element of x for each element of the result, in order.
  Ints sources() const {
    Ints out;
    const int64_t count = result.count();
    for (int64_t i = 0; i < count; ++i) out.push_back(source(i));
    return out;
  }

 private:
  struct Dim {
    enum class Kind { kNew, kInt, kSlice, kArray } kind;
    int axis = -1;
    Ints list;    // of a slice: its indices; of an array: its elements
    Shape shape;  // of an array
  };

  static int axes_of(const IndexItem& item) {
    const auto& value = item.value();
    if (const Tensor* t = std::get_if<Tensor>(&value)) return t->dtype() == kBool ? t->rank() : 1;
    return std::holds_alternative<NewAxis>(value) || std::holds_alternative<Ellipsis>(value) ? 0
                                                                                             : 1;
  }

  void add(NewAxis) { dims_.push_back({Dim::Kind::kNew, -1, {}, {}}); }
  void add(Ellipsis) {}
  void add(int64_t i) {
    dims_.push_back({Dim::Kind::kInt, axis_, {wrapped(i, axis_)}, {}});
    ++axis_;
  }
  void add(const Slice& s) {
    const int64_t n = x_[axis_];
    Ints list;
    // Python's definition: walk from the start while the stop is not reached.
    const auto end = [&](std::optional<int64_t> v, int64_t open) {
      if (!v) return open;
      const int64_t w = *v < 0 ? *v + n : *v;
      return s.step > 0 ? std::min(std::max<int64_t>(w, 0), n)
                        : std::min(std::max<int64_t>(w, -1), n - 1);
    };
    const int64_t stop = end(s.stop, s.step > 0 ? n : -1);
    for (int64_t i = end(s.start, s.step > 0 ? 0 : n - 1); s.step > 0 ? i < stop : i > stop;
         i += s.step) {
      list.push_back(i);
    }
    dims_.push_back({Dim::Kind::kSlice, axis_++, list, {}});
  }
  void add(const Tensor& t) {
    if (t.dtype() != kBool) return add_array(t.to_vector<int64_t>(), t.shape());
    std::vector<Ints> found(static_cast<std::size_t>(t.rank()));
    const std::vector<bool> bools = t.to_vector<bool>();
    for (int64_t i = 0; i < t.size(); ++i) {
      if (!bools[static_cast<std::size_t>(i)]) continue;
      int64_t rest = i;
      for (int a = t.rank() - 1; a >= 0; rest /= t.shape()[a--]) {
        found[static_cast<std::size_t>(a)].push_back(rest % t.shape()[a]);
      }
    }
    for (const Ints& list : found) add_array(list, Shape{static_cast<int64_t>(list.size())});
  }
  void add_array(Ints list, const Shape& shape) {
    for (int64_t& i : list) i = wrapped(i, axis_);
    try {
      points_ = has_arrays_ ? broadcast(points_, shape) : shape;
    } catch (const Error&) {
      fails = true;
    }
    has_arrays_ = true;
    dims_.push_back({Dim::Kind::kArray, axis_++, std::move(list), shape});
  }
  int64_t wrapped(int64_t i, int axis) {
    fails = fails || i < -x_[axis] || i >= x_[axis];
    return i < 0 ? i + x_[axis] : i;
  }

  void place_points() {
    std::vector<std::size_t> advanced;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      const bool is_int = dims_[d].kind == Dim::Kind::kInt;
      if (has_arrays_ && (is_int || dims_[d].kind == Dim::Kind::kArray)) advanced.push_back(d);
    }
    bool together = !advanced.empty();
    for (std::size_t k = 1; k < advanced.size(); ++k)
      together = together && advanced[k] == advanced[k - 1] + 1;
    const auto put_points = [&] {
      points_at_ = result.rank();
      for (const int64_t size : points_) result.push_back(size);
    };
    if (has_arrays_ && !together) put_points();
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      if (together && d == advanced[0]) put_points();
      at_.push_back(result.rank());
      if (dims_[d].kind == Dim::Kind::kNew) result.push_back(1);
      if (dims_[d].kind == Dim::Kind::kSlice)
        result.push_back(static_cast<int64_t>(dims_[d].list.size()));
    }
  }

  int64_t source(int64_t linear) const {
    Ints place(static_cast<std::size_t>(result.rank()));
    for (int a = result.rank() - 1; a >= 0; linear /= result[a--])
      place[static_cast<std::size_t>(a)] = linear % result[a];
    Ints coordinates(static_cast<std::size_t>(x_.rank()));
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      const Dim& dim = dims_[d];
      if (dim.kind == Dim::Kind::kNew) continue;
      int64_t i = 0;
      if (dim.kind == Dim::Kind::kSlice) i = place[static_cast<std::size_t>(at_[d])];
      if (dim.kind == Dim::Kind::kArray) {
        const int lead = points_.rank() - dim.shape.rank();
        for (int a = 0; a < dim.shape.rank(); ++a) {
          const int64_t at =
              dim.shape[a] == 1 ? 0 : place[static_cast<std::size_t>(points_at_ + lead + a)];
          i = i * dim.shape[a] + at;
        }
      }
      coordinates[static_cast<std::size_t>(dim.axis)] = dim.list[static_cast<std::size_t>(i)];
    }
    int64_t offset = 0;
    for (int a = 0; a < x_.rank(); ++a)
      offset = offset * x_[a] + coordinates[static_cast<std::size_t>(a)];
    return offset;
  }

  Shape x_, points_;
  bool has_arrays_ = false;
  int axis_ = 0, points_at_ = 0;
  std::vector<Dim> dims_;
  std::vector<int> at_;
};

class RandomIndex {
 public:
  explicit RandomIndex(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  Shape shape() {
    Shape out;
    for (int64_t a = below(5); a > 0; --a) out.push_back(below(8) == 0 ? 0 : 1 + below(4));
    return out;
  }

  Index index(const Shape& x) {
    Index out;
    bool has_ellipsis = false;
    int axis = 0;
    while (below(5) != 0) {
      const int64_t kind = below(6);
      if (kind == 0) {
        out.push_back(kNewAxis);
      } else if (kind == 1 && !has_ellipsis) {
        // Items after the ellipsis index the last axes.
        has_ellipsis = true;
        out.push_back(kEllipsis);
        axis += static_cast<int>(below(x.rank() - axis + 1));
        const int left = x.rank() - axis;
        for (int a = 0; a < left; ++a) axis += item(x, axis, out);
        return out;
      } else if (axis < x.rank()) {
        axis += item(x, axis, out);
      }
    }
    return out;
  }

 private:
  // Adds one item for the axis, and returns the number of axes that it takes.
  int item(const Shape& x, int axis, Index& out) {
    const int64_t n = x[axis];
    switch (below(4)) {
      case 0:
        out.push_back(position(n));
        return 1;
      case 1:
        out.push_back(range(n));
        return 1;
      case 2:
        out.push_back(array(n));
        return 1;
      default:
        break;
    }
    Ints bools(static_cast<std::size_t>(n));
    for (int64_t& t : bools) t = below(2);
    out.push_back(astype(Tensor(bools, Shape{n}), kBool));
    return 1;
  }
  // Seldom outside.
  int64_t position(int64_t n) { return below(40) == 0 ? n : n == 0 ? 0 : below(2 * n) - n; }
  Slice range(int64_t n) {
    Slice s;
    if (below(3) != 0) s.start = below(2 * n + 5) - n - 2;
    if (below(3) != 0) s.stop = below(2 * n + 5) - n - 2;
    s.step = below(2) == 0 ? 1 + below(3) : -1 - below(3);
    return s;
  }
  Tensor array(int64_t n) {
    const Shape shapes[] = {{2}, {1}, {2, 1}, {2, 2}, {}, {1, 2}};
    const Shape& shape = shapes[below(6)];
    Ints values(static_cast<std::size_t>(shape.count()));
    for (int64_t& v : values) v = position(n);
    const DType dtypes[] = {kInt8, kInt32, kInt64};
    return astype(Tensor(values, shape), dtypes[below(3)]);
  }

  std::mt19937 random_;
};

// spec: T5.a, T5.b
TEST(IndexProperty, TenThousandRandomExpressions) {
  RandomIndex random(7);
  int read = 0, refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const Shape shape = random.shape();
    const Index index = random.index(shape);
    const Tensor x = iota(shape);
    const Reference reference(shape, index);
    Tensor part;
    try {
      part = get_index(x, index, {});
    } catch (const Error& error) {
      ASSERT_TRUE(reference.fails)
          << "case " << i << " of shape " << shape.to_string() << ": " << error.what();
      ++refused;
      continue;
    }
    if (reference.fails) {  // an index outside that no element reads
      ASSERT_EQ(part.size(), 0) << "case " << i;
      continue;
    }
    ++read;
    ASSERT_EQ(part.shape(), reference.result) << "case " << i << " of shape " << shape.to_string();
    const Ints sources = reference.sources();
    ASSERT_EQ(part.to_vector<int64_t>(), sources)
        << "case " << i << " of shape " << shape.to_string();
    Tensor written = x, counted = x;
    set_index(written, index, iota(part.shape(), 1000), ScatterMode::kSet, {});
    set_index(counted, index, iota(part.shape(), 1), ScatterMode::kAdd, {});
    Ints want_written = x.to_vector<int64_t>(), want_counted = want_written;
    for (std::size_t k = 0; k < sources.size(); ++k) {
      want_written[static_cast<std::size_t>(sources[k])] = 1000 + static_cast<int64_t>(k);
      want_counted[static_cast<std::size_t>(sources[k])] += 1 + static_cast<int64_t>(k);
    }
    ASSERT_EQ(written.to_vector<int64_t>(), want_written)
        << "case " << i << " of shape " << shape.to_string();
    ASSERT_EQ(counted.to_vector<int64_t>(), want_counted)
        << "case " << i << " of shape " << shape.to_string();
    // A value that broadcasts, along one axis of the part or all of it.
    Shape sizes = part.shape();
    if (sizes.rank() > 0 && i % 3 != 0) sizes.set(i % sizes.rank(), 1);
    const Tensor value = i % 3 == 0 ? iota({}, 1000) : iota(sizes, 1000);
    if (value.size() == 0 && part.size() != 0) continue;
    const Ints each = broadcast_to(value, part.shape()).to_vector<int64_t>();
    Tensor filled = x;
    set_index(filled, index, value, ScatterMode::kSet, {});
    Ints want_filled = x.to_vector<int64_t>();
    for (std::size_t k = 0; k < sources.size(); ++k) {
      want_filled[static_cast<std::size_t>(sources[k])] = each[k];
    }
    ASSERT_EQ(filled.to_vector<int64_t>(), want_filled)
        << "case " << i << " of shape " << shape.to_string();
  }
  EXPECT_GT(read, 5000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace etude
