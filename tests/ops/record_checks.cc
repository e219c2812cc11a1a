// SPDX-License-Identifier: Apache-2.0
// The samples and the errors of a record.
#include <fmt/format.h>

#include "tests/ops/checks.h"

namespace etude::matrix {

void check_samples(const Op& op) {
  // Calls on state are no functions of their operands: the tests of the owner of the state have
  // them.
  if (op.def().effect != Effect::kNone) return;
  bool takes_code = false;  // calls are made of other records
  for (const AttrDef& a : op.def().attrs) {
    takes_code = takes_code || a.kind == AttrKind::kProgram || holds_graphs(a.kind);
  }
  const bool standard = op.def().kind == Kind::kElementwise || takes_code;
  expect(standard || !op.def().samples.calls.empty(), std::string(op.name()),
         [] { return std::string("has no samples: add .samples = {.calls = ...} to its record"); });
  int tried = 0;
  for (const DType dtype : dtypes_of(op)) {
    for (const Call& call : calls_of(op, dtype)) {
      try {
        run(call);
        ++tried;
      } catch (const Error&) {  // check_refusals() knows which
      }
    }
  }
  expect(tried > 0, std::string(op.name()),
         [] { return std::string("refuses all of its samples"); });
}

// spec: IM-12.a, R29
void check_error(const Op& op, std::size_t index) {
  const ErrorCase& c = op.def().errors[index];
  const std::string label = fmt::format("{} error {}", op.name(), index);
  std::string first = "no error";
  // A fault of the data shows with zeros or with large numbers, one of types with any.
  for (const Fill fill : {Fill::kDrawn, Fill::kZeros, Fill::kHundreds}) {
    try {
      const Call call = error_call(op, c, fill);
      execute(op, call.list().view(), call.attrs, CallSite::here());
    } catch (const Error& error) {
      std::string seen = error.what();
      if (error.code() != c.code) seen += fmt::format(" ({})", to_string(error.code()));
      const bool fits = seen.find(c.fragment) != std::string::npos && error.code() == c.code;
      const bool named = seen.starts_with(fmt::format("{}: ", op.name()));
      const bool located = seen.find("record_checks.cc:") != std::string::npos;
      if (fits && (!named || !located))
        seen += "\nwithout the op's name in front or the line of the call";
      if (fits && named && located) {
        expect(true, label, nullptr);
        return;
      }
      if (first == "no error") first = seen;
    }
  }
  expect(false, label, [&] {
    return fmt::format("got '{}', want {}: ...{}...", first, to_string(c.code), c.fragment);
  });
}

}  // namespace etude::matrix
