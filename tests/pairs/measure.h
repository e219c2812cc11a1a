// SPDX-License-Identifier: Apache-2.0
// Runs a program by the library in all modes and compares with the judge.
#pragma once

#include <string>
#include <vector>

#include "tests/pairs/program.h"

namespace pairs {

// What is wrong with a program: kinds are value, gradient, second, bits, error and crash.
struct Wrong {
  std::string kind, detail;
};
// An error of a mode.
struct Thrown {
  std::string mode, text;
};
struct Outcome {
  std::vector<Wrong> wrong;
  std::vector<Thrown> thrown;
  std::string unjudged;  // why numbers were compared between modes alone; empty: they were not
};
inline constexpr const char* kModes[] = {"eager", "staged", "lazy"};

Outcome outcome_of(const Program& program);
// Warnings of the library are of no interest here.
void silence_warnings();

}  // namespace pairs
