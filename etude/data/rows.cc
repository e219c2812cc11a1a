// SPDX-License-Identifier: Apache-2.0
#include "etude/data/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/pending.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/traced.h"

namespace etude::data {
namespace {

void require_elements(const Tensor& x) {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, etude::internal::observe(x), "{}",
                     etude::internal::explain_abstract(x));
}

// x with its elements on the host, where batches are made.
Tensor on_host(const Tensor& x) {
  require_elements(x);
  return etude::internal::at_home(x);
}

const char* bytes_of(const Tensor& on_host) {
  return static_cast<const char*>(etude::internal::host_elements(on_host));
}

Tensor make_rows(const Tensor& like, int64_t rows) {
  Shape shape = like.shape();
  shape.set(0, rows);
  return etude::internal::make_tensor(intern_type(like.dtype(), shape));
}

int64_t row_bytes(const Tensor& x) { return x.shape()[0] == 0 ? 0 : x.nbytes() / x.shape()[0]; }

}  // namespace

Tensor take_rows(const Tensor& x, std::span<const int64_t> rows, CallSite where) {
  return etude::internal::located("take_rows", where, [&] {
    const int64_t count = internal::count_rows(x, -1, "");
    Tensor out = make_rows(x, static_cast<int64_t>(rows.size()));
    const auto bytes = static_cast<std::size_t>(row_bytes(x));
    char* to = static_cast<char*>(etude::internal::host_elements_for_writing(out));
    const Tensor from = on_host(x);
    for (const int64_t row : rows) {
      ETUDE_REQUIRE_CODE(kOutOfRange, row >= 0 && row < count,
                         "sample {} was requested, but there are {}: 0 to {}", row, count,
                         count - 1);
      if (bytes > 0) std::memcpy(to, bytes_of(from) + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
    return out;
  });
}

Tensor slice_rows(const Tensor& x, int64_t begin, int64_t end, CallSite where) {
  return etude::internal::located("slice_rows", where, [&] {
    const int64_t count = internal::count_rows(x, -1, "");
    ETUDE_REQUIRE_CODE(kOutOfRange, 0 <= begin && begin <= end && end <= count,
                       "samples [{}, {}) were requested, but there are {}", begin, end, count);
    if (!etude::internal::is_unrun(x)) require_elements(x);
    Shape shape = x.shape();
    shape.set(0, end - begin);
    return etude::internal::with_type(x, intern_type(x.dtype(), shape, x.device()),
                                      begin * row_bytes(x));
  });
}

Tensor stack_rows(std::span<const Tensor* const> rows, CallSite where) {
  return etude::internal::located("stack_rows", where, [&] {
    ETUDE_REQUIRE(!rows.empty(), "a batch needs at least one sample");
    const Type* type = rows[0]->type();
    Shape shape{static_cast<int64_t>(rows.size())};
    for (const int64_t size : type->shape().sizes()) shape.push_back(size);
    Tensor out = etude::internal::make_tensor(intern_type(type->dtype(), shape));
    const auto bytes = static_cast<std::size_t>(type->bytes());
    char* to = static_cast<char*>(etude::internal::host_elements_for_writing(out));
    for (std::size_t i = 0; i < rows.size(); ++i, to += bytes) {
      ETUDE_REQUIRE(
          rows[i]->type() == type,
          "sample {} of a batch is {}, but sample 0 is {}. Samples of one batch need equal "
          "shapes and dtypes; pad or resize them first",
          i, rows[i]->type()->to_string(), type->to_string());
      if (bytes > 0) std::memcpy(to, bytes_of(on_host(*rows[i])), bytes);
    }
    return out;
  });
}

Tensor row_at(const Tensor& x, int64_t row, CallSite where) {
  return etude::internal::located("row_at", where, [&] {
    const int64_t count = internal::count_rows(x, -1, "");
    ETUDE_REQUIRE_CODE(kOutOfRange, row >= 0 && row < count,
                       "sample {} was requested, but there are {}: 0 to {}", row, count, count - 1);
    if (!etude::internal::is_unrun(x)) require_elements(x);
    Shape shape;
    for (const int64_t size : x.shape().sizes().subspan(1)) shape.push_back(size);
    return etude::internal::with_type(x, intern_type(x.dtype(), shape, x.device()),
                                      row * row_bytes(x));
  });
}

namespace {

// The largest size of each axis, after an axis for the rows.
Shape padded_shape(std::span<const Tensor* const> rows) {
  const Type* type = rows[0]->type();
  Shape shape{static_cast<int64_t>(rows.size())};
  for (const int64_t size : type->shape().sizes()) shape.push_back(size);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Type* other = rows[i]->type();
    ETUDE_REQUIRE(other->dtype() == type->dtype() && other->rank() == type->rank(),
                  "sample {} of a padded batch is {}, but sample 0 is {}. Samples may differ in "
                  "their sizes, not in dtype or rank",
                  i, other->to_string(), type->to_string());
    for (int axis = 0; axis < type->rank(); ++axis) {
      shape.set(axis + 1, std::max(shape[axis + 1], other->shape()[axis]));
    }
  }
  return shape;
}

// Copies runs along the last axis of x into the corner of `to`, whose sizes are `sizes`.
void copy_corner(const char* from, char* to, std::span<const int64_t> x,
                 std::span<const int64_t> sizes, std::size_t element) {
  if (x.empty()) {
    std::memcpy(to, from, element);
    return;
  }
  std::size_t from_bytes = element, to_bytes = element;  // of one step along the first axis
  for (std::size_t axis = 1; axis < x.size(); ++axis) {
    from_bytes *= static_cast<std::size_t>(x[axis]);
    to_bytes *= static_cast<std::size_t>(sizes[axis]);
  }
  if (from_bytes == 0) return;
  const auto steps = static_cast<std::size_t>(x[0]);
  if (from_bytes == to_bytes) {
    if (steps > 0) std::memcpy(to, from, steps * from_bytes);
    return;
  }
  for (std::size_t i = 0; i < steps; ++i) {
    copy_corner(from + i * from_bytes, to + i * to_bytes, x.subspan(1), sizes.subspan(1), element);
  }
}

template <class T>
T fill_value(double value) {
  if constexpr (etude::internal::kIsHalf<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (etude::internal::kIsComplex<T>) {
    return T(static_cast<typename T::value_type>(value));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    // The limits as numbers that double has: the one above is the first that does not fit.
    const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
    ETUDE_REQUIRE(
        value < above && value >= (std::is_signed_v<T> ? -above : 0) && value == std::trunc(value),
        "batches of whole numbers cannot be filled up with {}; pass a value of their dtype", value);
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

Tensor stack_padded(std::span<const Tensor* const> rows, double value, CallSite where) {
  return etude::internal::located("stack_padded", where, [&] {
    ETUDE_REQUIRE(!rows.empty(), "a batch needs at least one sample");
    const Shape shape = padded_shape(rows);
    const Type* type = intern_type(rows[0]->dtype(), shape);
    Tensor out = etude::internal::make_tensor(type);
    char* to = static_cast<char*>(etude::internal::host_elements_for_writing(out));
    visit_dtype(type->dtype(), [&]<class T>() {
      std::fill_n(reinterpret_cast<T*>(to), type->count(), fill_value<T>(value));
    });
    const auto sizes = shape.sizes().subspan(1);
    const std::size_t element = static_cast<std::size_t>(itemsize(type->dtype()));
    std::size_t bytes = element;
    for (const int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
    for (const Tensor* row : rows) {
      if (row->size() > 0)
        copy_corner(bytes_of(on_host(*row)), to, row->shape().sizes(), sizes, element);
      to += bytes;
    }
    return out;
  });
}

namespace internal {

Columns::Columns() = default;
Columns::~Columns() = default;

void Columns::add(const Tensor& leaf) {
  if (next_ == rows_.size()) rows_.emplace_back();
  rows_[next_++].push_back(&leaf);
}

std::span<const Tensor* const> Columns::at(std::size_t place) const {
  return {rows_[place].data(), rows_[place].size()};
}

int64_t count_rows(const Tensor& x, int64_t expected, const std::string& path) {
  const std::string name = path.empty() ? "the tensor" : "'" + path + "'";
  ETUDE_REQUIRE(x.has_value(), "{} is absent, so it holds no samples", name);
  ETUDE_REQUIRE(x.rank() > 0, "{} is a scalar; the first axis has to count the samples", name);
  ETUDE_REQUIRE(expected < 0 || x.shape()[0] == expected,
                "{} has {} samples (shape {}), but the tensors before it have {}", name,
                x.shape()[0], x.shape().to_string(), expected);
  return x.shape()[0];
}

}  // namespace internal
}  // namespace etude::data
