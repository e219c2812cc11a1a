// SPDX-License-Identifier: Apache-2.0
// Elements of tensors and strings as text that gives back the same bits. Used for attributes and
// for graphs (graph/print.h, graph/parse.h). Not for people who look at tensors: print.cc.
#pragma once

#include <string>
#include <string_view>

namespace etude::internal {

// The fewest digits that read back as the same bits: "0.1", "-0", "1e+30", "inf", "true", "0.5-2j".
// The usual NaN is "nan" or "-nan"; any other shows its bits: "nan(0x7fc00001)". T is an element
// type of a dtype.
template <class T>
std::string exact_text(const T& value);

// Reads one element and moves `at` behind it. False, and `at` stays, if no T stands there: also for
// a number beyond the range of T. Other spellings of a number are read as well.
template <class T>
bool read_exact(const char*& at, const char* end, T& value);

// The text in quotes: quotes, backslashes and control bytes are escaped, all else stands as it is.
std::string quoted_text(std::string_view text);
// Reads what quoted_text() wrote, and moves `at` behind it. False, and `at` stays, for anything
// else.
bool read_quoted(const char*& at, const char* end, std::string& text);

}  // namespace etude::internal
