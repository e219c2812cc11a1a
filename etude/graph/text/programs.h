// SPDX-License-Identifier: Apache-2.0
// Scalar programs by their texts: printing and parsing of programs in graphs, and storage for
// programs that no record has, since passes or texts made them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// "{multiply(x1, x2)}". If several records have programs with this text, the second in the order of
// the registry is "{multiply(x1, x2)}~2".
std::string program_text(const ScalarDef* program);

// The n-th program with this text, without braces: from a record, or for n = 1 a program that is
// made now and kept as long as the process runs. Null if there is none, if the text is not a
// program (base/scalars/program_text.h), or if 16,384 have been made. Equal texts return the same
// program, so that attributes compare programs by address. threads: thread-safe.
const ScalarDef* find_program(std::string_view text, uint64_t n);

// The program with the spelling of program_text(); null if there is none.
const ScalarDef* spelled_program(std::string_view spelled);

// The place of a program in a record, independent of the order of the registry: the first by name
// if several records share it.
struct ProgramPlace {
  const Op* op = nullptr;  // null: the program is in no record
  // 0: `scalar`; 1 to 3: `partials` by operand; 4 to 6: the derived partials of `scalar`.
  uint32_t place = 0;
  bool operator==(const ProgramPlace&) const = default;
};
inline constexpr uint32_t kProgramPlaces = 7;
ProgramPlace place_of_program(const ScalarDef* program);

// The program with this text at this place. If the record has none there or one with another text,
// a program with this text from elsewhere, as by find_program(text, 1).
const ScalarDef* program_at(const ProgramPlace& place, std::string_view text);

}  // namespace internal
}  // namespace etude
