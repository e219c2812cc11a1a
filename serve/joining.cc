// SPDX-License-Identifier: Apache-2.0
#include "serve/joining.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <type_traits>
#include <utility>

#include "etude/core/shape.h"
#include "serve/datatype.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

Tensor with_rows(const Tensor& like, int64_t rows, std::string_view bytes) {
  std::vector<int64_t> shape(like.shape().begin(), like.shape().end());
  shape[0] = rows;
  return tensor_of_bytes(like.dtype(), shape, bytes, "");
}

// 0 and 1 for integers, since they may be indices.
Tensor random_tensor(const TensorMetadata& metadata, int64_t rows, std::mt19937& generator) {
  std::vector<int64_t> shape = metadata.shape;
  for (int64_t& size : shape) size = size < 0 ? 2 : size;
  shape[0] = rows;
  const int64_t count = element_count(shape, metadata.dtype, metadata.name);
  return with_element(metadata.dtype, [&]<class T>(T) {
    const auto values = std::make_unique<T[]>(static_cast<std::size_t>(count));
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        values[static_cast<std::size_t>(i)] = static_cast<T>(generator() & 1);
      } else {
        values[static_cast<std::size_t>(i)] = static_cast<T>(normal(generator));
      }
    }
    return Tensor(std::span<const T>(values.get(), static_cast<std::size_t>(count)), Shape(shape),
                  CallSite{});
  });
}

Agreement compare(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !std::ranges::equal(a.shape(), b.shape())) return Agreement::kDiffer;
  if (bytes_of(a) == bytes_of(b)) return Agreement::kEqual;
  if (!is_floating(a.dtype())) return Agreement::kDiffer;
  // 16-bit dtypes have 3 and 2 digits.
  const double relative = itemsize(a.dtype()) == 2 ? 3e-2 : 1e-3;
  const std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool both_nan = std::isnan(left[i]) && std::isnan(right[i]);
    const double bound = relative * std::max(std::fabs(left[i]), std::fabs(right[i])) + 1e-5;
    if (!both_nan && left[i] != right[i] && !(std::fabs(left[i] - right[i]) <= bound)) {
      return Agreement::kDiffer;
    }
  }
  return Agreement::kClose;
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

io::NamedTensors join(std::span<const io::NamedTensors* const> all) {
  io::NamedTensors out;
  for (const auto& [name, first] : *all[0]) {
    std::string bytes;
    int64_t rows = 0;
    for (const io::NamedTensors* each : all) {
      const Tensor& x = each->at(name);
      bytes += bytes_of(x);
      rows += x.shape()[0];
    }
    out.emplace(name, with_rows(first, rows, bytes));
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

Agreement compare_joined(const ModelMetadata& metadata,
                         const std::function<io::NamedTensors(const io::NamedTensors&)>& f) {
  constexpr int64_t kRows[] = {1, 3, 2, 1};
  std::mt19937 generator(1);
  std::vector<io::NamedTensors> inputs;
  std::vector<const io::NamedTensors*> all;
  for (const int64_t rows : kRows) {
    io::NamedTensors made;
    for (const TensorMetadata& each : metadata.inputs) {
      made.emplace(each.name, random_tensor(each, rows, generator));
    }
    inputs.push_back(std::move(made));
  }
  for (const io::NamedTensors& each : inputs) all.push_back(&each);
  const std::vector<io::NamedTensors> parts = split(f(join(all)), kRows);
  Agreement out = Agreement::kEqual;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const io::NamedTensors alone = f(inputs[i]);
    for (const auto& [name, x] : alone) {
      const auto found = parts[i].find(name);
      if (found == parts[i].end()) return Agreement::kDiffer;
      out = std::min(out, compare(x, found->second));
    }
  }
  return out;
}

}  // namespace etude::serve
