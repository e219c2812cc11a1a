// SPDX-License-Identifier: Apache-2.0
// Reads IDX files, the format of MNIST and Fashion-MNIST: a big-endian header with element type and
// sizes, then the elements. A file may be compressed with gzip; its first bytes show this. Used by
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
// throws: kNotFound if there is no file; kInvalidArgument if the file is not a regular file or not
//         an IDX file; kFailedPrecondition without permission to read the file; kDataLoss if the
//         file is truncated or altered, has additional bytes at its end, or declares more data than
//         it can contain; kResourceExhausted beyond read_limits().
IdxArray read_idx(const std::string& path, CallSite where = CallSite::here());

// Parses `file`, the content of an IDX file. `name` is for errors.
//
// throws: as read_idx, for the content.
// cost:   memory within a small factor of the size of the data.
IdxArray parse_idx(std::span<const uint8_t> file, std::string_view name,
                   CallSite where = CallSite::here());

}  // namespace data
}  // namespace etude
