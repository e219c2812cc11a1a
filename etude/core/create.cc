// SPDX-License-Identifier: Apache-2.0
#include "etude/core/create.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/literal_reader.h"

namespace etude {

Literal::Literal(Kind kind, double real, int64_t integer)
    : kind_(kind), real_(real), integer_(integer) {}
Literal::Literal(std::initializer_list<Literal> items) : kind_(Kind::kList), items_(items) {}
Literal::Literal(const Literal& other) = default;
Literal::~Literal() = default;

Tensor tensor(std::initializer_list<Literal> rows, const TensorOptions& options, CallSite where) {
  return internal::located("tensor", where, [&] {
    internal::LiteralReader reader;
    reader.read({rows.begin(), rows.size()}, 0);
    const DType dtype = options.dtype.value_or(reader.dtype());
    Tensor out = internal::make_tensor(intern_type(dtype, reader.shape));
    char* to = static_cast<char*>(internal::new_host_elements(out));
    for (const Literal* leaf : reader.leaves) {
      const int64_t integer = leaf->integer();
      const double real = leaf->real();
      const bool is_real = leaf->kind() == Literal::Kind::kReal;
      internal::convert_elements(to, dtype, is_real ? static_cast<const void*>(&real) : &integer,
                                 is_real ? kFloat64 : kInt64, 1);
      to += itemsize(dtype);
    }
    return internal::in_scope(std::move(out), where, options.device);
  });
}

Tensor::Tensor(std::initializer_list<Literal> rows, CallSite where)
    : Tensor(etude::tensor(rows, {}, where)) {}

Tensor tensor(const std::vector<Tensor>& parts, const TensorOptions& options, CallSite where) {
  return internal::located("tensor", where, [&] {
    ETUDE_REQUIRE(!parts.empty(), "the list of tensors is empty, so that its shape is not known");
    const Tensor out = internal::stack(parts, 0, where);
    const Tensor cast = options.dtype ? internal::cast(out, *options.dtype, where) : out;
    return options.device ? internal::moved(cast, *options.device, where) : cast;
  });
}

namespace internal {

Tensor tensor_from_host(const void* values, DType from, int64_t count, const Shape& shape,
                        const TensorOptions& options, CallSite where) {
  return internal::located("tensor", where, [&] {
    ETUDE_REQUIRE(shape.is_known(), "shape [{}] has a negative size. Sizes are 0 or more",
                  fmt::join(shape.sizes(), ","));
    ETUDE_REQUIRE(shape.count() == count,
                  "shape {} needs {} elements, but {} were given. Pass another shape",
                  shape.to_string(), shape.count(), count);
    Tensor out = make_tensor(intern_type(options.dtype.value_or(from), shape));
    convert_elements(internal::new_host_elements(out), out.dtype(), values, from, count);
    return internal::in_scope(std::move(out), where, options.device);
  });
}

}  // namespace internal
}  // namespace etude
