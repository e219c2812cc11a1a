// SPDX-License-Identifier: Apache-2.0
// What must hold for a node by itself, for verify.cc and parse.cc.
#pragma once

#include <span>

#include "etude/core/op.h"

namespace etude::internal {

// The result types of a call that a graph may hold. Unlike a call of a user it has operands of one
// dtype where the record shares one, and no result with a size that data tells.
// throws: kInvalidArgument or what the type rule throws, without the op's name.
Types check_call(const Op& op, std::span<const Type* const> operands, const Attrs& attrs);

}  // namespace etude::internal
