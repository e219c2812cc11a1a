// SPDX-License-Identifier: Apache-2.0
// NumPy's files: one array (npy), or arrays with names (npz). A write replaces the whole file or
// leaves it unchanged. Files are not trusted: reading runs no code of a file and refuses arrays of
// Python objects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "etude/core/tensor.h"
#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Reads the array of an npy file, bit for bit. Accepts versions 1 to 3, both byte orders, and
// row-major and column-major arrays.
//
// throws: kNotFound if the file does not exist; kDataLoss, with file and offset, if it is truncated
//         or not an npy file; kUnimplemented for another version, and for a dtype that Etude lacks;
//         kResourceExhausted beyond read_limits().
Tensor load_npy(const std::string& path, CallSite where = CallSite::here());
// Parses the array in `file`, the content of a file with that `name`. throws: as load_npy.
Tensor parse_npy(std::span<const uint8_t> file, std::string_view name,
                 CallSite where = CallSite::here());

// Writes x to an npy file.
//
// throws: kInvalidArgument for an absent tensor; kUnimplemented for bfloat16, which NumPy lacks;
//         the errors of AtomicFile if the file cannot be written.
void save_npy(const std::string& path, const Tensor& x, CallSite where = CallSite::here());

// Returns all arrays of an npz file with their names.
//
// throws: as load_npy. The message names the entry.
NamedTensors load_npz(const std::string& path, CallSite where = CallSite::here());
// Parses the arrays in `file`, the content of a file with that `name`. throws: as load_npz.
NamedTensors parse_npz(std::span<const uint8_t> file, std::string_view name,
                       CallSite where = CallSite::here());

struct NpzOptions {
  bool compress = false;  // with deflate, as numpy.savez_compressed does
};
// Writes `tensors` to an npz file, one entry for each name. throws: as save_npy.
void save_npz(const std::string& path, const NamedTensors& tensors, const NpzOptions& options = {},
              CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
