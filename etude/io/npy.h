// SPDX-License-Identifier: Apache-2.0
// NumPy's files: one array (npy), or arrays by name (npz). Files are written whole or not at all,
// and are not trusted when read: nothing in them runs, and arrays of Python objects are refused.
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

// Reads the array of an npy file, bit for bit: versions 1 to 3, either byte order, row-major or
// column-major.
//
// throws: kNotFound when there is no file; kDataLoss, with file and offset, when it is truncated or
//         not an npy file; kUnimplemented for a dtype that Etude lacks.
Tensor load_npy(const std::string& path, CallSite where = CallSite::here());
// Parses the array in `file`, the content of a file with that `name`. throws: as load_npy.
Tensor parse_npy(std::span<const std::uint8_t> file, std::string_view name,
                 CallSite where = CallSite::here());

// throws: kInvalidArgument for an absent tensor; kUnimplemented for bfloat16, which NumPy lacks;
//         for the file: the errors of AtomicFile.
void save_npy(const std::string& path, const Tensor& x, CallSite where = CallSite::here());

// Reads all arrays of an npz file, by name. throws: as load_npy, with the name of the entry.
NamedTensors load_npz(const std::string& path, CallSite where = CallSite::here());
// Parses the arrays in `file`, the content of a file with that `name`. throws: as load_npy.
NamedTensors parse_npz(std::span<const std::uint8_t> file, std::string_view name,
                       CallSite where = CallSite::here());

struct NpzOptions {
  bool compress = false;  // deflate, as numpy.savez_compressed
};
// throws: as save_npy.
void save_npz(const std::string& path, const NamedTensors& tensors, const NpzOptions& options = {},
              CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
