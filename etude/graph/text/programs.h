// SPDX-License-Identifier: Apache-2.0
// Scalar programs by their texts: how graphs are printed and read that carry one, and where those
// live that no record has, since passes or texts made them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// "{multiply(x1, x2)}". Several records may have a program of one text: the second such one in the
// order of the registry is "{multiply(x1, x2)}~2".
std::string program_text(const ScalarDef* program);

// The program that has this text, without braces, as the n-th: of a record, or for n = 1 one that
// is made now and kept as long as the process runs. Null if there is none, if the text is none of a
// program (base/scalars/program_text.h), or if 16,384 have been made. Equal texts give one program, so that
// attributes compare them by address. thread-safe.
const ScalarDef* find_program(std::string_view text, uint64_t n);

// The program that program_text() spells so; null if there is none.
const ScalarDef* spelled_program(std::string_view spelled);

}  // namespace internal
}  // namespace etude
