// SPDX-License-Identifier: Apache-2.0
// Reads IDX files, the format of MNIST and Fashion-MNIST: a big-endian header with element type and
// sizes, then the elements. A file may be compressed with gzip, which its first bytes show. Used by
// the data sets of this folder. Files are not trusted: every size is checked against the data
// before memory is allocated for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

struct IdxArray {
  uint8_t type_code = 0;  // 0x08 uint8, 0x09 int8, 0x0B int16, 0x0C int32, 0x0D float32,
                          // 0x0E float64
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;  // the elements in row-major order, in the host's byte order
};

// Reads the array in the file at `path`.
//
// throws: kNotFound when there is no file; kInvalidArgument when it is not a regular file or not an
//         IDX file; kFailedPrecondition when it cannot be opened; kDataLoss when it is truncated,
//         altered, has bytes after its end or declares more than it can hold; kResourceExhausted
//         beyond read_limits().
IdxArray read_idx(const std::string& path, CallSite where = CallSite::here());

// Parses the array in `file`, the content of a file with that `name`.
//
// throws: as read_idx.
// cost:   memory within a small factor of the size of the data.
IdxArray parse_idx(std::span<const uint8_t> file, std::string_view name,
                   CallSite where = CallSite::here());

}  // namespace data
}  // namespace etude
