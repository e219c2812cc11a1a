// SPDX-License-Identifier: Apache-2.0
// Prints and parses scalar programs in graphs, and stores the programs that no record has, since
// passes or texts made them.
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

// Returns the n-th program with this text, without braces, among the programs of records. If there
// is none and n = 1, makes the program and keeps it as long as the process runs. Null if there is
// no such program, if the text is not a program (base/scalars/program_text.h), or if 16,384
// programs have been made. Equal texts return the same program, so that attributes compare programs
// by address. threads: thread-safe.
const ScalarDef* find_program(std::string_view text, uint64_t n);
// The same for the text of a program, and n = 1. cost: prints only programs that may be equal.
const ScalarDef* find_program(const scalar::Program& program);

// The program with the spelling of program_text(); null if there is none.
const ScalarDef* spelled_program(std::string_view spelled);

// The place of a program in a record, independent of the order of the registry. If several records
// share the program, the first record by name.
struct ProgramPlace {
  const Op* op = nullptr;  // null: the program is in no record
  // 0: `scalar`; 1 to 3: `partials` by operand; 4 to 6: the derived partials of `scalar`.
  uint32_t place = 0;
  bool operator==(const ProgramPlace&) const = default;
};
inline constexpr uint32_t kProgramPlaces = 7;
ProgramPlace place_of_program(const ScalarDef* program);

// Returns the program with this text at this place. If the record has no program with this text
// there, returns find_program(text, 1).
const ScalarDef* program_at(const ProgramPlace& place, std::string_view text);

}  // namespace internal
}  // namespace etude
