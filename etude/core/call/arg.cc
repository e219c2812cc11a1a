// SPDX-License-Identifier: Apache-2.0
#include "etude/core/call/arg.h"

#include <cmath>
#include <limits>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"

namespace etude::internal {
namespace {

void require_fits(const Arg& arg, DType dtype) {
  const std::string_view dtype_name = name(dtype);
  if (arg.kind() == Arg::Kind::kReal) {
    ETUDE_REQUIRE(is_differentiable(dtype),
                  "the number {} would be truncated to {}. Cast the tensor with astype, or use an "
                  "integer",
                  arg.real(), dtype_name);
    return;
  }
  if (arg.kind() == Arg::Kind::kInteger) {
    ETUDE_REQUIRE(dtype != kBool,
                  "the number {} does not adapt to bool. Use true or false, or "
                  "astype the tensor",
                  arg.integer());
    if (!is_integer(dtype)) return;
    int64_t round_trip = 0;
    int64_t value = arg.integer();
    char element[16];
    convert_elements(element, dtype, &value, kInt64, 1);
    convert_elements(&round_trip, kInt64, element, dtype, 1);
    ETUDE_REQUIRE(round_trip == value, "the number {} is outside the range of {}", value,
                  dtype_name);
    return;
  }
  ETUDE_REQUIRE(dtype == kBool || ambient().promotion != Promotion::kStrict,
                "a bool does not adapt to {}. Write 0 or 1", dtype_name);
}

}  // namespace

Tensor adapt(const Arg& arg, DType dtype) {
  require_fits(arg, dtype);
  if (arg.kind() == Arg::Kind::kReal && arg.followed().has_value()) {
    return cast(arg.followed(), dtype);
  }
  Tensor out = make_tensor(intern_type(dtype, {}));
  void* data = internal::new_host_elements(out);
  if (dtype == kFloat32) {  // the usual case, without a conversion loop
    *static_cast<float*>(data) = static_cast<float>(arg.real());
  } else if (arg.kind() == Arg::Kind::kReal) {
    const double value = arg.real();
    convert_elements(data, dtype, &value, kFloat64, 1);
  } else {
    const int64_t value = arg.integer();
    convert_elements(data, dtype, &value, kInt64, 1);
  }
  return out;
}

Tensor materialize(const Arg& arg) {
  switch (arg.kind()) {
    case Arg::Kind::kTensor:
      return *arg.tensor();
    case Arg::Kind::kInteger:
      return Tensor(arg.integer());
    case Arg::Kind::kReal:
      return arg.followed().has_value() ? cast(arg.followed(), ambient().default_dtype)
                                        : Tensor(arg.real());
    case Arg::Kind::kBool:
      break;
  }
  return Tensor(arg.integer() != 0);
}

OptionalArg key_for(const OptionalArg& given, double probability) {
  const Arg key(given, CallSite{});
  const bool is_absent = key.kind() == Arg::Kind::kTensor && !key.tensor()->has_value();
  return is_absent && probability > 0 ? OptionalArg(next_key()) : given;
}

}  // namespace etude::internal
