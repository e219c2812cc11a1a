// SPDX-License-Identifier: Apache-2.0
// Messages of the library in the words of the command line: the library proposes options of C++.
#pragma once

#include <string>
#include <string_view>

namespace etude::tools {

// The message with each option of C++ replaced by the option of `etude`. The test
// option_words_test.py looks for messages without a row.
std::string in_options(std::string_view message);

}  // namespace etude::tools
