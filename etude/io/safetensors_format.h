// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: the length in 8 bytes, little-endian, then JSON that states the
// dtype, shape and position of each tensor in the data after the header. Knows no tensor and copies
// no data. Used by the safetensors reader and writer and by checkpoints. Files are not trusted: all
// claims of the header are checked against the size of the file before they are used.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/files/read_budget.h"

namespace etude::internal {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // BOOL U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64 C64
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, counted from the data's start
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the data, which they cover exactly
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  // of the data's start in the file; need not be aligned
};

// The size of one element, or 0 for an unknown dtype.
uint64_t safetensors_element_bytes(std::string_view dtype);

// Parses the header of a file: `begin` is its first bytes, at least up to the end of the header.
//
// throws: kDataLoss when the file is truncated or breaks a rule of the format: a header of more
//         than 100,000,000 bytes, JSON of another form, a duplicate key, numbers that are not
//         sizes, positions that do not fit the shapes, holes or overlaps in the data, bytes after
//         it; kUnimplemented for an unknown dtype; kResourceExhausted beyond the budget.
// cost:   linear in the header; the data is not touched.
SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> begin, uint64_t file_bytes,
                                           ReadBudget& budget);
// The same for the whole content of a file called `name`.
SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> file, std::string_view name);
// The number of bytes up to the end of the header, which the first 8 bytes of a file state.
// throws: kDataLoss for a file that ends before.
uint64_t safetensors_header_end(std::span<const uint8_t> begin, uint64_t file_bytes,
                                std::string_view name);

// Returns the bytes before the data in a file with these entries. Sorts them by falling element
// size, then name, and sets `begin` and `end`: the data has to be written in this order. The length
// of the result is a multiple of 8, so that every tensor is aligned.
//
// throws: kInvalidArgument for a name that is duplicate, is not UTF-8 or is "__metadata__", for
//         an unknown dtype, a negative size, or more bytes than 64 bits can count;
//         kResourceExhausted for a header of more than 100,000,000 bytes.
std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata);

}  // namespace etude::internal
