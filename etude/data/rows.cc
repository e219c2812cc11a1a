// SPDX-License-Identifier: Apache-2.0
#include "etude/data/rows.h"

#include <cstring>

#include "etude/base/check.h"
#include "etude/core/call_scope.h"
#include "etude/core/pending.h"

namespace etude::data {
namespace {

const char* bytes_of(const Tensor& x) {
  etude::internal::observe(x);
  return static_cast<const char*>(TensorAccess::data(x));
}

Tensor make_rows(const Tensor& like, std::int64_t rows) {
  Shape shape = like.shape();
  shape.set(0, rows);
  return etude::internal::make_tensor(intern_type(like.dtype(), shape, like.device()));
}

std::int64_t row_bytes(const Tensor& x) {
  return x.shape()[0] == 0 ? 0 : x.nbytes() / x.shape()[0];
}

}  // namespace

Tensor take_rows(const Tensor& x, std::span<const std::int64_t> rows, CallSite where) {
  return etude::internal::located("take_rows", where, [&] {
    const std::int64_t count = internal::count_rows(x, -1, "");
    Tensor out = make_rows(x, static_cast<std::int64_t>(rows.size()));
    const auto bytes = static_cast<std::size_t>(row_bytes(x));
    char* to = static_cast<char*>(TensorAccess::writable(out));
    for (const std::int64_t row : rows) {
      ETUDE_REQUIRE_CODE(kOutOfRange, row >= 0 && row < count,
                         "sample {} is asked for, but there are {}: 0 to {}", row, count,
                         count - 1);
      if (bytes > 0) std::memcpy(to, bytes_of(x) + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
    return out;
  });
}

Tensor slice_rows(const Tensor& x, std::int64_t begin, std::int64_t end, CallSite where) {
  return etude::internal::located("slice_rows", where, [&] {
    const std::int64_t count = internal::count_rows(x, -1, "");
    ETUDE_REQUIRE_CODE(kOutOfRange, 0 <= begin && begin <= end && end <= count,
                       "samples [{}, {}) are asked for, but there are {}", begin, end, count);
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
    Shape shape{static_cast<std::int64_t>(rows.size())};
    for (const std::int64_t size : type->shape().sizes()) shape.push_back(size);
    Tensor out = etude::internal::make_tensor(intern_type(type->dtype(), shape, type->device()));
    const auto bytes = static_cast<std::size_t>(type->bytes());
    char* to = static_cast<char*>(TensorAccess::writable(out));
    for (std::size_t i = 0; i < rows.size(); ++i, to += bytes) {
      ETUDE_REQUIRE(
          rows[i]->type() == type,
          "sample {} of a batch is {}, but sample 0 is {}. Samples of one batch need equal "
          "shapes and dtypes; pad or resize them first",
          i, rows[i]->type()->to_string(), type->to_string());
      if (bytes > 0) std::memcpy(to, bytes_of(*rows[i]), bytes);
    }
    return out;
  });
}

namespace internal {

std::int64_t count_rows(const Tensor& x, std::int64_t expected, const std::string& path) {
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
