// SPDX-License-Identifier: Apache-2.0
// Any index expression on any shape is a value or an Error, and a failed write changes nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "etude/ops.h"

namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  int64_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // Small numbers of both signs, now and then an extreme one.
  int64_t number() {
    const int64_t b = next();
    if (b == 255) return INT64_MAX;
    if (b == 254) return INT64_MIN;
    return b % 16 - 8;
  }

 private:
  const uint8_t* data_;
  std::size_t size_;
};

etude::Tensor array(Bytes& in, bool is_mask) {
  etude::Shape shape;
  for (int64_t rank = in.next() % 3; rank > 0; --rank) shape.push_back(in.next() % 4);
  std::vector<int64_t> values(static_cast<std::size_t>(shape.count()));
  for (int64_t& v : values) v = is_mask ? in.next() % 2 : in.number();
  const etude::Tensor t(values, shape);
  return is_mask ? etude::astype(t, etude::kBool) : t;
}

etude::IndexItem item(Bytes& in) {
  switch (in.next() % 7) {
    case 0:
      return etude::kNewAxis;
    case 1:
      return etude::kEllipsis;
    case 2:
      return etude::slice({}, {}, in.number());
    case 3: {
      const int64_t start = in.number(), stop = in.number();
      return etude::slice(start, stop, in.number());
    }
    case 4:
      return array(in, false);
    case 5:
      return array(in, true);
    default:
      return in.number();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  etude::Shape shape;
  for (int64_t rank = in.next() % 5; rank > 0; --rank) shape.push_back(in.next() % 4);
  etude::Tensor x = etude::full(shape, 1.0f);
  const etude::Tensor before = x;
  try {
    etude::Index index;
    while (!in.empty() && index.size() < 20) index.push_back(item(in));
    const etude::Tensor part = etude::get_index(x, index, {});
    etude::set_index(x, index, part, etude::ScatterMode::kSet, {});
    if (!etude::same_value(x, before)) std::abort();
    etude::set_index(x, index, 2.0, etude::ScatterMode::kAdd, {});
  } catch (const etude::Error&) {
    if (x.shape() != shape) std::abort();
  }
  return 0;
}
