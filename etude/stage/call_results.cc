// SPDX-License-Identifier: Apache-2.0
// Results and in-out arguments of calls of functions: sparse rows as outputs of a graph, and the
// changes of arguments that a call may make.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/create.h"
#include "etude/core/op/slices.h"
#include "etude/stage/function.h"
#include "etude/stage/function_core.h"

namespace etude::internal {

void TraceResult::add_result(Tensor& y) {
  const std::optional<IndexedSlices> rows = y.slices();
  if (!rows) {
    outputs.push_back(y);
    y = y.type()->abstract_tensor();
    return;
  }
  std::vector<int64_t> sizes = {0};
  for (const int64_t size : rows->dense_shape.sizes()) sizes.push_back(size == kAny ? 0 : size);
  outputs.push_back(rows->indices);
  outputs.push_back(rows->values);
  outputs.push_back(full(intern_type(y.dtype(), Shape(sizes), y.device()), 0));
  y = make_slices({rows->indices.type()->abstract_tensor(), rows->values.type()->abstract_tensor(),
                   rows->dense_shape, rows->from});
}

void put_rows(Tensor& y, Values& out, std::size_t& next) {
  IndexedSlices rows = *y.slices();
  rows.indices = std::move(out[next]);
  rows.values = std::move(out[next + 1]);
  const Shape& sizes = out[next + 2].type()->shape();
  for (int axis = 0; axis < rows.dense_shape.rank(); ++axis) {
    if (rows.dense_shape[axis] != kAny) rows.dense_shape.set(axis, sizes[axis + 1]);
  }
  next += 3;
  y = make_slices(std::move(rows));
}

void throw_host_change(const std::string& name, const std::string& path) {
  ETUDE_THROW(
      kInvalidArgument,
      "function '{}' changes {}, a host value of an argument, while it is traced. That would "
      "happen once and not at each call. Make it a tensor, or change it outside",
      name, path);
}

void mark_tensors(std::vector<uint8_t>& may_write, std::size_t count, bool is_in_out) {
  may_write.insert(may_write.end(), count, is_in_out ? 1 : 0);
}

void require_distinct(const Arguments& call, const std::vector<uint8_t>& may_write,
                      const ArgumentNames& names) {
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      ETUDE_REQUIRE(!call.are_same(i, k) || !(may_write[i] || may_write[k]),
                    "{} and {} are the same object, and the function may write to it. Pass two "
                    "objects",
                    names.tensors[k], names.tensors[i]);
    }
  }
}

bool has_form(const TraceKey& kept, const Arguments& after) {
  return after.tensors.size() == kept.types.size() && after.words.size() == kept.words.size() &&
         after.objects.size() == kept.objects.size() &&
         std::ranges::equal(kept.types, after.tensors, [](const Type* type, const Tensor* x) {
           return (type != nullptr) == x->has_value();
         });
}

std::string find_change(const TraceKey& kept, const Arguments& after, const ArgumentNames& names) {
  for (std::size_t i = 0; i < kept.words.size(); ++i) {
    if (after.words[i] != kept.words[i]) return names.words[i];
  }
  for (std::size_t i = 0; i < kept.objects.size(); ++i) {
    const HostValue& now = after.objects[i];
    if (now.equal != kept.objects[i].equal || !now.equal(now.value, kept.objects[i].value)) {
      return names.objects[i];
    }
  }
  return "";
}

}  // namespace etude::internal
