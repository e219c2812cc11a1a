// SPDX-License-Identifier: Apache-2.0
#include "serve/probe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "serve/datatype.h"
#include "serve/joining.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

// Inputs whose open sizes are `rows` on axis 0 and `others` on the other axes.
io::NamedTensors constant_inputs(const ModelMetadata& metadata, int64_t rows, int64_t others,
                                 char byte) {
  io::NamedTensors out;
  for (const TensorMetadata& each : metadata.inputs) {
    std::vector<int64_t> shape = each.shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) shape[i] = i == 0 ? rows : others;
    }
    static_cast<void>(element_count(shape, each.dtype, each.name));
    out.emplace(each.name, with_element(each.dtype, [&]<class T>(T) {
                  return filled_tensor<T>(shape, [&](std::span<T> all) {
                    std::ranges::fill(all, static_cast<T>(static_cast<float>(byte)));
                  });
                }));
  }
  return out;
}

// The numbers of a call: integers from 0 to `integers`, which may be indices, and normal floats.
struct Scale {
  uint32_t integers = 1;
  float floats = 1;
};

Tensor random_tensor(const TensorMetadata& metadata, int64_t rows, const Scale& scale,
                     std::mt19937& generator) {
  std::vector<int64_t> shape = metadata.shape;
  for (int64_t& size : shape) size = size < 0 ? 2 : size;
  shape[0] = rows;
  static_cast<void>(element_count(shape, metadata.dtype, metadata.name));
  return with_element(metadata.dtype, [&]<class T>(T) {
    std::normal_distribution<float> normal(0, scale.floats);
    return filled_tensor<T>(shape, [&](std::span<T> all) {
      for (T& value : all) {
        if constexpr (std::is_same_v<T, bool>) {
          value = (generator() & 1) != 0;
        } else if constexpr (std::is_integral_v<T>) {
          value = static_cast<T>(generator() % (scale.integers + 1));
        } else {
          value = static_cast<T>(normal(generator));
        }
      }
    });
  });
}

Joining compare(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !std::ranges::equal(a.shape(), b.shape())) return Joining::kNone;
  if (bytes_of(a) == bytes_of(b)) return Joining::kEqual;
  if (!is_floating(a.dtype())) return Joining::kNone;
  // 16-bit dtypes have 3 and 2 digits.
  const double relative = itemsize(a.dtype()) == 2 ? 3e-2 : 1e-3;
  const std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  // A small result may be the difference of large numbers.
  double largest = 1;
  for (const double value : left) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool both_nan = std::isnan(left[i]) && std::isnan(right[i]);
    const double bound =
        relative * (std::max(std::fabs(left[i]), std::fabs(right[i])) + 1e-2 * largest);
    if (!both_nan && left[i] != right[i] && !(std::fabs(left[i] - right[i]) <= bound)) {
      return Joining::kNone;
    }
  }
  return Joining::kClose;
}

// Sets the shapes from the results for open sizes 2, for 3, and for 3 rows with other sizes 2.
void set_shapes(ModelMetadata& metadata, const io::NamedTensors& two, const io::NamedTensors& three,
                const io::NamedTensors& rows) {
  for (TensorMetadata& each : metadata.outputs) {
    const std::vector<int64_t> small = two.at(each.name).shape().to_vector();
    const std::vector<int64_t> large = three.at(each.name).shape().to_vector();
    const std::vector<int64_t> tall = rows.at(each.name).shape().to_vector();
    each.fixed_rank = small.size() == large.size();
    each.shape = small;
    for (std::size_t i = 0; i < std::min(small.size(), large.size()); ++i) {
      if (small[i] != large[i]) each.shape[i] = -1;
    }
    bool leads = !small.empty() && small.size() == tall.size() && small[0] == 2 && tall[0] == 3;
    leads = leads && std::equal(small.begin() + 1, small.end(), tall.begin() + 1);
    metadata.has_batch_axis = metadata.has_batch_axis && leads;
    each.is_known = true;
  }
}

// Compares a call with calls of its parts, which have `rows` rows.
Joining compare_call(const ModelMetadata& metadata, const std::vector<int64_t>& rows,
                     const Scale& scale, std::mt19937& generator, const ModelCall& f) {
  std::vector<io::NamedTensors> inputs;
  std::vector<const io::NamedTensors*> all;
  for (const int64_t each : rows) {
    io::NamedTensors made;
    for (const TensorMetadata& input : metadata.inputs) {
      made.emplace(input.name, random_tensor(input, each, scale, generator));
    }
    inputs.push_back(std::move(made));
  }
  for (const io::NamedTensors& each : inputs) all.push_back(&each);
  const std::vector<io::NamedTensors> parts = split(f(join(all)), rows);
  Joining out = Joining::kEqual;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const io::NamedTensors alone = f(inputs[i]);
    for (const auto& [name, x] : alone) {
      const auto found = parts[i].find(name);
      if (found == parts[i].end()) return Joining::kNone;
      out = std::min(out, compare(x, found->second));
    }
  }
  return out;
}

}  // namespace

std::string find_output_sizes(ModelMetadata& metadata, const ModelCall& f) {
  if (std::ranges::all_of(metadata.outputs, &TensorMetadata::is_known)) return "";
  std::string reason;
  for (const char byte : {1, 0}) {
    try {
      const auto call = [&](int64_t rows, int64_t others) {
        return f(constant_inputs(metadata, rows, others, byte));
      };
      set_shapes(metadata, call(2, 2), call(3, 3), call(3, metadata.has_batch_axis ? 2 : 3));
      return "";
    } catch (const std::exception& error) {
      reason = error_of(error).text();
    }
  }
  metadata.has_batch_axis = false;
  return reason;
}

Joining compare_joined(const ModelMetadata& metadata, int64_t most, const ModelCall& f) {
  std::vector<std::vector<int64_t>> calls = {{1, 3, 2, 1}};
  const int64_t half = most / 2;
  if (most == 2) calls = {{1, 1}};
  if (most > 2) calls.push_back({1, half, most - half - 1});
  std::mt19937 generator(1);
  Joining out = Joining::kEqual;
  for (const std::vector<int64_t>& rows : calls) {
    out = std::min(out, compare_call(metadata, rows, {}, generator, f));
    if (out == Joining::kNone) return out;
  }
  for (const Scale& scale : {Scale{1, 100}, Scale{100, 1}}) {
    for (const std::vector<int64_t>& rows : calls) {
      if (out == Joining::kNone) return out;
      try {
        out = std::min(out, compare_call(metadata, rows, scale, generator, f));
      } catch (const Error& error) {
        // Other errors: these numbers do not fit the model.
        if (error.code() == ErrorCode::kInternal) throw;
      }
    }
  }
  return out;
}

}  // namespace etude::serve
