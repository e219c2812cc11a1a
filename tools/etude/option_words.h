// SPDX-License-Identifier: Apache-2.0
// Messages of the library in the words of the command line: the library proposes options of C++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace etude::tools {

// The message with each option of C++ replaced by the option of `etude`. The test
// option_words_test.py looks for messages without a row.
std::string in_options(std::string_view message);

// Checks of the values of options. The checks of CLI11 accept NaN, and print limits with 300
// digits.
CLI::Validator whole_number(int64_t least);  // from `least` to the largest of 64 bits
CLI::Validator number_from_0();              // finite

}  // namespace etude::tools
