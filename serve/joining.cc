// SPDX-License-Identifier: Apache-2.0
#include "serve/joining.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/datatype.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

Tensor with_rows(const Tensor& like, int64_t rows, std::string_view bytes) {
  std::vector<int64_t> shape = like.shape().to_vector();
  shape[0] = rows;
  return tensor_of_bytes(like.dtype(), shape, bytes, "");
}

}  // namespace

int64_t rows_of(const io::NamedTensors& inputs) {
  int64_t rows = -1;
  for (const auto& [name, x] : inputs) {
    if (x.rank() == 0 || (rows >= 0 && x.shape()[0] != rows)) return -1;
    rows = x.shape()[0];
  }
  return rows;
}

bool fit_together(const io::NamedTensors& a, const io::NamedTensors& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype() == y.second.dtype() &&
           x.second.rank() == y.second.rank() &&
           std::equal(x.second.shape().begin() + 1, x.second.shape().end(),
                      y.second.shape().begin() + 1);
  });
}

std::size_t requests_of_call(std::span<const int64_t> rows, int64_t most) {
  // A power of two, or three halves of it.
  const auto is_usual = [](uint64_t n) {
    const uint64_t power = std::bit_floor(n);
    return n == power || n == power + power / 2;
  };
  std::size_t out = 0;
  int64_t sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sum += rows[i];
    if (sum == most || is_usual(static_cast<uint64_t>(sum))) out = i + 1;
  }
  // A first request of an unusual size comes alone, or with all others.
  return out > 0 ? out : rows.size();
}

io::NamedTensors join(std::span<const io::NamedTensors* const> all) {
  io::NamedTensors out;
  for (const auto& [name, first] : *all[0]) {
    std::vector<int64_t> shape = first.shape().to_vector();
    shape[0] = 0;
    for (const io::NamedTensors* each : all) shape[0] += each->at(name).shape()[0];
    out.emplace(name, with_element(first.dtype(), [&, &name = name]<class T>(T) {
                  return filled_tensor<T>(shape, [&](std::span<T> to) {
                    auto at = to.begin();
                    for (const io::NamedTensors* each : all) {
                      at = std::ranges::copy(each->at(name).data<T>(), at).out;
                    }
                  });
                }));
  }
  return out;
}

std::vector<io::NamedTensors> split(const io::NamedTensors& joined, std::span<const int64_t> rows) {
  int64_t total = 0;
  for (const int64_t each : rows) total += each;
  std::vector<io::NamedTensors> out(rows.size());
  for (const auto& [name, x] : joined) {
    if (x.rank() == 0 || x.shape()[0] != total || total == 0) {
      refuse(ErrorCode::kInternal, "output '{}' of a joined call has not its {} rows", name, total);
    }
    const std::string_view bytes = bytes_of(x);
    const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(total);
    std::size_t at = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t size = row_bytes * static_cast<std::size_t>(rows[i]);
      out[i].emplace(name, with_rows(x, rows[i], bytes.substr(at, size)));
      at += size;
    }
  }
  return out;
}

}  // namespace etude::serve
