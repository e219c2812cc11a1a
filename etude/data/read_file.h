// SPDX-License-Identifier: Apache-2.0
// Reads whole files, for the loaders of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace etude::data::internal {

// No file of a data set is larger than this.
inline constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

// throws: kNotFound when there is no file; kInvalidArgument when it is no regular file or cannot be
//         opened; kDataLoss when it is larger than kMaxBytes or cannot be read to its end.
std::vector<uint8_t> read_file(const std::string& name);

}  // namespace etude::data::internal
