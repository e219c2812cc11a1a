// SPDX-License-Identifier: Apache-2.0
// Messages of the library in the spelling of Python. The library is written in C++, and its
// messages propose C++: a program of Python reads the same advice in its own language.
#pragma once

#include <string>
#include <string_view>

namespace etude::python {

// The message with every C++ expression of the library replaced by its form in Python. The test
// test_spelling.py looks for messages of the library without such a form.
std::string in_python(std::string_view message);

// The same for the documentation of an op or a kind, which also names errors: "throws:
// kInvalidArgument for" becomes "Raises: InvalidArgumentError for".
std::string doc_in_python(std::string_view doc);

}  // namespace etude::python
