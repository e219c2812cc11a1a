// SPDX-License-Identifier: Apache-2.0
// Reads whole files, for the loaders of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace etude::data::internal {

// throws: kNotFound when there is no file; kInvalidArgument when it is no regular file;
//         kFailedPrecondition when it cannot be opened; kDataLoss when it cannot be read to its
//         end.
std::vector<uint8_t> read_file(const std::string& name);

}  // namespace etude::data::internal
