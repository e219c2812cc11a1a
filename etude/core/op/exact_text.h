// SPDX-License-Identifier: Apache-2.0
// Elements of tensors and strings as text that parses back to the same bits. Used for attributes
// and for graphs (graph/text/print.h, graph/text/parse.h). Text for people is in print.cc.
#pragma once

#include <string>
#include <string_view>

namespace etude::internal {

// Prints the fewest digits that parse back to the same bits: "0.1", "-0", "1e+30", "inf", "true",
// "0.5-2j". The canonical NaN is "nan" or "-nan"; any other NaN shows its bits: "nan(0x7fc00001)".
// T is the element type of a dtype.
template <class T>
std::string exact_text(const T& value);

// Parses one element and moves `at` past it. Returns false and leaves `at` unchanged if the text is
// not a T or is beyond the range of T. Accepts other spellings of numbers too.
template <class T>
bool read_exact(const char*& at, const char* end, T& value);

// The text in quotes. Quotes, backslashes and control bytes are escaped; other bytes are unchanged.
std::string quoted_text(std::string_view text);
// Parses the output of quoted_text() and moves `at` past it. Returns false and leaves `at`
// unchanged for other text.
bool read_quoted(const char*& at, const char* end, std::string& text);

}  // namespace etude::internal
