// SPDX-License-Identifier: Apache-2.0
// Scalar programs in texts of graphs. A program has kernels, which no text can give back: it is
// found again among those of all records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/core/op.h"

namespace etude::internal {

// "{multiply(x1, x2)}". Several records may have a program of one text: the second such one in the
// order of the registry is "{multiply(x1, x2)}~2". One that no record has ends in "~?".
std::string program_text(const ScalarDef* program);

// The program of a record that has this text, without braces, as the n-th; null if there is none.
const ScalarDef* find_program(std::string_view text, uint64_t n);

// The program that program_text() spells so; null if there is none.
const ScalarDef* spelled_program(std::string_view spelled);

}  // namespace etude::internal
