// SPDX-License-Identifier: Apache-2.0
// The requirements of scan on its body and its argument types, and the messages for violations. For
// scan.h only.
#pragma once

#include <type_traits>

#include "etude/diff/internal/replace_scalars.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The requirements, in the order in which they are checked.
template <class Body, class State, class Params, class... X>
struct ScanNeeds {
  static constexpr bool captures_nothing =
      std::is_empty_v<Body> && std::is_default_constructible_v<Body>;
  static constexpr bool has_tangent = HasTangent<State>;
  static constexpr bool has_size = scalar_count<State>() != kUnknownCount &&
                                   scalar_count<Params>() != kUnknownCount &&
                                   ((scalar_count<X>() != kUnknownCount) && ...);
  static constexpr bool has_numbers_alone = holds_only_numbers<State>() &&
                                            holds_only_numbers<Params>() &&
                                            (holds_only_numbers<X>() && ...);
  static constexpr bool are_met = captures_nothing && has_tangent && has_size && has_numbers_alone;
};
// Reports the violated requirement.
template <class Body, class State, class Params, class... X>
struct ScanRefused : ScanNeeds<Body, State, Params, X...> {
  using Needs = ScanNeeds<Body, State, Params, X...>;
  static constexpr bool captures_nothing = Needs::captures_nothing;
  static_assert(captures_nothing,
                "etude: the body of scan must capture nothing; pass what it reads as parameters or "
                "as sequences");
  static constexpr bool has_tangent = !captures_nothing || Needs::has_tangent;
  static_assert(has_tangent,
                "etude: derivative of 'scan' needs Differentiable<State>; State has no tangent "
                "type");
  static constexpr bool has_size = !captures_nothing || !has_tangent || Needs::has_size;
  static_assert(has_size,
                "etude: scan needs states, parameters and elements with a number of numbers that "
                "their types say; use std::array for std::vector");
  static constexpr bool has_numbers_alone =
      !captures_nothing || !has_tangent || !has_size || Needs::has_numbers_alone;
  static_assert(has_numbers_alone,
                "etude: the body of scan computes with numbers alone; make flags, integers and "
                "whatever else a state, the parameters or an element holds floating-point numbers");
};

}  // namespace internal
}  // namespace etude
