// SPDX-License-Identifier: Apache-2.0
// Makes a program smaller that goes wrong, while it goes wrong in the same way.
#pragma once

#include <string>

#include "tests/pairs/program.h"

namespace pairs {

// Runs smaller programs in children.
Program shrunk(Program program, const std::string& kind);

}  // namespace pairs
